import json
import re
import shutil

import numpy as np
import pytest

from depgen.errors import UserError
from depgen.reporting.compare import compare
from depgen.reporting.definition import load_definition
from depgen.reporting.record import record, thin
from depgen.reporting.results import item_scores
from depgen.reporting.store import measured_page, measured_path, read_ours, read_tracked
from depgen.reporting.tables import tracked_page


def lines():
    return [json.loads(line) for line in measured_path("toy").read_text().splitlines()]


def tracked():
    return read_tracked(load_definition("toy"), size="small")[0]


def page():
    return measured_page("toy", "small").read_text()


def test_a_line_a_row_and_seed_with_its_origin(store):
    for seed in (1, 2):
        store("Base", seed, {"bleu1": 10.0 + seed}, {"bleu1": [1.0, 2.0, 3.0]})
        store("DM-Base", seed, {"bleu1": 20.0 + seed}, {"bleu1": [2.0, 3.1, 4.0]})
    assert "experiments/measured/toy.jsonl: size small, Base; DM-Base" in record("toy", size="small")
    found = {(each["row"], each["seed"]): each for each in lines() if "seed" in each}
    assert set(found) == {("Base", 1), ("Base", 2), ("DM-Base", 1), ("DM-Base", 2)}
    line = found["DM-Base", 1]
    assert (line["size"], line["metrics"]) == ("small", {"bleu1": 21.0})
    assert line["data"] == {"corpus": "Stories", "reduced": True, "train_documents": 1000, "fingerprint": "f"}
    for name in ("config_sha256", "commit", "hardware", "date", "budget", "trees", "curve"):
        assert line[name]


def test_what_is_recorded_reads_back(store, project):
    items = np.random.default_rng(1).normal(size=50)
    items[3] = np.nan
    stored = [store("Base", seed, {"bleu1": 10.0 + seed}, {"bleu1": items}) for seed in (1, 2)]
    record("toy", size="small")
    shutil.rmtree(project / "results")
    found = tracked()
    assert [each.metrics for each in found] == [each.metrics for each in stored]
    assert found[0].curve == stored[0].curve
    assert found[0].data == stored[0].data
    np.testing.assert_allclose(item_scores(found, "bleu1"), items, rtol=1e-6)


def test_a_recorded_test_does_not_replace_the_reason_for_which_there_is_none(store, project):
    generator = np.random.default_rng(1)
    base = generator.normal(10, 1, 50)
    better = base + 1 + generator.normal(0, 0.1, 50)
    for row, scores in (("Base", base), ("DM-Base", better)):
        store(row, 1, {"bleu1": float(scores.mean())}, {"bleu1": scores})

    def found():
        (pair,) = {
            (item.p_items, item.untested) for item in compare(read_ours(load_definition("toy"), size="small"))[0]
        }
        return pair

    before = found()
    assert before[0] < 0.05
    record("toy", size="small")
    assert found() == before
    store("DM-Base", 1, {"bleu1": float(better.mean())}, {"bleu1": better[1:]})
    assert found()[0] is None
    assert "49" in found()[1]


def test_items_are_left_out_of_a_large_file_and_what_they_gave_is_kept(store, monkeypatch, project):
    monkeypatch.setattr("depgen.reporting.record.MAX_BYTES", 0)
    generator = np.random.default_rng(1)
    base = generator.normal(10, 1, 50)
    for row, scores in (("Base", base), ("DM-Base", base + 1 + generator.normal(0, 0.1, 50))):
        store(row, 1, {"bleu1": float(scores.mean())}, {"bleu1": scores})
    before = tracked_page(load_definition("toy"), "small")
    record("toy", size="small")
    assert not any("items" in each for each in lines())
    bounds = {each["row"]: each["intervals"]["bleu1"] for each in lines() if "intervals" in each}
    assert bounds["Base"][0] < base.mean() < bounds["Base"][1]
    (tests,) = [each for each in lines() if "tests" in each]
    assert {tests["row"], tests["other"]} == {"Base", "DM-Base"}
    assert tests["tests"]["bleu1"]["n"] == 50
    shutil.rmtree(project / "results")
    kept = lines()
    store("DM-Base, left chain", 1, {"bleu1": 3.0})
    record("toy", size="small")
    assert [each for each in lines() if "seed" not in each] == [each for each in kept if "seed" not in each]
    assert before != page()


def test_a_damaged_item_score_is_named(store, project):
    store("Base", 1, {"bleu1": 2.0}, {"bleu1": [1.0, 2.0, 3.0]})
    record("toy", size="small")
    shutil.rmtree(project / "results")
    path = measured_path("toy")
    path.write_text(re.sub("zlib:..", "zlib:xx", path.read_text()))
    with pytest.raises(UserError, match=r"Base, seed 1: bleu1.*git checkout"):
        record("toy", size="small")


def test_the_page_shows_what_is_tracked_whatever_lies_here(store, project):
    store("Base", 1, {"bleu1": 11.0})
    assert "experiments/measured/toy-small.md: the tracked results, size small" in record("toy", size="small")
    before = page()
    assert "| Base | paper |" in before
    assert "|  | measured | 11.00 |" in before
    store("Base", 1, {"bleu1": 12.0})
    assert tracked_page(load_definition("toy"), "small") == before
    assert "|  | measured | 12.00 |" in (record("toy", size="small") and page())


def test_a_page_follows_its_tables_definition_without_local_results(store, project):
    store("Base", 1, {"bleu1": 11.0})
    record("toy", size="small")
    shutil.rmtree(project / "results")
    assert "nothing to record" in record("toy", size="small")
    path = project / "experiments/tables/toy.yaml"
    path.write_text(path.read_text() + "notes: [Another word]\n")
    assert record("toy", size="small").endswith("toy-small.md: the tracked results, size small")
    assert "Another word." in page()


