import dataclasses
import json

import numpy as np
import pytest

from depgen.errors import UserError
from depgen.reporting.results import (
    Result,
    item_scores,
    packed,
    read_result,
    read_results,
    result_path,
    write_result,
)
from tests.reporting.conftest import make_result


def test_a_result_comes_back_as_it_was_written(tmp_path):
    items = {"bleu1": packed(np.array([10.5]))}
    result = make_result("Base", 1, {"bleu1": 10.5}, not_computed={"union": "no weights"}, items=items)
    write_result(result, tmp_path / "r.json")
    assert read_result(tmp_path / "r.json") == result


def test_the_file_has_the_agreed_names(tmp_path):
    write_result(make_result("Base", 1, {"bleu1": 10.5}), tmp_path / "r.json")
    content = json.loads((tmp_path / "r.json").read_text())
    assert set(content) == {
        "table", "row", "size", "seed", "metrics", "not_computed", "items", "settings", "data", "trees",
        "parameters", "budget", "hardware", "date", "commit", "config_sha256", "curve", "clock", "generation",
        "measured_commit", "beginning", "weights_sha256", "processor_seconds", "precision", "run", "made_before",
    }  # fmt: skip
    assert content["curve"][0] == [10000.0, 90.0]
    assert content["data"]["reduced"] is True


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"metrics": {"bleu1": "ten"}},
            "metrics: bleu1: expected a number, found 'ten'. Delete it to make it again",
        ),
        ({"colour": "red"}, "unknown colour.* Delete it"),
        ({"metrics": {"bleu1": float("nan")}}, "bleu1: expected a finite number, found nan. Delete it"),
        ({"curve": None}, "curve: expected a list, found None. Delete it"),
        ({"curve": [[1.0]]}, r"curve\[0\]: .* must be given"),
        ({"seed": "1"}, "seed: expected a whole number, found '1'. Delete it"),
        ({"budget": {"epochs": "4"}}, "budget: epochs: expected a whole number, found '4'"),
        ({"data": {"corpus": "x"}}, "data: reduced must be given. Delete it"),
        ({"items": ["a"]}, "items: expected names and values, found"),
    ],
)
def test_what_is_no_result_is_refused_by_name(change, message):
    content = dataclasses.asdict(make_result("Base", 1, {"bleu1": 10.5})) | change
    with pytest.raises(UserError, match=message):
        Result.from_dict(content, where="here.json")


def test_missing_and_broken_files_are_named(tmp_path):
    with pytest.raises(UserError, match=r"r\.json.*No such file"):
        read_result(tmp_path / "r.json")
    (tmp_path / "r.json").write_text('{"table": ')
    with pytest.raises(UserError, match=r"r\.json: expected JSON, found: .* Delete it"):
        read_result(tmp_path / "r.json")


def test_numbers_that_are_not_finite_are_not_written(tmp_path):
    with pytest.raises(UserError, match="perplexity of Base are not finite"):
        write_result(make_result("Base", 1, {"perplexity": float("inf")}), tmp_path / "r.json")


def test_results_come_by_seed(store):
    for seed in (10, 2, 1):
        store("Base", seed, {"bleu1": float(seed)})
    assert [result.seed for result in read_results("toy", "Base", size="small")] == [1, 2, 10]
    assert read_results("toy", "Base", size="paper") == []
    assert result_path("toy", "Base", size="small", seed=2).as_posix() == "results/toy/Base/small-seed2.json"


def test_item_scores_are_averaged_over_seeds(store):
    results = [
        store("Base", 1, {"bleu1": 1.0}, {"bleu1": [1.0, 2.0, 3.0]}),
        store("Base", 2, {"bleu1": 1.0}, {"bleu1": [3.0, 2.0, np.nan]}),
    ]
    assert np.array_equal(item_scores(results, "bleu1"), [2.0, 2.0, np.nan], equal_nan=True)
    assert item_scores(results, "other") is None


def test_a_seed_without_scores_leaves_none(store):
    results = [store("Base", 1, {"bleu1": 1.0}, {"bleu1": [1.0, 2.0]}), store("Base", 2, {"bleu1": 1.0})]
    assert item_scores(results, "bleu1") is None


def test_seeds_with_other_numbers_of_items_are_refused(store):
    results = [
        store("Base", 1, {"bleu1": 1.0}, {"bleu1": [1.0, 2.0]}),
        store("Base", 2, {"bleu1": 1.0}, {"bleu1": [1.0]}),
    ]
    with pytest.raises(UserError, match=r"bleu1 items: 2 of seed 1; 1 of seed 2\..*measure again"):
        item_scores(results, "bleu1")


@pytest.mark.parametrize("change", [{"table": "other"}, {"row": "DM-Base"}, {"size": "paper"}, {"seed": 2}])
def test_a_result_in_anothers_place_is_refused(store, change):
    result = store("Base", 1, {"bleu1": 1.0})
    path = result_path("toy", "Base", size="small", seed=1)
    path.write_text(json.dumps(dataclasses.asdict(result) | change))
    with pytest.raises(UserError, match=r"small-seed1\.json .*belongs at results/.*: move it"):
        read_results("toy", "Base", size="small")


def test_scores_in_files_of_an_earlier_version_are_read_and_left_out_where_the_file_is_gone(store, caplog):
    result = store("Base", 1, {"bleu1": 1.5})
    path = result_path("toy", "Base", size="small", seed=1)
    former = {"bleu1": "small-seed1/bleu1.npy", "bleu2": "small-seed1/bleu2.npy"}
    path.write_text(json.dumps(dataclasses.asdict(result) | {"items": former}))
    (path.parent / "small-seed1").mkdir()
    np.save(path.parent / former["bleu1"], np.array([1.0, 2.0]))
    (read,) = read_results("toy", "Base", size="small")
    assert item_scores([read], "bleu1").tolist() == [1.0, 2.0]
    assert item_scores([read], "bleu2") is None
    assert "bleu2.npy can't be read" in caplog.text


@pytest.mark.parametrize("kept", ["", "zlib:eJxj", "other:eJxj"])
def test_cut_scores_are_named_with_the_remedy(kept):
    result = make_result("Base", 1, {"bleu1": 1.0}, items={"bleu1": kept})
    with pytest.raises(UserError, match=r"Base, seed 1: bleu1: .*single items.* --remeasure"):
        item_scores([result], "bleu1")
