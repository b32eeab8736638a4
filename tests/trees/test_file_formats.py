from pathlib import Path

import pytest

from depgen.errors import UserError
from depgen.trees.file_formats import format_of


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a.txt", "text"), ("a", "text"), ("a.tok.gz", "text"), ("a.conllu.gz", "conllu"), ("a.SDP", "sdp"),
        ("a.jsonl", "jsonl"), ("a.b.csv", "csv"), ("a.tsv.gz", "tsv"),
    ],
)  # fmt: skip
def test_endings_say_what_a_file_holds(name, found):
    assert format_of(Path(name)) == found


@pytest.mark.parametrize("name", ["a.conll", "a.json", "wsj.mrg.gz", "a.xlsx"])
def test_what_no_verb_reads_is_refused(name):
    with pytest.raises(
        UserError, match=rf"{name}: expected text, .*convert the file, or name it as what it holds \(\.conllu, or \.txt"
    ):
        format_of(Path(name))
