"""Files of pairs in every shape, and what is wrong with some."""

import gzip
import json
import os
from pathlib import Path

import pytest

from depgen.errors import UserError
from depgen.evaluation.syntax.pairs import pairs_of_protocol, read_pairs

BLIMP = {
    "sentence_good": "The cat sleeps.",
    "sentence_bad": "The cat sleep.",
    "field": "morphology",
    "linguistics_term": "agreement",
    "UID": "regular_1",
    "pairID": "0",
}


def write(path, text):
    path.write_bytes(text.encode())
    return path


def facts(pair):
    return (pair.good.text, pair.bad.text, pair.paradigm, pair.phenomenon, pair.identifier)


def test_fields_of_blimp_are_read(tmp_path):
    path = write(tmp_path / "a.jsonl", json.dumps(BLIMP) + "\n\n" + json.dumps({**BLIMP, "pairID": 1}) + "\n")
    expected = ("The cat sleeps.", "The cat sleep.", "regular_1", "agreement")
    first, second = read_pairs(path)
    assert (facts(first), facts(second)) == ((*expected, "0"), (*expected, "1"))
    assert (first.good.place, second.bad.place) == (f"{path}:1", f"{path}:3")


@pytest.mark.parametrize("begin", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_columns_may_have_a_byte_order_mark_and_any_line_ends(tmp_path, begin, end):
    lines = [f"{begin}bad\tgood", "The  cat sleep .\t The cat  sleeps . ", "", "He run .\tHe runs ."]
    path = write(tmp_path / "own.tsv", end.join(lines) + end)
    assert [facts(pair) for pair in read_pairs(path)] == [
        ("The cat sleeps .", "The cat sleep .", "own", "own", "2"),
        ("He runs .", "He run .", "own", "own", "4"),
    ]


def test_all_files_of_a_folder_are_read_and_blimp_is_the_default(tmp_path, monkeypatch):
    folder = tmp_path / "blimp"
    folder.mkdir()
    write(folder / "b.tsv", "good\tbad\na\tb\n")
    write(folder / "a.jsonl", json.dumps(BLIMP))
    write(folder / "readme.txt", "no pairs")
    assert [pair.paradigm for pair in read_pairs(folder)] == ["regular_1", "b"]
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path))
    assert read_pairs() == read_pairs(folder)
    monkeypatch.setenv("DEPGEN_DATA", str(folder))
    with pytest.raises(UserError, match="alexwarstadt/blimp"):
        read_pairs()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "good\tworse\na\tb\n", r"a\.tsv:1: .*sentence_bad or bad, found good, worse"),
        ("a.tsv", "good\tbad\na\tb\tc\n", r"a\.tsv:2: expected 2 columns.*found 3"),
        ("a.tsv", "good\tbad\na\t \n", r"a\.tsv:2: .*as bad.*empty"),
        ("a.tsv", "good\tbad\n", r"a\.tsv: .*found none"),
        ("a.tsv", "", r"a\.tsv: .*empty"),
        ("a.tsv", "good\tbad\tid\na\tb\t7\nc\td\t7\n", r"a\.tsv:3: .*found 7, which .*a\.tsv:2 has"),
        ("a.jsonl", '{"sentence_good": "a"}\n', r"a\.jsonl:1: .*sentence_bad or bad, found sentence_good"),
        ("a.jsonl", '{"good": "a", "bad": ""}\n', r"a\.jsonl:1: .*empty"),
        ("a.jsonl", '{"good": "a", "bad": null}\n', r"a\.jsonl:1: expected text as bad, found None"),
        ("a.jsonl", '{"good": "a", "bad": "b"}\n[]\n', r"a\.jsonl:2: expected a JSON object"),
        ("a.jsonl", '{"good": "a", \n', r"a\.jsonl:1: expected JSON"),
        ("a.txt", "a\n", r"a\.txt: .*\.jsonl.*tabs \(\.tsv\) or commas.*rename"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, name, text, message):
    with pytest.raises(UserError, match=message):
        read_pairs(write(tmp_path / name, text))


def test_quoted_cells_commas_and_further_columns_are_read(tmp_path):
    rows = '"sentence_good"\t"sentence_bad"\t"condition"\n"He ""runs"" ."\t"He ""run"" ."\t"c1"\n'
    for name, text in (("own.tsv", rows), ("own.csv", rows.replace("\t", ","))):
        (pair,) = read_pairs(write(tmp_path / name, text))
        assert facts(pair) == ('He "runs" .', 'He "run" .', "own", "own", "2")
        assert pair.fields == {"condition": "c1"}
    (pair,) = read_pairs(write(tmp_path / "b.jsonl", json.dumps(BLIMP)))
    assert pair.fields == {"field": "morphology"}


def test_packed_files_are_read_as_what_they_hold(tmp_path):
    texts = {"a.jsonl": json.dumps(BLIMP), "b.tsv": "good\tbad\na\tb\n", "c.csv": "good,bad\na,b\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        assert read_pairs(tmp_path / f"{name}.gz")[0].good.place == f"{tmp_path / name}.gz:{1 + (name[0] != 'a')}"
    assert [pair.paradigm for pair in read_pairs(tmp_path)] == ["regular_1", "b", "c"]


def test_a_folder_without_pairs_and_no_file_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"\.jsonl or \.tsv"):
        read_pairs(tmp_path)
    with pytest.raises(UserError, match=r"No file at"):
        read_pairs(tmp_path / "none.tsv")


def test_the_paper_takes_every_tenth_pair_of_a_paradigm_and_cuts_its_end_off(tmp_path):
    rows = [f"it is {number}?\tit are {number} !\t{paradigm}" for number in range(25) for paradigm in "ab"]
    pairs = read_pairs(write(tmp_path / "a.tsv", "\n".join(["good\tbad\tUID", *rows])))
    assert pairs_of_protocol(pairs, "plain") == pairs
    assert [(pair.good.text, pair.bad.text, pair.paradigm) for pair in pairs_of_protocol(pairs, "paper")] == [
        (f"it is {number} ?", f"it are {number} !", paradigm) for number in (0, 10, 20) for paradigm in "ab"
    ]


def test_the_paper_needs_final_punctuation(tmp_path):
    pairs = read_pairs(write(tmp_path / "a.tsv", "good\tbad\nit is.\tit are\n"))
    with pytest.raises(UserError, match=r"a\.tsv:2: .*'it are'.*--protocol plain"):
        pairs_of_protocol(pairs, "paper")


@pytest.mark.real_data
def test_blimp_is_read_whole_and_every_tenth_pair():
    pairs = read_pairs(Path(os.environ["DEPGEN_DATA"]) / "blimp")
    assert (len(pairs), len({pair.paradigm for pair in pairs})) == (67_000, 67)
    assert sum(pair.good.text == pair.bad.text for pair in pairs) == 7
    paper = pairs_of_protocol(pairs, "paper")
    assert (len(paper), {int(pair.identifier) % 10 for pair in paper}) == (6_700, {0})
