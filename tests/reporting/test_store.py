"""One frame of published, tracked and local numbers: what is in it, and what replaces what."""

import json
import shutil

import pytest

from depgen.errors import UserError
from depgen.reporting.definition import load_definition
from depgen.reporting.intervals import intervals
from depgen.reporting.record import record
from depgen.reporting.store import ItemTest, RecordedIntervals, measured_path, read_ours, recorded_test
from tests.reporting.conftest import OTHER_DATA


def toy(*, local=True):
    return read_ours(load_definition("toy"), size="small", local=local)


def tracked(project, *lines):
    path = measured_path("toy")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_the_frame_has_a_line_for_every_number(store, project):
    store("Base", 1, {"bleu1": 11.0}, settings={"bleu1": "scorer a"})
    record("toy", size="small")
    shutil.rmtree(project / "results")
    store("Base", 2, {"bleu1": 12.0}, settings={"bleu1": "scorer a"})
    lines = toy().frame
    base = lines[(lines.row == "Base") & (lines.measure == "bleu1")]
    assert base.source.tolist() == ["paper", "measured", "local"]
    assert base.value.tolist() == [10.0, 11.0, 12.0]
    assert base.seed.dropna().tolist() == [1, 2]
    assert base.judge.tolist() == ["", "scorer a", "scorer a"]
    assert len(lines[lines.source == "paper"]) == 6


def test_mean_and_deviation_over_seeds(store):
    for seed, value in ((1, 10.0), (2, 12.0), (3, 14.0)):
        store("Base", seed, {"bleu1": value})
    store("DM-Base", 1, {"bleu1": 3.0})
    ours = toy()
    figure = ours.figure("Base", "bleu1")
    assert (figure.mean, figure.deviation, figure.values) == (12.0, 2.0, {1: 10.0, 2: 12.0, 3: 14.0})
    assert ours.figure("DM-Base", "bleu1").deviation is None
    assert ours.figure("Base", "perplexity") is None
    assert ours.figure("Base", "selfbleu2") is None, "the paper's number is none of ours"


def test_an_empty_tracked_file_holds_no_results(store, project):
    tracked(project)
    assert toy().results == ()
    store("Base", 1, {"bleu1": 10.0})
    assert toy().source("Base") == "local"


def test_a_local_result_replaces_the_tracked_one_of_its_seed(store, project):
    for seed in (1, 2):
        store("Base", seed, {"bleu1": 10.0 * seed})
    record("toy", size="small")
    shutil.rmtree(project / "results")
    assert (toy().figure("Base", "bleu1").mean, toy().source("Base")) == (15.0, "measured")
    store("Base", 2, {"bleu1": 40.0})
    assert (toy().figure("Base", "bleu1").mean, toy().source("Base")) == (25.0, "joined")
    assert toy(local=False).figure("Base", "bleu1").mean == 15.0
    store("Base", 1, {"bleu1": 40.0})
    assert (toy().figure("Base", "bleu1").mean, toy().source("Base")) == (40.0, "local")


@pytest.mark.parametrize("other", [{"config_sha256": "x"}, {"data": OTHER_DATA}, {"trees": "g"}, {"beginning": "w"}])
def test_tracked_seeds_of_another_training_are_left_out(store, project, other):
    store("Base", 1, {"bleu1": 10.0})
    record("toy", size="small")
    shutil.rmtree(project / "results")
    store("Base", 2, {"bleu1": 12.0}, **other)
    assert toy().figure("Base", "bleu1").values == {2: 12.0}


def test_seeds_of_different_judges_have_no_mean(store):
    store("Base", 1, {"bleu1": 10.0, "perplexity": 40.0}, settings={"bleu1": "scorer a"})
    store("Base", 2, {"bleu1": 12.0, "perplexity": 42.0}, settings={"bleu1": "scorer b"})
    store("DM-Base", 1, {"bleu1": 10.0}, settings={"bleu1": "scorer a"})
    store("DM-Base", 2, {"perplexity": 41.0}, settings={"bleu1": "scorer c"})
    ours = toy()
    assert ours.figure("Base", "bleu1") is None
    assert ours.figure("Base", "perplexity").mean == 41.0
    assert ours.figure("DM-Base", "bleu1").mean == 10.0


