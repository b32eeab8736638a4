import itertools
import json
from dataclasses import replace

import pytest

from depgen.errors import UserError
from depgen.evaluation.human.questionnaire import REAL, Source, pairwise, read_key, turing
from tests.evaluation.human.raters import compared, mixed, rated


@pytest.mark.parametrize("items", [10, 11])
def test_every_rater_sees_each_system_first_in_half_of_the_pairs(items):
    asked = compared(30, number=items, raters=5, seed=3)
    for sheet in asked.sheets:
        assert sorted(sheet.items) == sorted(item.name for item in asked.items)
        assert sheet.swapped <= set(sheet.items)
        assert len(sheet.swapped) in {items // 2, (items + 1) // 2}
        firsts = [asked.shown(sheet, asked.by_name[name])[0].split()[0] for name in sheet.items]
        assert firsts.count("beta") == len(sheet.swapped)
        assert firsts.count("alpha") == items - len(sheet.swapped)
    assert len({sheet.items for sheet in asked.sheets}) == 5
    assert len({sheet.swapped for sheet in asked.sheets}) == 5


def test_a_pair_keeps_its_context_and_its_writers():
    asked = compared(30, number=20)
    for item in asked.items:
        number = item.line - 1
        assert item.texts == (f"alpha {number} .", f"beta {number} .")
        assert item.context == f"context {number} ."
    assert len({item.line for item in asked.items}) == 20


def test_the_seed_decides_everything():
    assert compared(30, number=9, seed=4) == compared(30, number=9, seed=4)
    one, other = compared(30, number=9, seed=4), compared(30, number=9, seed=5)
    assert [item.line for item in one.items] != [item.line for item in other.items]
    assert one.name != other.name


def test_another_rater_changes_nothing_for_the_others():
    three, four = compared(30, number=9, raters=3), compared(30, number=9, raters=4)
    assert four.sheets[:3] == three.sheets
    assert four.items == three.items


def test_empty_and_identical_pairs_are_left_out_and_counted():
    first, second = ["a", "", "same  text", "b", "c"], ["x", "y", " same text", "  ", "z"]
    asked = pairwise(("A", first), ("B", second), ["k"] * 5, number=2)
    assert asked.left_out == {"with an empty text": 2, "of identical texts": 1}
    assert {item.line for item in asked.items} == {1, 5}
    with pytest.raises(UserError, match=r"3 pairs of A and B .*found 2 \(.*2 with an empty text, 1"):
        pairwise(("A", first), ("B", second), ["k"] * 5, number=3)


def test_a_comparison_wants_a_text_for_each_context():
    with pytest.raises(UserError, match=r"of B .*2 contexts.*found 1"):
        pairwise(("A", ["a", "b"]), ("B", ["a"]), ["k", "l"], number=1)
    with pytest.raises(UserError, match="different names, found A, A"):
        pairwise(("A", ["a"]), ("A", ["b"]), ["k"], number=1)


def test_a_turing_test_mixes_as_many_sentences_of_each():
    asked = mixed(40, number=20, raters=2)
    writers = [item.systems[0] for item in asked.items]
    assert {name: writers.count(name) for name in writers} == {"Net": 20, "Web": 20, REAL: 20}
    word = {"Net": "beta", "Web": "gamma", REAL: "human"}
    assert all(item.texts == (f"{word[item.systems[0]]} {item.line - 1} .",) for item in asked.items)
    changes = sum(one != other for one, other in itertools.pairwise(writers))
    assert changes > 25  # 40 expected by chance, 2 if the names told who wrote
    assert asked.sheets[0].items != asked.sheets[1].items
    assert "you will read 60 sentences" in asked.instructions


def test_a_turing_test_counts_empty_sentences():
    asked = turing({"A": ["a", "", "b"]}, ["x", "y"], number=2)
    assert asked.left_out == {"empty, of A": 1, "empty, of Real data": 0}
    with pytest.raises(UserError, match="at least 3 sentences of A"):
        turing({"A": ["a", "", "b"]}, ["x", "y", "z"], number=3)
    with pytest.raises(UserError, match="different names"):
        turing({REAL: ["a"]}, ["x"], number=1)


@pytest.mark.parametrize(("ask", "papers"), [(compared, "the first four sentences"), (mixed, "by lowercasing")])
def test_the_papers_words_about_its_corpora_are_for_rows_alone(ask, papers):
    for other in (ask(number=5), replace(ask(number=5), profile="small")):
        assert papers not in other.instructions
        assert "the texts may be lower-cased" in other.instructions
        assert papers in replace(other, of_paper=True).instructions
        assert "{" not in other.instructions


@pytest.mark.parametrize("profile", [None, "small"])
def test_keys_of_earlier_versions_are_of_the_paper_where_they_have_a_size(profile, tmp_path):
    content = json.loads(replace(compared(number=5), profile=profile).to_json())
    del content["of_paper"]
    (tmp_path / "key.json").write_text(json.dumps(content))
    assert read_key(tmp_path / "key.json").of_paper == (profile == "small")


@pytest.mark.parametrize("ask", [compared, mixed, rated])
def test_the_key_restores_the_questionnaire(ask, tmp_path):
    asked = replace(ask(number=5), sources={"Net": Source("a.txt", "0f", 7, 1)}, profile="small")
    path = tmp_path / "key.json"
    path.write_text(asked.to_json())
    assert read_key(path) == asked


def test_a_key_that_was_changed_is_refused(tmp_path):
    path = tmp_path / "key.json"
    with pytest.raises(UserError, match="No key at"):
        read_key(path)
    content = json.loads(compared(number=5).to_json())
    content["sheets"][0]["swapped"].pop()
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match="changed since it was written"):
        read_key(path)
    for wrong in ("{}", "[]", "no", '{"questionnaire": 1, "kind": "pairwise"}'):
        path.write_text(wrong)
        with pytest.raises(UserError, match="expected the key"):
            read_key(path)


def test_ratings_are_shared_evenly():
    asked = rated(60, number=60, raters=18, per_sentence=3)
    assert len(asked.items) == 120
    raters = {item.name: [sheet.rater for sheet in asked.sheets if item.name in sheet.items] for item in asked.items}
    assert {len(set(each)) for each in raters.values()} == {3}
    for sheet in asked.sheets:
        owners = [asked.by_name[name].systems[0] for name in sheet.items]
        assert (owners.count("Net"), owners.count("Web")) == (10, 10)
        assert owners != sorted(owners)
    assert "read 20 sentences" in asked.instructions
    everyone = rated(number=4, raters=3)
    assert all(len(sheet.items) == 8 for sheet in everyone.sheets)


@pytest.mark.parametrize("options", [{"number": 5, "raters": 4, "per_sentence": 3}, {"raters": 2, "per_sentence": 3}])
def test_ratings_that_cannot_be_shared_evenly_are_refused(options):
    with pytest.raises(UserError, match="--per_sentence"):
        rated(**{"number": 6, **options})
