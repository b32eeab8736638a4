"""Suites as JSON, and what is wrong with some; the real ones where they are at hand."""

import codecs
import json
import os
from pathlib import Path

import pytest

from depgen.errors import UserError
from depgen.evaluation.syntax.formulas import Region
from depgen.evaluation.syntax.suites import CIRCUITS, OTHER, Suite, condition_of, read_suite, read_suites
from tests.evaluation.syntax.toys import suite_of, write_suite

ITEM = {"a": ["The cat", "", " sat "], "b": ["", "the  dog", "ran", ""]}


def test_regions_become_one_sentence_with_their_characters(tmp_path):
    suite = read_suite(write_suite(tmp_path / "x.json", suite_of(ITEM)))
    (item,) = suite.items
    one, other = item.conditions["a"], item.conditions["b"]
    assert (one.text, other.text) == ("The cat sat", "the dog ran")
    assert one.spans == {1: (0, 7), 2: (7, 7), 3: (8, 11)}
    assert other.spans == {1: (0, 0), 2: (0, 7), 3: (8, 11), 4: (11, 11)}
    assert [one.is_empty(Region(number, "a")) for number in (1, 2, 3, None)] == [False, True, False, False]
    assert (suite.name, suite.metric, suite.circuit) == ("toy", "sum", OTHER)
    assert other.place == f"{tmp_path / 'x.json'}: item 1, condition b"


def test_regions_that_are_blank_take_no_blank():
    spans = condition_of([(3, " "), (5, "a"), (4, "\t"), (9, ", b .")], place="x").spans
    assert spans == {3: (0, 0), 5: (0, 1), 4: (1, 1), 9: (2, 7)}


def test_a_byte_order_mark_and_line_ends_do_not_matter(tmp_path):
    expected = read_suite(write_suite(tmp_path / "x.json", suite_of(ITEM)))
    text = json.dumps(suite_of(ITEM), indent=1).replace("\n", "\r\n").encode()
    (tmp_path / "x.json").write_bytes(codecs.BOM_UTF8 + text)
    assert read_suite(tmp_path / "x.json") == expected


def changed(**changes):
    return {**suite_of(ITEM), **changes}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (suite_of(ITEM, metric="median"), r"sum or mean, found 'median'"),
        (suite_of(ITEM, metric=["sum"]), r"metric to be a str"),
        (suite_of(ITEM, formulas=["(1;%a%) < (1;%c%)"]), r"item 1: .*\(1;%c%\).*no condition 'c' among a, b"),
        (suite_of(ITEM, formulas=["(4;%b%) < (4;%a%)"]), r"item 1, condition a: .*no region 4 among 1, 2, 3"),
        (suite_of(ITEM, formulas=["(1;%a%) < (1;%b%)", "(1;%a%) ^ 2"]), r"prediction 2: .*found '\^ 2'"),
        (suite_of(ITEM, formulas=[]), r"expected predictions.*empty"),
        (suite_of(), r"expected items.*empty"),
        (suite_of({}), r"item 1: expected conditions.*empty"),
        (suite_of({"a": ["", " "], "b": ["x"]}), r"item 1, condition a: expected a sentence"),
        (suite_of({"a": [], "b": ["x"]}), r"item 1, condition a: expected regions.*empty"),
        (suite_of({"a": ["x", 5], "b": ["x"]}), r"item 1, condition a: expected content to be a str, found 5"),
        (changed(items=suite_of(ITEM)["items"] * 2), r"each item_number once, found 1 twice"),
        (changed(items=[{"conditions": suite_of(ITEM)["items"][0]["conditions"] * 2}]), r"item 1: .*found a twice"),
        (changed(predictions=[{"type": "rank", "formula": ""}]), r"prediction 1: .*formula, found 'rank'"),
        (changed(predictions=["a"]), r"prediction 1: expected the field type"),
        (changed(meta={}), r"meta: expected the field metric"),
        ({"items": []}, r"expected the field meta"),
        ([], r"expected a JSON object, found a list"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path, content, message):
    path = write_suite(tmp_path / "x.json", content)
    with pytest.raises(UserError, match=rf"^{path}: (.*\b)?{message}"):
        read_suite(path)


def test_regions_of_the_same_number_are_refused(tmp_path):
    content = suite_of(ITEM)
    content["items"][0]["conditions"][0]["regions"][1]["region_number"] = 1
    with pytest.raises(UserError, match=r"item 1, condition a: .*region_number once, found 1 twice"):
        read_suite(write_suite(tmp_path / "x.json", content))


def test_a_file_that_is_no_json_and_a_folder_without_suites_are_refused(tmp_path):
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(UserError, match=r"bad\.json: expected JSON"):
        read_suites(tmp_path)
    with pytest.raises(UserError, match=r"none\.json: .*Copy"):
        read_suites(tmp_path / "none.json")
    (tmp_path / "bad.json").unlink()
    with pytest.raises(UserError, match=r"expected suites"):
        read_suites(tmp_path)


def test_two_suites_of_a_name_are_refused(tmp_path):
    for name in ("one", "two"):
        write_suite(tmp_path / f"{name}.json", suite_of(ITEM))
    with pytest.raises(UserError, match=r"two\.json: .*found toy, which .*one\.json has"):
        read_suites(tmp_path)


@pytest.mark.real_data
def test_the_suites_of_hu_et_al_are_read():
    suites = read_suites(Path(os.environ["DEPGEN_DATA"]) / "syntaxgym")
    assert len(suites) == 34
    assert sum(len(suite.items) for suite in suites) == 842
    assert sum(len(item.conditions) for suite in suites for item in suite.items) == 3304
    assert [sum(suite.circuit == name for suite in suites) for name in (*CIRCUITS, OTHER)] == [3, 10, 6, 4, 2, 8, 1]
    assert {suite.name for suite in suites if len(suite.predictions) > 1} == {"fgd_hierarchy", "nn-nv-rpl"}
    assert sum(map(has_blank, suites)) == 14
    first = next(suite for suite in suites if suite.name == "npz_ambig").items[0].conditions["ambig_comma"]
    assert first.text == "As the criminal shot , the woman yelled at the top of her lungs"


def has_blank(suite: Suite) -> bool:
    """Whether a region has no words."""
    return any(
        first == last
        for item in suite.items
        for each in item.conditions.values()
        for first, last in each.spans.values()
    )
