"""Columns of rows: which are found, heads of both numberings, tokens without a head, relations as numbers."""

import datasets
import pytest
from depgen.data.hub_rows import Columns, RowReader, labels_of

from depgen.errors import UserError
from depgen.trees.sentence import Document, Sentence


def read(*rows, root=0, labels=None, columns=None):
    found = (columns or Columns()).found_in(list(rows[0]), "here")
    reader = RowReader(found, labels or {}, root, "rules", "whitespace", "here")
    return list(reader.documents(enumerate(rows, start=1))), dict(reader.left_out)


def sentence(**row):
    ((document,), _) = read(row, root=row.pop("root", 0))
    return document.sentences[0]


def test_usual_names_are_found_and_named_columns_come_first():
    found = Columns().found_in(["id", "text", "tokens", "upos", "xpos", "head", "deprel"], "here")
    assert found == Columns(None, None, "tokens", "head", "deprel", "xpos", "id")
    assert Columns(text="text").found_in(["tokens", "text", "head"], "here") == Columns(text="text")
    assert Columns(heads="gold").found_in(["words", "gold", "head"], "here") == Columns(tokens="words", heads="gold")
    assert Columns().found_in(["sentences", "text"], "here").content == "sentences"
    with pytest.raises(UserError, match=r"here: expected a column of tokens"):
        Columns(heads="gold").found_in(["text", "gold"], "here")


def test_heads_are_numbers_or_strings_and_count_from_1_or_0():
    expected = Sentence(("Dogs", "bark"), (2, 0), ("nsubj", "root"))
    rest = {"tokens": ["Dogs", "bark"], "deprel": ["nsubj", "root"]}
    assert sentence(head=[2, 0], **rest) == sentence(head=["2", "0"], **rest) == expected
    assert sentence(head=["1", "-1"], root=-1, **rest) == sentence(head=[1, -1], root=-1, **rest) == expected
    with pytest.raises(UserError, match=r"here, row 1: .*found -1.*set root: -1"):
        sentence(head=[1, -1], **rest)
    with pytest.raises(UserError, match=r"here, row 1: .*found no -1.*set root: 0"):
        sentence(head=[2, 0], root=-1, **rest)


def test_tokens_without_a_head_are_left_out_and_counted():
    row = {
        "tokens": ["du", "de", "le", "pain", "x"], "head": ["None", "3", "3", "0", None],
        "deprel": ["_", "case", "det", "root", None], "xpos": ["_", "P", "D", "N", "_"],
    }  # fmt: skip
    ((document,), left_out) = read(row)
    assert document.sentences == (Sentence(("de", "le", "pain"), (3, 3, 0), ("case", "det", "root"), ("P", "D", "N")),)
    assert left_out["tokens without a head"] == 2
    with pytest.raises(UserError, match="write rows without them"):
        read({"tokens": ["a", "b"], "head": ["-1", "None"]}, root=-1)


def test_a_sentence_without_any_head_has_no_tree():
    for heads in (["_", "_"], [None, None], [], None):
        assert sentence(tokens=["Dogs", "bark"], head=heads, deprel=None) == Sentence(("Dogs", "bark"))


def test_relations_and_tags_as_numbers_of_classes():
    label = datasets.ClassLabel(names=["nsubj", "root"])
    features = datasets.Features({
        "tokens": datasets.List(datasets.Value("string")), "deprel": datasets.List(label),
        "deeper": datasets.List(datasets.List(label)),
    })  # fmt: skip
    labels = labels_of(features)
    assert labels == {"deprel": ["nsubj", "root"], "deeper": ["nsubj", "root"]}
    row = {"tokens": ["Dogs", "bark", "!"], "head": [2, 0, 2], "deprel": [0, 1, -1]}
    ((document,), _) = read(row, labels=labels)
    assert document.sentences[0].relations == ("nsubj", "root", "_")
    with pytest.raises(UserError, match=r"row 1: expected names, or numbers of a ClassLabel in the column 'deprel'"):
        read({**row, "deprel": [0, 2, 0]}, labels=labels)
    with pytest.raises(UserError, match="numbers of a ClassLabel"):
        read(row)


def test_a_document_a_row_and_a_document_in_several_rows():
    rows = [{"id": "d", "tokens": [["a", "b"], ["c"]], "heads": [["2", "0"], ["0"]]}]
    expected = (Sentence(("a", "b"), (2, 0)), Sentence(("c",), (0,)))
    assert read(*rows)[0] == [Document(expected, "d")]
    rows = [{"doc": name, "tokens": tokens} for name, tokens in (("x", ["a"]), ("x", ["b"]), ("y", ["c"]), ("x", []))]
    found, left_out = read(*rows, columns=Columns(document="doc"))
    assert found == [Document((Sentence(("a",)), Sentence(("b",))), "x"), Document((Sentence(("c",)),), "y")]
    assert left_out["rows without a token"] == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"tokens": ["a", "b"], "head": [0]}, "row 1: expected as many values .* 2 in 'tokens', 1 in 'head'"),
        ({"tokens": [], "head": [0]}, "0 in 'tokens', 1 in 'head'"),
        ({"tokens": ["a", "b"], "head": [2, 1]}, "row 1: .*no root"),
        ({"tokens": ["a", "b"], "head": [0, 3]}, "row 1: token 2 has head 3"),
        ({"tokens": ["a"], "head": ["x"]}, "row 1: expected the number of token 1's head, found 'x'"),
        ({"tokens": ["a"], "head": [True]}, "found 'True'"),
        ({"tokens": ["a"], "head": [[0]]}, "found '\\[0\\]'"),
        ({"tokens": ["a", " "]}, "row 1: expected .* tokens that are not blank"),
        ({"tokens": "a b"}, "row 1: expected a list in the column 'tokens'"),
        ({"tokens": [["a"], ["b"]], "head": [[0]]}, "expected a list for each sentence in the column 'head'"),
        ({"sentences": [3]}, "row 1: expected each sentence of 'sentences' as a string"),
        ({"text": 3}, "row 1: expected a string in the column 'text', found int"),
    ],
)
def test_rows_that_are_refused(row, message):
    with pytest.raises(UserError, match=message):
        read(row)
