"""What is wrong with formulas, pairs and suites is refused with its place."""

import json

import pytest

from depgen.errors import UserError
from depgen.evaluation.minimal_pairs import PairOptions, minimal_pairs
from depgen.evaluation.syntactic_suites import parse_formula, read_suites
from tests.evaluation.syntax_toys import suite_of, unigrams, write_suite


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(1;%a%) ? (2;%a%)", r"'\?' means nothing"),
        ("(1;%a%) < (2;%a%)) & 1 < 2", "unmatched"),
        ("[(1;%a%) < (2;%a%)", "never closed"),
        ("", "invalid syntax"),
        ("(1;%a%) <", "invalid syntax"),
        ("(1;%a%) < 1 < 2", "numbers were expected"),
        ("(1;%a%) >> 2 > 1", "invalid syntax"),
        ("(1;%a%)(2;%a%) < 1", "invalid syntax"),
        ("(1;%a%) [1 < 2]", "two sides"),
        ("(1;%a%) - 2", "it is a number"),
        ("(1;%a%) & 1 < 2", "comparisons were expected"),
        ("[1 < 2] + 3 > 1", "numbers were expected"),
        ("__import__('os')", "'_' means nothing"),
        ("[" * 5000 + "1 < 2" + "]" * 5000, "nested"),
        ("1" + " + 1" * 50_000 + " > 0", ""),
    ],
)
def test_what_is_no_formula(text, message):
    with pytest.raises(UserError, match=rf"^x\.json: expected a formula.*found .*{message}"):
        parse_formula(text, place="x.json")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "good\tworse\na\tb\n", r"a\.tsv:2: .*sentence_bad or bad, found good, worse"),
        ("a.tsv", "good\tbad\na\t \n", r"a\.tsv:2: the system reads no word of ''"),
        ("a.tsv", "good\tbad\na\t?\n", r"a\.tsv:2: the system reads no word of '\?'.*--form"),
        ("a.tsv", "good\tbad\n", "expected pairs"),
        ("a.tsv", "good\tbad\tid\na\tb\t7\nc\td\t7\n", r"a\.tsv:3: .*found 7 again"),
        ("a.jsonl", '{"good": "a", "bad": null}\n', r"a\.jsonl:1: expected text as bad, found None"),
        ("a.jsonl", '{"good": "a", "bad": "b"}\n[]\n', r"a\.jsonl:2: expected a JSON object"),
        ("a.txt", "a\n", r"a\.txt: .*\.jsonl.*tabs \(\.tsv\) or commas.*rename"),
    ],
)
def test_what_are_no_pairs(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        minimal_pairs(
            unigrams({"a": -1.0, "b": -2.0, "c": -1.0, "d": -1.0}, form="bare"), PairOptions(pairs=tmp_path / name)
        )


def test_the_paper_needs_final_punctuation(tmp_path):
    (tmp_path / "a.tsv").write_text("good\tbad\nit is.\tit are\n")
    with pytest.raises(UserError, match=r"a\.tsv:2: .*'it are'.*--protocol plain"):
        minimal_pairs(unigrams({}), PairOptions(pairs=tmp_path / "a.tsv", protocol="paper"))


ITEM = {"a": ["The cat", "", " sat "], "b": ["", "the  dog", "ran", ""]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (suite_of(ITEM, metric="mean"), r"meta\.metric: .*'sum', found 'mean'"),
        (suite_of(ITEM, formulas=["(1;%a%) < (1;%c%)"]), r"item 1: .*\(1;%c%\)"),
        (suite_of(ITEM, formulas=["(4;%b%) < (4;%a%)"]), r"item 1: .*\(4;%a%\)"),
        (suite_of(ITEM, formulas=["(1;%a%) < (1;%b%)", "(1;%a%) ^ 2"]), r"prediction 2: .*'\^'"),
        (suite_of(ITEM, formulas=[]), "predictions: .*at least 1"),
        (suite_of({"a": ["x", 5], "b": ["x"]}), r"items\.0\.conditions\.0\.regions\.1\.content: .*string, found 5"),
        ({**suite_of(ITEM), "items": suite_of(ITEM)["items"] * 2}, "item 2: .*found one twice"),
        ({**suite_of(ITEM), "predictions": [{"type": "rank", "formula": ""}]}, r"predictions\.0\.type: .*'rank'"),
        ([], r"Input should be an object, found \[\]"),
    ],
)
def test_what_is_no_suite(tmp_path, content, message):
    path = write_suite(tmp_path / "x.json", content)
    with pytest.raises(UserError, match=rf"^{path}: (.*\b)?{message}"):
        read_suites(path)


def test_two_suites_of_a_name_and_two_regions_of_a_number(tmp_path):
    content = suite_of(ITEM)
    for name in ("one", "two"):
        write_suite(tmp_path / f"{name}.json", content)
    with pytest.raises(UserError, match=r"two\.json: .*found toy again"):
        read_suites(tmp_path)
    content["items"][0]["conditions"][0]["regions"][1]["region_number"] = 1
    (tmp_path / "one.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"item 1, condition a: .*region_number once"):
        read_suites(tmp_path / "one.json")
