"""Plots of results: the values of the frames, which of them stand where, and the files."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from depgen.cli import main
from depgen.errors import UserError
from depgen.reporting.pages import record_table
from depgen.reporting.plots import (
    ENDINGS,
    check_name,
    curves_figure,
    figure,
    histogram_frame,
    plot_curves,
    plot_histogram,
    plot_seeds,
    plot_series,
    save,
    seeds_figure,
    seeds_frame,
    series_figure,
    series_frame,
    tradeoff_figure,
    tradeoff_frame,
)
from depgen.reporting.results import load_results
from depgen.reporting.table import load_definition
from tests.reporting.conftest import toy_results

BEGINNINGS = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_ending_decides_and_text_stays_text(tmp_path, ending):
    drawing = figure(3.0, 2.0)
    axes = drawing.add_subplot(title="words over it", xlabel="$5 of $\\frac")
    axes.set_xticks([0, 1], ["$", "a$_$b"])
    path = tmp_path / "deep" / f"a{ending.upper()}"
    save(drawing, path)
    assert path.read_bytes().startswith(BEGINNINGS[ending])
    assert ending != ".svg" or "words over it</text>" in path.read_text()


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: check_name(Path("a.jpg")), r"ends in \.png or \.pdf or \.svg, found a\.jpg"),
        (lambda: plot_curves("toy", size="small"), "Make one: depgen reproduce toy --size small"),
        (lambda: plot_curves("toy", size="small", against="steps"), "a validation curve against steps"),
        (lambda: plot_curves(runs=["a/1"], against="tokens"), "take --against steps or minutes"),
        (lambda: plot_curves(), "Name a table, or --runs"),
        (lambda: plot_series("toy", size="small"), "a measure at an `x`"),
        (lambda: plot_seeds("toy", size="small"), "a measure of its planned comparisons"),
        (lambda: plot_histogram("toy", size="small"), "scores of single items"),
    ],
)
def test_what_can_not_be_drawn_is_refused(project, draw, message):
    with pytest.raises(UserError, match=message):
        draw()


# -- learning curves ----------------------------------------------------------------------------------------------

CLOCK = ((100.0, 60.0), (200.0, 150.0), (400.0, 270.0))


def test_the_axes_hold_the_curves_and_the_lowest_point_of_each():
    points = [(10_000.0, 90.0), (20_000.0, 70.0), (40_000.0, 75.0)]
    runs = [("Base", "Base, seed 1", "exact"), ("Base", "Base, seed 2", "exact"), ("DM", "DM", "exact")]
    lines = [(*run, *point) for run in runs for point in points]
    frame = pd.DataFrame(lines, columns=["system", "run", "likelihood", "cost", "perplexity"])
    (axes,) = curves_figure(frame, title="t", axis="tokens").axes
    assert axes.lines[0].get_xydata().tolist() == list(map(list, points))
    assert axes.lines[1].get_xydata().tolist() == [[20_000.0, 70.0]]
    assert [line.get_color() for line in axes.lines] == ["C0"] * 4 + ["C1"] * 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["Base", "DM"]
    assert (axes.get_xlabel(), axes.get_yscale()) == ("tokens", "log")
    frame.loc[frame["system"] == "DM", "likelihood"] = "pseudo"
    panels = curves_figure(frame, title="t", axis="tokens").axes
    assert [len(panel.lines) for panel in panels] == [4, 2], "masked and left-to-right perplexities do not compare"
    names = [f"validation perplexity ({kind} likelihood)" for kind in ("exact", "pseudo")]
    assert [panel.get_ylabel() for panel in panels] == names


def test_curves_of_a_table_are_local_or_tracked_ones(store, project):
    for seed in (1, 2):
        store("Base", seed, {"bleu1": 1.0})
    store("DM-Base", 1, {"bleu1": 1.0}, curve=())
    assert [*record_table(load_definition("toy"), "small")]
    expected = [f"Base, seed {seed}: lowest 70.00 after 20,000 tokens" for seed in (1, 2)]
    assert plot_curves("toy", size="small").splitlines()[1:] == expected
    (project / "results/toy/Base").rename(project / "elsewhere")
    assert plot_curves("toy", size="small").splitlines()[1:] == expected
    assert (project / "results/toy/curves-small.png").is_file()


def test_steps_and_minutes_are_drawn_where_a_run_kept_them(store, project):
    store("Base", 1, {"bleu1": 1.0}, clock=CLOCK)
    store("Base", 2, {"bleu1": 1.0})
    minutes = plot_curves("toy", size="small", against="minutes")
    assert minutes.splitlines()[1:] == ["Base, seed 1: lowest 70.00 after 2.5 minutes"]
    assert "lowest 70.00 after 200 steps" in plot_curves("toy", size="small", against="steps")
    names = {path.name for path in (project / "results/toy").glob("*.png")}
    assert names == {"curves-small-steps.png", "curves-small-minutes.png"}


def test_curves_of_any_runs(project):
    for name, values in (("a", (90.0, 60.0)), ("b", (80.0, 85.0))):
        run = project / "runs" / name / "1"
        run.mkdir(parents=True)
        (run / "run.json").write_text("{}")
        lines = [f"{9 + 10 * epoch},{epoch},{value},{30 * (epoch + 1)}\n" for epoch, value in enumerate(values)]
        (run / "metrics.csv").write_text("step,epoch,val/perplexity,seconds\n" + "".join(lines))
    text = plot_curves(runs=["a/1", "runs/b/1"])
    assert text.splitlines()[1:] == ["a/1: lowest 60.00 after 20 steps", "b/1: lowest 80.00 after 10 steps"]
    assert "b/1: lowest 80.00 after 0.5 minutes" in plot_curves(runs=["b/1"], against="minutes")
    assert {path.name for path in project.glob("*.png")} == {"curves.png", "curves-minutes.png"}


# -- series -------------------------------------------------------------------------------------------------------


@pytest.fixture
def series(project):
    """The toy table, three of whose rows have a place, not in the order of the rows, and a floor."""
    path = project / "experiments" / "tables" / "toy.yaml"
    content = yaml.safe_load(path.read_text())
    places = {"Base": 8.0, "DM-Base": 1.0, "DM-Base, left chain": 2.0}
    content["rows"] = [row | ({"x": places[row["name"]]} if row["name"] in places else {}) for row in content["rows"]]
    content["rows"].append({"name": "next word", "floor": "next word", "in_paper": False})
    path.write_text(yaml.safe_dump(content | {"parsing": "parsing_toy"}))
    return load_definition("toy")


def test_each_measure_is_a_panel_from_left_to_right(series, store):
    for row, base, seeds in (("Base", 10.0, (1, 2, 3)), ("DM-Base", 20.0, (1,))):
        for seed in seeds:
            store(row, seed, {"bleu1": base + seed, "perplexity": 40.0 - base})
    store("Later", 1, {"bleu1": 99.0, "selfbleu2": 5.0})  # has no place
    store("next word", 1, {"bleu1": 3.0})
    frame = series_frame(toy_results(series))
    expected = [
        ("B-1", "DM-Base", 1.0, 21.0, np.nan),
        ("B-1", "Base", 8.0, 12.0, 1.0),
        ("B-1", "next word", np.nan, 3.0, np.nan),
        ("PPL", "DM-Base", 1.0, 20.0, np.nan),
        ("PPL", "Base", 8.0, 30.0, 0.0),
    ]
    pd.testing.assert_frame_equal(frame.reset_index(drop=True), pd.DataFrame(expected, columns=[*frame]))
    drawing = series_figure(frame, axis="heads")
    bleu, perplexity = drawing.axes
    assert ([bleu.get_title(), perplexity.get_title()], drawing.get_supxlabel()) == (["B-1", "PPL"], "heads")
    assert bleu.lines[0].get_xydata().tolist() == [[1.0, 21.0], [8.0, 12.0]]
    (bars,) = bleu.containers[0].lines[2]
    low_and_high = [segment[:, 1].tolist() for segment in bars.get_segments()]
    np.testing.assert_allclose(low_and_high, [[21.0, 21.0], [11.0, 13.0]])
    assert [tick.get_text() for tick in bleu.get_xticklabels()] == ["1", "8"]
    assert [text.get_text() for text in bleu.get_legend().get_texts()] == ["next word"]
    assert [3.0, 3.0] in [list(line.get_ydata()) for line in bleu.lines]
    assert perplexity.get_legend() is None
    assert plot_series("toy", size="small") == "results/toy/series-small.png: B-1, PPL."
    assert Path("results/toy/series-small.png").read_bytes().startswith(b"\x89PNG")


# -- seeds --------------------------------------------------------------------------------------------------------


def test_each_run_of_a_planned_comparison_is_a_dot(project, store):
    path = project / "experiments" / "tables" / "toy.yaml"
    content = yaml.safe_load(path.read_text())
    planned = [{"row": "DM-Base", "against": other, "column": "bleu1"} for other in ("Base", "DM-Base, left chain")]
    path.write_text(yaml.safe_dump(content | {"planned": planned}))
    for row, values in (("Base", (10.0, 14.0)), ("DM-Base", (20.0, 21.0)), ("Later", (1.0, 2.0))):
        for seed, value in enumerate(values, start=1):
            store(row, seed, {"bleu1": value, "perplexity": 5.0})
    frame = seeds_frame(toy_results(load_definition("toy")))
    expected = [(10.0, 1, "Base"), (14.0, 2, "Base"), (20.0, 1, "DM-Base"), (21.0, 2, "DM-Base")]
    assert [*zip(frame.value, frame.seed, frame.row, strict=True)] == expected
    (panel,) = seeds_figure(frame).axes
    assert [line.get_ydata().tolist() for line in panel.lines] == [[10.0, 14.0], [20.0, 21.0]]
    assert [bar.get_segments()[0][0, 1] for bar in panel.collections] == [12.0, 20.5]
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["Base", "DM-Base"]
    assert plot_seeds("toy", size="small") == "results/toy/seeds-small.png: DM-Base."


# -- quality against diversity ------------------------------------------------------------------------------------

METRICS = {
    "valid_bleu_0.7": 30.0, "valid_bleu_sd_0.7": 1.0, "self_bleu_0.7": 20.0, "self_bleu_sd_0.7": 2.0,
    "valid_bleu_1.0": 20.0, "self_bleu_1.0": 9.0, "valid_bleu": 20.0, "self_bleu": 9.0, "temperature": 1.0,
}  # fmt: skip


def test_a_system_is_a_line_whose_chosen_temperature_is_filled(project, store):
    path = project / "experiments/tables/toy.yaml"
    path.write_text(path.read_text() + "  - {name: Real, experiment: base_toy, floor: train, in_paper: false}\n")
    store("Base", 1, METRICS)
    store("Real", 1, {"valid_bleu": 17.8, "self_bleu": 6.6})
    frame = tradeoff_frame(load_results(load_definition("toy"), size="small"))
    assert frame.to_numpy().tolist() == [
        ["Base", "b", "0.7", False, 30.0, 20.0, 1.0, 2.0],
        ["Base", "b", "1.0", True, 20.0, 9.0, 0.0, 0.0],
        ["Real", "", "", False, 17.8, 6.6, 0.0, 0.0],
    ]
    (axes,) = tradeoff_figure(frame).axes
    line, first, chosen, real = axes.lines
    assert line.get_xydata().tolist() == [[20.0, 30.0], [9.0, 20.0]]
    assert (first.get_markerfacecolor(), chosen.get_markerfacecolor()) == ("white", "C0")
    assert real.get_xydata().tolist() == [[6.6, 17.8]]
    assert (axes.patches[0].width, axes.patches[0].height) == (4.0, 2.0)
    assert [text.get_text() for text in axes.texts] == ["0.7", "1.0"]
    assert main(["plot", "tradeoff", "toy", "--size", "small"]) == 0
    assert Path("results/toy/tradeoff-small.png").is_file()


def test_a_temperature_that_three_seeds_choose_is_filled(project, store):
    for seed in (1, 2, 3):
        store("Base", seed, {**METRICS, "temperature": 0.7})
    assert tradeoff_frame(toy_results()).set_index("temperature").chosen.to_dict() == {"0.7": True, "1.0": False}


# -- histograms ---------------------------------------------------------------------------------------------------


def test_whole_numbers_have_a_bin_each_and_others_25_of_one_width():
    whole = histogram_frame({"a": np.array([1.0, 2, 2, 3]), "b": np.array([4.0, 4])})
    assert whole.to_dict("list") == {
        "from": [0.5, 1.5, 2.5, 3.5], "to": [1.5, 2.5, 3.5, 4.5], "a": [0.25, 0.5, 0.25, 0], "b": [0, 0, 0, 1],
    }  # fmt: skip
    others = histogram_frame({"a": np.array([0.1, 0.2]), "b": np.array([1.0])})
    assert (len(others), others["from"].iloc[0], others["to"].iloc[-1]) == (25, 0.1, 1.0)
    np.testing.assert_allclose(others.to - others["from"], 0.9 / 25)
    assert others[["a", "b"]].sum().tolist() == [1, 1]


@pytest.mark.parametrize(
    ("items", "named"),
    [
        ({"Base": {"bleu1": [1, 2, 2, 3]}, "DM-Base": {"bleu1": [4, 4]}}, {"Base": "2 over 8", "DM-Base": "4 over 4"}),
        ({"Base": {"bleu1": [0.1, np.nan], "perplexity": [1.0]}}, {"B-1": "0.1 over 2", "nats a token": "1 over 2"}),
        (
            {"Base": {"bleu1": [1, 2], "perplexity": [1.0]}, "DM-Base": {"bleu1": [4], "perplexity": [np.nan]}},
            {"Base, B-1": "1.5 over 4", "Base, nats a token": "1 over 2", "DM-Base, B-1": "4 over 2"},
        ),
    ],
)
def test_a_distribution_is_named_by_what_tells_it_from_others_and_seeds_are_pooled(project, store, items, named):
    for row, scores in items.items():
        for seed in (1, 2):
            store(row, seed, {}, scores)
    said = plot_histogram("toy", size="small")
    assert said.endswith("Means: " + "; ".join(f"{name} {mean} of 2 seeds" for name, mean in named.items()) + ".")
    assert re.match(r"results/toy/histogram-small\.png and histogram-small\.csv\.", said)
    bins = pd.read_csv("results/toy/histogram-small.csv")
    assert [*bins] == ["from", "to", *named]
    assert bins[[*named]].sum().tolist() == pytest.approx([1.0] * len(named))
