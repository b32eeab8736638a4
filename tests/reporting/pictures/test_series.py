"""A table as a picture: which point stands where, over which results."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from depgen.cli import main
from depgen.errors import UserError
from depgen.reporting.pictures import series
from depgen.reporting.pictures.plotting import save
from depgen.reporting.pictures.series import draw_series, series_figure
from depgen.reporting.record import record
from depgen.reporting.results import load_results
from depgen.reporting.table import load_definition

PLACES = {"Base": 8.0, "DM-Base": 1.0, "DM-Base, left chain": 2.0}


@pytest.fixture
def table(project):
    """The toy table, three of whose rows have a place, not in the order of the rows."""
    path = project / "experiments" / "tables" / "toy.yaml"
    content = yaml.safe_load(path.read_text())
    for row in content["rows"]:
        if row["name"] in PLACES:
            row["x"] = PLACES[row["name"]]
    path.write_text(yaml.safe_dump(content))
    return load_definition("toy")


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are saved."""
    found = []
    monkeypatch.setattr(series, "save", lambda drawing, path: (found.append(drawing), save(drawing, path)))
    return found


def points(panel):
    return panel.lines[0].get_xydata().tolist()


def test_each_measure_is_a_panel_from_left_to_right(table, store):
    for row, base, seeds in (("Base", 10.0, (1, 2, 3)), ("DM-Base", 20.0, (1,))):
        for seed in seeds:
            store(row, seed, {"bleu1": base + seed, "perplexity": 40.0 - base})
    ours = load_results(table, size="small")
    figure = series_figure(ours, [table.column(key) for key in ("bleu1", "perplexity")], axis="heads")
    assert [panel.get_title() for panel in figure.axes] == ["B-1", "PPL"]
    assert figure.get_supxlabel() == "heads"
    assert points(figure.axes[0]) == [[1.0, 21.0], [8.0, 12.0]]
    assert figure.axes[0].get_legend() is None
    (bars,) = figure.axes[0].containers[0].lines[2]
    low_and_high = [segment[:, 1].tolist() for segment in bars.get_segments()]
    np.testing.assert_allclose(low_and_high, [[21.0, 21.0], [11.0, 13.0]])  # one seed; the deviation of 11, 12, 13 is 1
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["1", "8"]


def test_the_picture_is_of_what_there_is(table, store, drawn):
    store("Base", 1, {"bleu1": 10.0})
    store("DM-Base", 1, {"bleu1": 12.0})
    store("Later", 1, {"bleu1": 99.0})  # has no place
    line = draw_series("toy", size="small")
    path = Path("results/toy/series-small.png")
    assert line == f"{path}: B-1. Rows without results: DM-Base, left chain."
    assert path.read_bytes().startswith(b"\x89PNG")
    ((panel,), caption) = drawn[0].axes, drawn[0].get_supxlabel()
    assert points(panel) == [[1.0, 12.0], [8.0, 10.0]]
    assert (panel.get_title(), caption) == ("B-1", "Invented numbers")


def test_a_floor_is_a_line_in_the_panels_of_what_it_has(project, table, store, drawn):
    path = project / "experiments" / "tables" / "toy.yaml"
    content = yaml.safe_load(path.read_text())
    content["rows"].append({"name": "next word", "floor": "next word", "in_paper": False})
    path.write_text(yaml.safe_dump(content | {"parsing": "parsing_toy"}))
    store("Base", 1, {"bleu1": 10.0, "perplexity": 40.0})
    store("next word", 1, {"bleu1": 3.0})
    line = draw_series("toy", size="small")
    assert line.endswith("Rows without results: DM-Base; DM-Base, left chain."), (
        "a floor has no place to be missing from"
    )
    bleu, perplexity = drawn[0].axes
    assert [each.get_text() for each in bleu.get_legend().get_texts()] == ["next word"]
    assert [3.0, 3.0] in [list(each.get_ydata()) for each in bleu.lines]
    assert perplexity.get_legend() is None


def test_local_results_go_before_tracked_ones(table, store, drawn, tmp_path):
    for seed, value in ((1, 10.0), (2, 20.0)):
        store("Base", seed, {"bleu1": value})
    record("toy", size="small")
    for path in Path("results/toy/Base").glob("small-seed*.json"):
        path.unlink()
    assert main(["series", "toy", "--size", "small", "--axis", "heads", "--output", str(tmp_path / "a.png")]) == 0
    assert drawn[-1].get_supxlabel() == "heads"
    assert points(drawn[-1].axes[0]) == [[8.0, 15.0]]
    store("Base", 2, {"bleu1": 40.0})
    draw_series("toy", size="small")
    assert points(drawn[-1].axes[0]) == [[8.0, 40.0]]


def test_a_table_that_is_no_series_and_one_without_results_are_refused(project, table):
    with pytest.raises(
        UserError, match=r"No result of toy at size small\. Make one: depgen reproduce toy --size small"
    ):
        draw_series("toy", size="small")
    path = project / "experiments" / "tables" / "toy.yaml"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith("  x: ")))
    with pytest.raises(UserError, match=r"The rows of toy have no x: it is no series"):
        draw_series("toy", size="small")
