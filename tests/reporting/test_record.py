import shutil

import pytest
import yaml

from depgen.errors import UserError
from depgen.reporting.definition import load_definition
from depgen.reporting.measured import measured_path, read_measured
from depgen.reporting.record import record, thin
from depgen.reporting.tables import tracked_page


def test_values_per_seed_with_their_origin(store, project):
    for seed in (1, 2):
        store("Base", seed, {"bleu1": 10.0 + seed}, {"bleu1": [1.0, 2.0, 3.0]})
        store("DM-Base", seed, {"bleu1": 20.0 + seed}, {"bleu1": [2.0, 3.1, 4.0]})
    text = record("toy", size="small")
    assert "experiments/measured/toy/DM-Base.yaml: DM-Base, size small, seeds 1, 2" in text
    content = yaml.safe_load((project / "experiments/measured/toy/DM-Base.yaml").read_text())
    entry = content["profiles"]["small"]
    assert content["row"] == "DM-Base"
    assert entry["seeds"][2]["metrics"] == {"bleu1": 22.0}
    assert entry["seeds"][1]["data"] == {
        "corpus": "Stories", "reduced": True, "train_documents": 1000, "fingerprint": "f",
    }  # fmt: skip
    for name in ("config_sha256", "commit", "hardware", "date", "budget", "trees", "curve"):
        assert entry["seeds"][1][name]
    assert read_measured(load_definition("toy"), size="small")["DM-Base"].tested == {("Base", "bleu1"): 10.0}
    assert entry["comparisons"][0]["verdict"] == "wins"


def test_the_page_shows_what_is_tracked_whatever_lies_here(store, project):
    store("Base", 1, {"bleu1": 11.0})
    text = record("toy", size="small")
    page = project / "experiments/measured/toy/table-small.md"
    assert "experiments/measured/toy/table-small.md: the tracked results, size small" in text
    before = page.read_text()
    assert "| Base | paper |" in before
    assert "|  | measured | 11.00 |" in before
    store("Base", 1, {"bleu1": 12.0})
    assert tracked_page(load_definition("toy"), "small") == before
    assert "|  | measured | 12.00 |" in (record("toy", size="small") and page.read_text())


def test_a_tracked_star_fades_where_another_row_has_come_to_be_the_best(store, project):
    page = project / "experiments/measured/toy/table-small.md"
    store("Base", 1, {"bleu1": 10.0}, {"bleu1": [1.0, 2.0, 3.0]})
    store("DM-Base", 1, {"bleu1": 20.0}, {"bleu1": [2.0, 3.1, 4.0]})
    record("toy", size="small")
    assert "|  | measured | 20.00\\* |" in page.read_text()
    for later, star in ((9.0, "\\*"), (15.0, ""), (21.0, "")):  # no better than its rival; its rival; better than it
        shutil.rmtree(project / "results")
        store("DM-Base, left chain", 1, {"bleu1": later})
        record("toy", size="small")
        assert f"|  | measured | 20.00{star} |" in page.read_text()


def test_a_tracked_star_fades_where_its_rival_has_other_figures_now(store, project):
    page = project / "experiments/measured/toy/table-small.md"
    for score, star in ((10.0, "\\*"), (25.0, ""), (15.0, "")):
        shutil.rmtree(project / "results", ignore_errors=True)
        store("Base", 1, {"bleu1": score}, {"bleu1": [1.0, 2.0, 3.0]})
        if star:
            store("DM-Base", 1, {"bleu1": 20.0}, {"bleu1": [2.0, 3.1, 4.0]})
        record("toy", size="small")
        assert f"|  | measured | 20.00{star} |" in page.read_text()


def test_a_tracked_star_may_rest_on_the_rivals_record_of_the_same_test(store, project):
    store("Base", 1, {"bleu1": 10.0}, {"bleu1": [1.0, 2.0, 3.0]})
    store("DM-Base", 1, {"bleu1": 20.0}, {"bleu1": [2.0, 3.1, 4.0]})
    record("toy", size="small")
    path = measured_path("toy", "DM-Base")
    content = yaml.safe_load(path.read_text())
    own = content["profiles"]["small"].pop("comparisons")
    path.write_text(yaml.safe_dump(content))
    shutil.rmtree(project / "results")
    (theirs,) = yaml.safe_load(measured_path("toy", "Base").read_text())["profiles"]["small"]["comparisons"]
    assert (theirs["gain"], theirs["p_value"]) == (-own[0]["gain"], own[0]["p_value"])
    record("toy", size="small")
    page = project / "experiments/measured/toy/table-small.md"
    assert "|  | measured | 20.00\\* |" in page.read_text()
    assert "|  | measured | 10.00 |" in page.read_text()


def test_a_page_follows_its_tables_definition_without_local_results(store, project):
    store("Base", 1, {"bleu1": 11.0})
    record("toy", size="small")
    shutil.rmtree(project / "results")
    assert "nothing to record" in record("toy", size="small")
    path = project / "experiments/tables/toy.yaml"
    path.write_text(path.read_text() + "notes: [Another word]\n")
    assert record("toy", size="small").endswith("toy/table-small.md: the tracked results, size small")
    assert "Another word." in (project / "experiments/measured/toy/table-small.md").read_text()


def test_what_is_recorded_reads_back(store):
    results = [store("Base", seed, {"bleu1": 10.0 + seed}) for seed in (1, 2)]
    record("toy", size="small")
    measured = read_measured(load_definition("toy"), size="small")
    assert list(measured) == ["Base"]
    assert [result.metrics for result in measured["Base"].results] == [result.metrics for result in results]
    assert measured["Base"].results[0].curve == results[0].curve


