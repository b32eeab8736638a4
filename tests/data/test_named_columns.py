"""Rows of named columns: the documents that they become, and what is refused."""

import logging

import pytest

from depgen.data.named_columns import NamedColumns
from depgen.errors import UserError
from depgen.trees.sentence import Document, Sentence


@pytest.fixture
def read(caplog):
    """The documents of rows."""
    caplog.set_level(logging.WARNING)

    def documents(*rows, **options):
        numbered = [(f"here:{number}", f"row-{number}", row) for number, row in enumerate(rows, start=1)]
        return [document for document, _ in NamedColumns(**options).documents_of(numbered, "here")]

    return documents


def test_texts_are_cut_and_rows_without_a_token_counted(read, caplog):
    rows = {"id": 0, "text": "He left. She didn't."}, {"id": 1, "text": None}, {"id": None, "text": "One\nTwo."}
    assert read(*rows, tokens="rules") == [
        Document((Sentence(("He", "left", ".")), Sentence(("She", "did", "n't", "."))), "0"),
        Document((Sentence(("One",)), Sentence(("Two", "."))), "row-3"),
    ]
    assert caplog.messages == ["here: left out 1 rows without a token."]
    (first, _) = read(*rows, splitter="lines")
    assert first.sentences == (Sentence(("He", "left.", "She", "didn't.")),)


def test_listed_sentences_are_strings_or_tokens(read, caplog):
    row = {"name": "x", "parts": ["He left .", ["She", "stayed"], " ", []], "text": "unread"}
    (document,) = read(row, columns={"sentences": "parts", "identifier": "name"})
    assert document == Document((Sentence(("He", "left", ".")), Sentence(("She", "stayed"))), "x")
    assert caplog.messages == ["here: left out 2 sentences without a token."]


@pytest.mark.parametrize("heads", [[2, 0], ["2", "0"]])
def test_heads_are_numbers_or_strings(read, heads):
    (document,) = read({"head": heads, "tokens": ["Dogs", "bark"], "deprel": ["nsubj", "root"]})
    assert document.sentences == (Sentence(("Dogs", "bark"), (2, 0), ("nsubj", "root")),)


def test_tokens_without_a_head_are_left_out_and_counted(read, caplog):
    row = {
        "tokens": ["du", "de", "le", "pain", "x"], "head": ["None", "3", "3", "0", None],
        "deprel": ["_", "case", "det", "root", None], "xpos": ["_", "P", "D", "N", "_"],
    }  # fmt: skip
    (document,) = read(row)
    assert document.sentences == (Sentence(("de", "le", "pain"), (3, 3, 0), ("case", "det", "root"), ("P", "D", "N")),)
    assert caplog.messages == ["here: left out 2 tokens without a head."]


def test_a_document_of_several_sentences(read):
    (document,) = read({"id": "d", "tokens": [["a", "b"], ["c"]], "heads": [["2", "0"], ["0"]]})
    assert document == Document((Sentence(("a", "b"), (2, 0)), Sentence(("c",), (0,))), "d")


@pytest.mark.parametrize("heads", [["_", "_"], [None, None], [], None])
def test_a_sentence_without_any_head_has_no_tree(read, heads):
    assert read({"tokens": ["Dogs", "bark"], "head": heads})[0].sentences == (Sentence(("Dogs", "bark")),)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"tokens": ["a", "b"], "head": [0]}, "expected as many values .* 2 tokens, 1 heads"),
        ({"tokens": [], "head": [0]}, "0 tokens, 1 heads"),
        ({"tokens": [["a"], ["b"]], "head": [[0]]}, "expected as many values .* 2 tokens, 1 heads"),
        ({"tokens": ["a", "b"], "head": [2, 1]}, "no root"),
        ({"tokens": ["a"], "head": ["x"]}, "expected the number of a head or 0, found 'x'"),
        ({"tokens": ["a", "b"], "head": ["1", "-1"]}, "expected the number of a head or 0, found '-1'"),
        ({"tokens": "a b"}, "expected a list in the column of tokens"),
        *(({"sentences": ["He left .", each]}, "expected each sentence as a string or a list of tokens")
          for each in ({}, None, 7, ["a", 7], ["a", " "])),
        ({"text": 3}, "expected a string in the column of text, found '3'"),
        ({"body": "a"}, "expected a column of tokens, sentences or text, found the columns body"),
    ],
)  # fmt: skip
def test_rows_that_are_refused(read, row, message):
    with pytest.raises(UserError, match=f"^here:1.*{message}"):
        read(row)


def test_columns_and_documents_that_are_not_there(read):
    with pytest.raises(UserError, match=r"here:2: expected the column 'body' \(of text\), found .*Did you mean 'bod'"):
        read({"body": "a"}, {"bod": "b"}, columns={"text": "body"})
    with pytest.raises(UserError, match="here: expected documents, found no row with a token"):
        read({"text": " "})
