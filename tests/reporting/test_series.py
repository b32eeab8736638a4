"""A table as a picture: which point stands where, over which results."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from depgen.cli import main
from depgen.errors import UserError
from depgen.reporting import series
from depgen.reporting.definition import load_definition
from depgen.reporting.record import record
from depgen.reporting.series import draw_series, series_figure
from depgen.reporting.store import read_ours

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
    """What is drawn in place of a file: the points of each measure, and what stands below."""
    found = {}

    def keep(shown, floors, *, axis):
        points, lines = ({column.key: each for column, each in given.items()} for given in (shown, floors))
        found.update(points=points, floors=lines, axis=axis)
        return series_figure(shown, floors, axis=axis)

    monkeypatch.setattr(series, "series_figure", keep)
    return found


def test_each_measure_is_a_panel_from_left_to_right(table, store):
    for row, base, seeds in (("Base", 10.0, (1, 2, 3)), ("DM-Base", 20.0, (1,))):
        for seed in seeds:
            store(row, seed, {"bleu1": base + seed, "perplexity": 40.0 - base})
    ours = read_ours(table, size="small")
    shown = {
        table.column(key): {PLACES[row]: ours.figure(row, key) for row in ("DM-Base", "Base")}
        for key in ("bleu1", "perplexity")
    }
    figure = series_figure(shown, axis="heads")
    assert [panel.get_title() for panel in figure.axes] == ["B-1", "PPL"]
    assert figure.get_supxlabel() == "heads"
    line = figure.axes[0].lines[0]
    assert line.get_xydata().tolist() == [[1.0, 21.0], [8.0, 12.0]]
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
    assert [(x, each.mean) for x, each in drawn["points"]["bleu1"].items()] == [(1.0, 12.0), (8.0, 10.0)]
    assert list(drawn["points"]) == ["bleu1"]
    assert drawn["axis"] == "Invented numbers"


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
    assert drawn["floors"] == {"bleu1": {"next word": 3.0}, "perplexity": {}}
    shown = {table.column("bleu1"): drawn["points"]["bleu1"]}
    (panel,) = series_figure(shown, {table.column("bleu1"): {"next word": 3.0}}, axis="heads").axes
    assert [each.get_text() for each in panel.get_legend().get_texts()] == ["next word"]
    assert [3.0, 3.0] in [list(each.get_ydata()) for each in panel.lines]


def test_local_results_go_before_tracked_ones_of_the_same_seed(table, store, drawn, tmp_path):
    for seed, value in ((1, 10.0), (2, 20.0)):
        store("Base", seed, {"bleu1": value})
    record("toy", size="small")
    for path in Path("results/toy/Base").glob("small-seed*.json"):
        path.unlink()
    assert main(["series", "toy", "--size", "small", "--axis", "heads", "--output", str(tmp_path / "a.png")]) == 0
    assert drawn["axis"] == "heads"
    assert drawn["points"]["bleu1"][8.0].mean == 15.0
    store("Base", 2, {"bleu1": 40.0})
    draw_series("toy", size="small")
    assert drawn["points"]["bleu1"][8.0].mean == 25.0


def test_a_table_that_is_no_series_and_one_without_results_are_refused(project, table):
    with pytest.raises(
        UserError, match=r"No result of toy at size small\. Make one: depgen reproduce toy --size small"
    ):
        draw_series("toy", size="small")
    path = project / "experiments" / "tables" / "toy.yaml"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith("  x: ")))
    with pytest.raises(UserError, match=r"The rows of toy have no x: it is no series"):
        draw_series("toy", size="small")
