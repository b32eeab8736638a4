import logging
import pickle

import pytest

from depgen.annotation.controls import GoldTrees, KnownTrees, LeftChain
from depgen.data.text import TextData
from depgen.errors import UserError
from depgen.trees.annotator import SentenceError
from depgen.trees.sentence import Document, Sentence
from tests.shelves import Shelf

RIGHT = Sentence(("red", "figures"), (2, 0), ("amod", "root"))
BARE = Sentence(("figures", "fall"), (2, 0))
NEW = Sentence(("stocks", "fall"))


def shelf(**splits):
    """A corpus of a document of sentences in each split."""
    documents = {split: [Document(tuple(splits.get(split, ())), split)] for split in ("train", "valid", "test")}
    return Shelf(documents.pop("train"), **documents)


TREEBANK = shelf(train=[RIGHT], valid=[BARE], test=[Sentence(RIGHT.words, (0, 1), ("root", "dep"))])


def test_known_sentences_get_the_treebanks_trees_and_others_are_parsed():
    annotator = KnownTrees(TREEBANK, LeftChain())
    asked = [NEW, Sentence(RIGHT.words, tags=("JJ", "NNS")), NEW, Sentence(BARE.words)]
    found = pickle.loads(pickle.dumps(annotator)).annotate(asked)
    assert [sentence.heads for sentence in found] == [(0, 1), (2, 0), (0, 1), (2, 0)]
    assert [sentence.relations for sentence in found[1::2]] == [("amod", "root"), ("_", "_")]
    assert [(a.words, a.tags) for a in found] == [(b.words, b.tags) for b in asked]
    assert annotator.scheme == "shelf, its own trees; other sentences: left chain"


def test_unknown_sentences_are_refused_by_their_number():
    with pytest.raises(SentenceError, match="sentence 2: shelf has no tree for 'stocks fall'"):
        KnownTrees(TREEBANK).annotate([RIGHT, NEW])
    with pytest.raises(SentenceError, match="sentence 3: GoldTrees"):
        KnownTrees(TREEBANK, GoldTrees()).annotate([RIGHT, Sentence(("up",), (0,)), NEW])


def test_unknown_sentences_can_be_left_without_a_tree():
    annotator = KnownTrees(TREEBANK, leave_unknown=True)
    found = annotator.annotate([NEW, Sentence(RIGHT.words)])
    assert [(sentence.heads, sentence.relations) for sentence in found] == [
        ((-1, -1), ("_", "_")), ((2, 0), ("amod", "root")),
    ]  # fmt: skip
    assert annotator.leaves_out
    assert KnownTrees(shelf(), annotator).leaves_out
    assert not KnownTrees(TREEBANK, LeftChain()).leaves_out
    assert not LeftChain().leaves_out
    assert annotator.scheme == "shelf, its own trees; other sentences: no trees"
    assert annotator.fingerprint() != KnownTrees(TREEBANK).fingerprint()


def test_a_treebank_without_trees_is_refused():
    with pytest.raises(UserError, match="train of shelf: expected heads"):
        KnownTrees(shelf(train=[NEW])).annotate([RIGHT])


def test_the_fingerprint_follows_treebank_splits_and_the_other_annotator():
    annotators = [
        KnownTrees(TREEBANK), KnownTrees(TREEBANK, LeftChain()), KnownTrees(TREEBANK, leave_unknown=True),
        KnownTrees(shelf(train=[BARE])),
    ]  # fmt: skip
    assert len({annotator.fingerprint() for annotator in annotators}) == 4


def test_the_log_says_how_many_words_are_in_trees(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path))
    known, unknown = RIGHT, NEW
    corpus = shelf(train=[unknown, known, unknown], valid=[unknown])
    data = TextData(corpus, annotator=KnownTrees(shelf(train=[known]), leave_unknown=True))
    with caplog.at_level(logging.INFO):
        data.split("train"), data.split("valid")
    scheme = "shelf, its own trees; other sentences: no trees"
    said = [each for each in caplog.messages if "are in trees" in each]
    words, more = len(known), len(unknown)
    parts = (f"train: {words} of {words + 2 * more}", f"valid: 0 of {more}")
    assert said == [f"shelf {part} words are in trees ({scheme})" for part in parts]


def test_a_treebank_that_has_no_sentence_of_the_training_text_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path))
    data = TextData(shelf(train=[NEW, BARE]), annotator=KnownTrees(shelf(train=[RIGHT]), leave_unknown=True))
    with pytest.raises(UserError, match=r"shelf, train: expected trees, found none in its 2 sentences .*same form"):
        data.split("train")
