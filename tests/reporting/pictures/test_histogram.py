"""Distributions over texts and curves of quality against diversity, drawn from invented results."""

import csv
from pathlib import Path

import numpy as np
import pytest

from depgen.cli import main
from depgen.errors import UserError
from depgen.reporting.pictures.histogram import draw_histogram, edges_of
from depgen.reporting.pictures.tradeoff import system_of, tradeoff_figure
from depgen.reporting.results import load_results
from depgen.reporting.table import load_definition


def shares(path):
    """The lines of a CSV, as numbers, below its header."""
    head, *lines = csv.reader(Path(path).read_text().splitlines())
    return head, np.array(lines, dtype=float)


def test_whole_numbers_have_a_bin_each_and_rows_a_column(project, store, capsys):
    store("Base", 1, {"bleu1": 2.0}, {"bleu1": [1, 2, 2, 3]})
    store("DM-Base", 1, {"bleu1": 4.0}, {"bleu1": [4, 4]})
    assert main(["histogram", "toy", "--size", "small"]) == 0
    said = capsys.readouterr().out
    assert "results/toy/histogram-small.png" in said
    assert "Base 2 over 4; DM-Base 4 over 2" in said
    assert Path("results/toy/histogram-small.png").stat().st_size > 5000
    head, lines = shares("results/toy/histogram-small.csv")
    assert head == ["from", "to", "Base", "DM-Base"]
    assert lines[:, 0].tolist() == [0.5, 1.5, 2.5, 3.5]
    assert lines[:, 2:].T.tolist() == [[0.25, 0.5, 0.25, 0], [0, 0, 0, 1]]


def test_measures_of_one_row_are_compared_and_seeds_pooled(project, store):
    for seed in (1, 2):
        store("Base", seed, {}, {"bleu1": [0.1 * seed, np.nan], "perplexity": [1.0]})
    said = draw_histogram("toy", size="small", output=Path("picture.png"))
    assert "B-1 0.15 over 2; PPL 1 over 2" in said
    head, lines = shares("picture.csv")
    assert head[2:] == ["B-1", "PPL"]
    assert lines[:, 2:].sum(0).tolist() == [1, 1]
    assert len(lines) == len(edges_of([np.array([0.1, 0.2, 1.0])])) - 1
    assert (lines[0, 0], lines[-1, 1]) == (0.1, 1.0)


def test_a_row_without_any_score_is_left_out(project, store):
    store("Base", 1, {}, {"bleu1": [np.nan, np.nan]})
    with pytest.raises(UserError, match="scores of single items"):
        draw_histogram("toy", size="small", output=Path("picture.png"))


def test_nothing_to_draw_is_said(project, store):
    for draw in ("histogram", "tradeoff"):
        assert main([draw, "toy", "--size", "small"]) == 2
    with pytest.raises(UserError, match="depgen reproduce toy --size small"):
        draw_histogram("toy")


METRICS = {
    "valid_bleu_0.7": 30.0, "valid_bleu_sd_0.7": 1.0, "self_bleu_0.7": 20.0, "self_bleu_sd_0.7": 2.0,
    "valid_bleu_1.0": 20.0, "self_bleu_1.0": 9.0, "valid_bleu": 20.0, "self_bleu": 9.0, "temperature": 1.0,
}  # fmt: skip


def test_a_system_is_a_line_whose_chosen_temperature_is_filled(project, store):
    path = project / "experiments/tables/toy.yaml"
    path.write_text(path.read_text() + "  - {name: Real, experiment: base_toy, floor: train, in_paper: false}\n")
    store("Base", 1, METRICS)
    store("Real", 1, {"valid_bleu": 17.8, "self_bleu": 6.6})
    ours = load_results(load_definition("toy"), size="small")
    systems = [found for row in ours.definition.rows if (found := system_of(ours, row)) is not None]
    assert [(each.row.name, [*each.points], each.chosen) for each in systems] == [
        ("Base", ["0.7", "1.0"], "1.0"),
        ("Real", [""], None),
    ]
    (axes,) = tradeoff_figure(systems).axes
    line, first, chosen, real = axes.lines
    assert line.get_xydata().tolist() == [[20.0, 30.0], [9.0, 20.0]]
    assert first.get_markerfacecolor() == "white"
    assert chosen.get_markerfacecolor() != "white"
    assert real.get_xydata().tolist() == [[6.6, 17.8]]
    ellipse = axes.patches[0]
    assert (ellipse.width, ellipse.height) == (4.0, 2.0)
    assert [each.get_text() for each in axes.texts] == ["0.7", "1.0"]
    assert main(["tradeoff", "toy", "--size", "small"]) == 0
    assert Path("results/toy/tradeoff-small.png").stat().st_size > 5000


def test_a_temperature_that_three_seeds_choose_is_filled(project, store):
    for seed in (1, 2, 3):
        store("Base", seed, {**METRICS, "temperature": 0.7})
    ours = load_results(load_definition("toy"), size="small")
    found = system_of(ours, ours.definition.row("Base"))
    assert found.chosen == "0.7"
    assert found.chosen in found.points
