import logging

import pytest
from depgen.data.normalized import NormalizedTreebank
from depgen.data.text_lines import TextLines
from depgen.data.treebank import ConlluTreebank, DependencyColumns

from depgen.data.corpus import Corpus
from depgen.errors import UserError


@pytest.fixture
def place(tmp_path):
    (tmp_path / "a.dp").write_text("``\t``\t2\nSells\tVBZ\t0\n3\tCD\t4\ndogs\tNNS\t2\n.\t.\t2\n\n...\t:\t0\n")
    (tmp_path / "b.dp").write_text("--\t:\t0\n")
    (tmp_path / "train.txt").write_text("sells N horses\n")
    return tmp_path


def normalized(place, **names):
    files = {"train": ["a.dp", "b.dp"], "valid": [], "test": [], **names}
    return NormalizedTreebank(DependencyColumns(str(place), **files), words_of=TextLines(str(place), name="lines"))


def test_words_trees_and_what_is_left_out(place, caplog):
    corpus = normalized(place)
    assert isinstance(corpus, Corpus)
    with caplog.at_level(logging.WARNING):
        (document,) = corpus.documents("train")
    (sentence,) = document.sentences
    assert (sentence.words, sentence.heads, sentence.tags) == (("sells", "N", "<unk>"), (0, 3, 1), ("VBZ", "CD", "NNS"))
    assert document.identifier == "a"
    assert "left out 2 sentences without words" in caplog.text
    assert corpus.name == "WSJ sample (normalised as lines)"


def test_the_fingerprint_follows_the_treebank_and_the_words(place):
    before = normalized(place).fingerprint("train")
    assert before == normalized(place).fingerprint("train") != normalized(place, train=["a.dp"]).fingerprint("train")
    (place / "train.txt").write_text("sells N dogs\n")
    assert normalized(place).fingerprint("train") != before


def test_tags_are_needed(place):
    (place / "bare.conllu").write_text("1\tdogs\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
    bare = ConlluTreebank(str(place), train=["bare.conllu"])
    with pytest.raises(UserError, match="expected tags"):
        list(NormalizedTreebank(bare, words_of=TextLines(str(place))).documents("train"))