def test_lines_of_the_other_size_and_of_rows_that_are_gone_stay(store, project):
    store("Base", 1, {"bleu1": 10.0})
    path = measured_path("toy")
    path.parent.mkdir(parents=True)
    others = [{"row": "Base", "size": "paper", "seed": 1}, {"row": "Gone", "size": "small", "seed": 1}]
    path.write_text("".join(f"{json.dumps(each)}\n" for each in others))
    record("toy", size="small")
    assert lines()[:2] == others
    assert len(lines()) == 3


def test_nothing_to_record_says_how_to_make_it(project):
    with pytest.raises(UserError, match="depgen reproduce toy --size small"):
        record("toy", size="small")


@pytest.mark.parametrize("length", [1, 5, 40, 41, 100, 1000])
def test_a_thinned_curve_keeps_its_ends_and_its_lowest_point(length):
    curve = [(float(x), abs(x - length * 0.37)) for x in range(length)]
    kept = [curve[index] for index in thin(curve, 40)]
    assert len(kept) <= 40
    assert (kept[0], kept[-1]) == (curve[0], curve[-1])
    assert min(curve, key=lambda point: point[1]) in kept
    assert kept == sorted(kept)


def test_a_machine_with_one_seed_keeps_the_tracked_other(store, project):
    store("Base", 1, {"bleu1": 10.0})
    store("DM-Base", 1, {"bleu1": 20.0})
    record("toy", size="small")
    shutil.rmtree(project / "results")
    store("DM-Base", 2, {"bleu1": 22.0})
    record("toy", size="small")
    assert {(each.row, each.seed): each.metrics["bleu1"] for each in tracked()} == {
        ("Base", 1): 10.0, ("DM-Base", 1): 20.0, ("DM-Base", 2): 22.0,
    }  # fmt: skip


def test_a_local_result_replaces_the_tracked_one_of_its_seed(store):
    store("Base", 1, {"bleu1": 10.0}, config_sha256="old")
    record("toy", size="small")
    store("Base", 1, {"bleu1": 11.0})
    record("toy", size="small")
    (found,) = tracked()
    assert (found.metrics["bleu1"], found.config_sha256) == (11.0, "c0ffee")


@pytest.mark.parametrize(
    ("other", "named"),
    [({"config_sha256": "01dc0de"}, "configuration .01dc0de.*c0ffee"), ({"trees": "gold"}, "trees .gold")],
)
def test_a_tracked_seed_of_another_training_is_not_lost(store, project, other, named):
    store("Base", 1, {"bleu1": 10.0}, **other)
    record("toy", size="small")
    before = measured_path("toy").read_text()
    shutil.rmtree(project / "results")
    store("Base", 2, {"bleu1": 10.0})
    with pytest.raises(UserError, match=rf"toy.jsonl: Base.*seed 1.*{named}.*--seeds \[1\] --redo"):
        record("toy", size="small")
    assert measured_path("toy").read_text() == before


def test_all_tables_that_have_results_are_recorded_at_once(store, project):
    one = (project / "experiments/tables/toy.yaml").read_text()
    (project / "experiments/tables/only.yaml").write_text(one.replace("table: toy", "table: only"))
    assert record(size="small").startswith("No results under results: nothing to record.")
    store("Base", 1, {"bleu1": 10.0})
    assert record(size="small").splitlines()[1:] == [
        "experiments/measured/toy.jsonl: size small, Base",
        "experiments/measured/toy-small.md: the tracked results, size small",
    ]
    assert not (project / "experiments/measured/only.jsonl").exists()


def test_the_clock_is_thinned_with_the_curve(store, project):
    curve = tuple((float(x), 90.0 - x) for x in range(100))
    store("Base", 1, {"bleu1": 10.0}, curve=curve, clock=tuple((10 * x, 2.5 * x) for x, _ in curve))
    store("DM-Base", 1, {"bleu1": 10.0}, curve=curve)
    record("toy", size="small")
    base, other = tracked()
    assert len(base.curve) == len(base.clock) <= 40
    assert all(clock == (10 * tokens, 2.5 * tokens) for (tokens, _), clock in zip(base.curve, base.clock, strict=True))
    assert other.clock == ()


def test_a_clock_without_a_curve_is_kept(store, project):
    store("Base", 1, {"bleu1": 10.0}, curve=(), clock=tuple((10.0 * x, 2.5 * x) for x in range(100)))
    record("toy", size="small")
    (base,) = tracked()
    assert not base.curve
    assert 30 < len(base.clock) <= 40
    assert base.clock[-1] == (990.0, 247.5)


def test_a_second_seed_ends_the_recorded_test_and_interval(store, project, monkeypatch):
    monkeypatch.setattr("depgen.reporting.record.MAX_BYTES", 0)
    for row, value in (("Base", 10.0), ("DM-Base", 20.0)):
        store(row, 1, {"bleu1": value}, {"bleu1": [value - 1, value + 0.1, value + 0.9]})
    record("toy", size="small")
    assert "[19.00, 20.90]" in page()
    shutil.rmtree(project / "results")
    store("DM-Base", 2, {"bleu1": 26.0})
    record("toy", size="small")
    assert not any("tests" in each for each in lines())
    assert [each["row"] for each in lines() if "intervals" in each] == ["Base"]
    assert read_ours(load_definition("toy"), size="small").figure("DM-Base", "bleu1").mean == 23.0
