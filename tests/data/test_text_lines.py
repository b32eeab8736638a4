import logging

import pytest
from depgen.data.text_lines import TextLines

from depgen.data.corpus import Corpus
from depgen.errors import UserError
from depgen.trees.sentence import Document, Sentence


def test_lines(tmp_path, caplog):
    (tmp_path / "a.txt").write_text(" The <unk> sat \n\n  \nN cats\n")
    corpus = TextLines(str(tmp_path), train="a.txt", name="lines")
    assert isinstance(corpus, Corpus)
    with caplog.at_level(logging.WARNING):
        assert list(corpus.documents("train")) == [
            Document((Sentence(("The", "<unk>", "sat")),), "a.txt:1"),
            Document((Sentence(("N", "cats")),), "a.txt:4"),
        ]
    assert caplog.messages == ["lines, train: left out 2 blank lines."]
    lower = TextLines(str(tmp_path), train="a.txt", lowercase=True)
    assert next(lower.documents("train")).sentences[0].words == ("the", "<unk>", "sat")
    assert lower.fingerprint("train") != corpus.fingerprint("train")
    assert lower.name == tmp_path.name


def test_presets_of_published_statistics():
    assert TextLines("ptb", published="ptb").published["train"].tokens == 929_589
    assert TextLines("news", published="emnlp_news").published["train"].sentences == 268_586
    assert TextLines("mine").published == {}


def test_errors(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path))
    with pytest.raises(UserError, match=r"simple-examples\.tgz"):
        list(TextLines("ptb", published="ptb").documents("train"))
    (tmp_path / "train.txt").write_text("\n \n")
    with pytest.raises(UserError, match=r"train\.txt: expected a sentence on each line, found only blank lines"):
        list(TextLines(".").documents("train"))


def test_lines_that_are_paragraphs_are_cut_into_sentences(tmp_path):
    (tmp_path / "a.txt").write_text(" Mr. Lee left . He ran . \n\n = Title = \n")
    corpus, whole = (TextLines(str(tmp_path), train="a.txt", sentence_splitter=rule) for rule in ("rules", "lines"))
    paragraph, title = corpus.documents("train")
    words = [sentence.words for sentence in paragraph.sentences]
    assert words == [("Mr.", "Lee", "left", "."), ("He", "ran", ".")]
    assert title.sentences == (Sentence(("=", "Title", "=")),)
    assert len(next(whole.documents("train")).sentences) == 1
    assert (
        corpus.fingerprint("train")
        != whole.fingerprint("train")
        == TextLines(str(tmp_path), train="a.txt").fingerprint("train")
    )