def test_the_other_profile_stays(store, project):
    store("Base", 1, {"bleu1": 10.0})
    path = measured_path("toy", "Base")
    path.parent.mkdir(parents=True)
    path.write_text("row: Base\nprofiles: {paper: {seeds: {}}}\n")
    record("toy", size="small")
    assert set(yaml.safe_load(path.read_text())["profiles"]) == {"paper", "small"}


def test_nothing_to_record_says_how_to_make_it(project):
    with pytest.raises(UserError, match="depgen reproduce toy --size small"):
        record("toy", size="small")


def test_a_broken_tracked_file_is_named(project):
    path = measured_path("toy", "Base")
    path.parent.mkdir(parents=True)
    path.write_text("row: Base\n")
    with pytest.raises(UserError, match=r"Base\.yaml: profiles: .*values"):
        read_measured(load_definition("toy"), size="small")


def test_a_tracked_comparison_without_its_measure_is_named(store):
    store("Base", 1, {"bleu1": 10.0}, {"bleu1": [1.0, 2.0, 3.0]})
    store("DM-Base", 1, {"bleu1": 20.0}, {"bleu1": [2.0, 3.1, 4.0]})
    record("toy", size="small")
    path = measured_path("toy", "DM-Base")
    path.write_text(path.read_text().replace("column:", "measure:"))
    with pytest.raises(UserError, match=r"small\.comparisons: .*against, column, gain and p_value"):
        read_measured(load_definition("toy"), size="small")


@pytest.mark.parametrize("length", [1, 5, 40, 41, 100, 1000])
def test_a_thinned_curve_keeps_its_ends_and_its_lowest_point(length):
    curve = [(float(x), abs(x - length * 0.37)) for x in range(length)]
    kept = [curve[index] for index in thin(curve, 40)]
    assert len(kept) <= 40
    assert (kept[0], kept[-1]) == (curve[0], curve[-1])
    assert min(curve, key=lambda point: point[1]) in kept
    assert kept == sorted(kept)


def test_a_machine_with_one_seed_keeps_the_tracked_other(store, project, caplog):
    store("Base", 1, {"bleu1": 10.0, "perplexity": 50.0}, {"bleu1": [1.0, 2.0, 3.0]})
    store("DM-Base", 1, {"bleu1": 20.0, "perplexity": 40.0}, {"bleu1": [2.0, 3.1, 4.0]})
    record("toy", size="small")
    shutil.rmtree(project / "results")
    store("DM-Base", 2, {"bleu1": 22.0, "perplexity": 42.0}, {"bleu1": [2.0, 3.1, 4.0]})
    assert "seeds 1, 2" in record("toy", size="small")
    entry = yaml.safe_load(measured_path("toy", "DM-Base").read_text())["profiles"]["small"]
    assert {seed: each["metrics"]["bleu1"] for seed, each in entry["seeds"].items()} == {1: 20.0, 2: 22.0}
    assert entry["scored_seeds"] == [2]
    assert [(each["column"], each["gain"]) for each in entry["comparisons"]] == [("perplexity", 9.0)]
    assert "DM-Base against Base in B-1 is not recorded: no per-item scores of Base on this machine" in caplog.text


def test_a_local_result_goes_before_the_tracked_one_of_its_seed(store):
    store("Base", 1, {"bleu1": 10.0}, config_sha256="old")
    record("toy", size="small")
    store("Base", 1, {"bleu1": 11.0})
    record("toy", size="small")
    (found,) = read_measured(load_definition("toy"), size="small")["Base"].results
    assert (found.metrics["bleu1"], found.config_sha256) == (11.0, "c0ffee")


def test_seeds_of_two_configurations_are_refused_by_name(store, project):
    store("Base", 1, {"bleu1": 10.0}, config_sha256="01dc0de")
    record("toy", size="small")
    before = measured_path("toy", "Base").read_text()
    shutil.rmtree(project / "results")
    store("Base", 2, {"bleu1": 10.0})
    with pytest.raises(UserError, match=r"seed 1 .*01dc0de.*c0ffee.*--redo.*tracked entry"):
        record("toy", size="small")
    assert measured_path("toy", "Base").read_text() == before


def test_all_tables_that_have_results_are_recorded_at_once(store, project):
    one = (project / "experiments/tables/toy.yaml").read_text()
    (project / "experiments/tables/only.yaml").write_text(one.replace("table: toy", "table: only"))
    assert record(size="small").startswith("No results under results: nothing to record.")
    store("Base", 1, {"bleu1": 10.0})
    assert record(size="small").splitlines()[1:] == [
        "experiments/measured/toy/Base.yaml: Base, size small, seeds 1",
        "experiments/measured/toy/table-small.md: the tracked results, size small",
    ]
    assert not (project / "experiments/measured/only").exists()


def test_the_clock_is_thinned_with_the_curve(store, project):
    curve = tuple((float(x), 90.0 - x) for x in range(100))
    store("Base", 1, {"bleu1": 10.0}, curve=curve, clock=tuple((10 * x, 2.5 * x) for x, _ in curve))
    store("DM-Base", 1, {"bleu1": 10.0}, curve=curve)
    record("toy", size="small")
    read = read_measured(load_definition("toy"), size="small")
    (found,) = read["Base"].results
    assert len(found.curve) == len(found.clock) <= 40
    assert all(
        clock == (10 * tokens, 2.5 * tokens) for (tokens, _), clock in zip(found.curve, found.clock, strict=True)
    )
    assert read["DM-Base"].results[0].clock == ()