def test_the_local_judge_counts(store, project):
    for seed in (1, 2):
        store("Base", seed, {"bleu1": 10.0, "perplexity": 40.0 + seed}, settings={"bleu1": "scorer a"})
    record("toy", size="small")
    shutil.rmtree(project / "results")
    store("Base", 2, {"bleu1": 12.0, "perplexity": 43.0}, settings={"bleu1": "scorer b"})
    ours = toy()
    assert (ours.figure("Base", "bleu1").values, ours.figure("Base", "bleu1").judge) == ({2: 12.0}, "scorer b")
    assert ours.figure("Base", "perplexity").values == {1: 41.0, 2: 43.0}


def test_a_floor_has_one_result(store, project):
    path = project / "experiments/tables/toy.yaml"
    path.write_text(path.read_text() + "  - {name: Floor, experiment: base_toy, floor: source, in_paper: false}\n")
    for seed in (1, 2):
        store("Floor", seed, {"perplexity": 8.0 + seed})
    assert toy().figure("Floor", "perplexity").values == {1: 9.0}


RESULT = {
    "row": "Base", "size": "small", "seed": 1, "metrics": {"bleu1": 9.0}, "data": {"corpus": "S", "reduced": False},
    "hardware": "x", "date": "2026-01-01", "commit": "c", "config_sha256": "d",
}  # fmt: skip


def test_recorded_intervals_and_tests_are_read(project):
    tests = {"bleu1": {"gain": 2.0, "n": 100, "p": 0.01}}
    tracked(
        project,
        RESULT,
        {**RESULT, "size": "paper"},
        {"row": "Base", "size": "small", "seeds": [1], "intervals": {"bleu1": [8.0, 10.0]}},
        {"row": "Base", "size": "small", "other": "DM-Base", "tests": tests},
    )
    ours = toy()
    assert [each.metrics for each in ours.results] == [{"bleu1": 9.0}]
    assert ours.recorded[0] == RecordedIntervals("Base", "small", frozenset({1}), {"bleu1": (8.0, 10.0)})
    assert recorded_test(ours, "Base", "DM-Base", "bleu1", 2.001) == ItemTest(2.0, 100, 0.01)
    assert recorded_test(ours, "DM-Base", "Base", "bleu1", -2.001) == ItemTest(-2.0, 100, 0.01)
    assert recorded_test(ours, "Base", "DM-Base", "bleu1", 2.1) is None, "a test of other figures"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("{", "toy.jsonl:2: .*JSON"),
        ("[1]", "toy.jsonl:2: .*expected row and size"),
        ('{"row": "Base"}', "toy.jsonl:2: .*size"),
        ('{"row": "Base", "size": "small", "seed": 2}', "toy.jsonl:2: .*metrics"),
        ('{"row": "Base", "size": "small", "intervals": {"bleu1": [1, 2]}}', "toy.jsonl:2: .*seeds"),
        ('{"row": "Base", "size": "small", "other": "DM-Base", "tests": {"bleu1": {"p": 1}}}', "toy.jsonl:2: .*gain"),
    ],
)
def test_a_broken_line_is_named(project, line, named):
    path = tracked(project, RESULT)
    path.write_text(f"{path.read_text()}{line}\n")
    with pytest.raises(UserError, match=named):
        toy()


@pytest.mark.parametrize(("seeds", "kept"), [([1], False), ([1, 2], True)])
def test_a_recorded_interval_of_some_of_the_seeds_is_not_of_the_mean_of_all(project, seeds, kept):
    tracked(
        project,
        RESULT,
        {**RESULT, "seed": 2, "metrics": {"bleu1": 11.0}},
        {"row": "Base", "size": "small", "seeds": seeds, "intervals": {"bleu1": [8.0, 12.0]}},
    )
    assert (("Base", "bleu1") in intervals(toy())) == kept
