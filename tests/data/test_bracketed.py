import logging

import pytest
from depgen.data.bracketed import BracketedTreebank

from depgen.data.corpus import Corpus
from depgen.errors import UserError

TREE = "( (S (NP-SBJ (-NONE- *)) (VP (VB Go) (ADVP (RB home)) (. .))) )\n"


@pytest.fixture
def place(tmp_path):
    for name in ("00/b.mrg", "00/a.mrg", "01/a.mrg", "23/a.mrg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(TREE.replace("home", name[:2]))
    (tmp_path / "01/a.mrg").write_text("(S1 (S (NP (-NONE- *U*))))\n" + TREE)
    return tmp_path


def treebank(place, **patterns):
    return BracketedTreebank(str(place), **{"train": ["0?/*.mrg"], "valid": [], "test": ["23/*.mrg"], **patterns})


def test_words_and_tags_without_traces(place, caplog):
    corpus = treebank(place)
    assert isinstance(corpus, Corpus)
    with caplog.at_level(logging.WARNING):
        documents = list(corpus.documents("train"))
    assert [document.identifier for document in documents] == ["00/a.mrg", "00/b.mrg", "01/a.mrg"]
    (sentence,) = documents[0].sentences
    assert (sentence.words, sentence.tags, sentence.heads) == (("Go", "00", "."), ("VB", "RB", "."), None)
    assert sentence.spans == ((0, 3, "S"), (0, 3, "VP"), (1, 2, "ADVP"))
    assert caplog.messages == [f"{place.name}, train: left out 1 sentences without words."]
    assert list(corpus.documents("valid")) == []


def test_a_file_of_two_patterns_is_read_once(place):
    documents = treebank(place, train=["00/a.mrg", "0?/*.mrg"]).documents("train")
    assert [document.identifier for document in documents] == ["00/a.mrg", "00/b.mrg", "01/a.mrg"]


def test_lower_case_and_the_fingerprint(place):
    lower = BracketedTreebank(str(place), train=["0?/*.mrg"], lowercase=True)
    assert next(lower.documents("train")).sentences[0].words[0] == "go"
    assert lower.fingerprint("train") != treebank(place).fingerprint("train") == treebank(place).fingerprint("train")
    assert treebank(place, train=["00/*.mrg"]).fingerprint("train") != treebank(place).fingerprint("train")


def test_what_is_missing_is_named(place):
    with pytest.raises(UserError, match=r"expected files 24/\*\.mrg of bracketed trees \(test\), found none"):
        list(treebank(place, test=["23/*.mrg", "24/*.mrg"]).documents("test"))
    with pytest.raises(UserError, match="LDC99T42"):
        list(BracketedTreebank(str(place / "nowhere")).documents("train"))
    (place / "23/a.mrg").write_text("( (S (VB Go)\n")
    with pytest.raises(UserError, match=r"a\.mrg:1: expected 2 closing brackets"):
        list(treebank(place).documents("test"))


def test_a_folder_of_ones_own_is_called_by_its_name():
    assert [BracketedTreebank(folder).name for folder in ("wsj", "my/trees")] == ["Penn Treebank", "trees"]
    assert BracketedTreebank("trees", name="mine").name == "mine"
