import logging
from pathlib import Path
from pkgutil import resolve_name

import pytest
from depgen.data.document_lines import DocumentLines
from depgen.data.files import content_fingerprint, log_left_out, lowercased
from depgen.data.text_lines import TextLines

from depgen.errors import UserError
from depgen.trees.sentence import Document, Sentence


def test_fingerprints_see_content_options_and_order_alone(tmp_path):
    one, two, copy = (tmp_path / name for name in ("one", "two", "copy"))
    one.write_text("a b\n")
    two.write_text("a c\n")
    copy.write_text("a b\n")
    assert content_fingerprint([one], lowercase=True) == content_fingerprint([copy], lowercase=True)
    prints = {
        content_fingerprint([one]),
        content_fingerprint([two]),
        content_fingerprint([one], lowercase=True),
        content_fingerprint([one, two]),
        content_fingerprint([two, one]),
    }
    assert len(prints) == 5


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    def denied(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "one").write_text("a\n")
    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(UserError, match=r"one can't be read \(Permission denied\)"):
        content_fingerprint([tmp_path / "one"])


def test_lower_case_keeps_the_trees():
    document = Document((Sentence(("The", "CAT"), (2, 0), ("det", "root")),), "d")
    assert lowercased(document) == Document((Sentence(("the", "cat"), (2, 0), ("det", "root")),), "d")


def test_what_is_left_out_is_said_once(caplog):
    with caplog.at_level(logging.WARNING):
        log_left_out(0, "lines", corpus="c", split="train")
        log_left_out(3, "lines", corpus="c", split="train")
    assert caplog.messages == ["c, train: left out 3 lines."]


@pytest.mark.parametrize("corpus", [TextLines, DocumentLines])
@pytest.mark.parametrize(
    ("name", "reader"),
    [
        ("a.conllu", "depgen.data.treebank.ConlluTreebank"),
        ("a.sdp.gz", "depgen.data.treebank.SdpTreebank"),
        ("a.jsonl", "depgen.data.json_documents.JsonDocuments"),
        ("a.csv", "depgen.data.hub_corpus.HubCorpus"),
        ("a.TSV", "depgen.data.hub_corpus.HubCorpus"),
        ("a.json", "convert the file"),
    ],
)
def test_a_file_of_another_format_is_no_plain_text(tmp_path, corpus, name, reader):
    (tmp_path / name).write_text("1\tThe\n2\tcat\n")
    with pytest.raises(UserError, match=rf"{name}: expected .*{reader}"):
        list(corpus(str(tmp_path), train=name).documents("train"))
    if reader.startswith("depgen."):
        assert callable(resolve_name(reader).documents)


@pytest.mark.parametrize("corpus", [TextLines, DocumentLines])
@pytest.mark.parametrize("name", ["a.txt", "a", "wiki.tokens", "a.en"])
def test_other_endings_are_of_plain_text(tmp_path, corpus, name):
    (tmp_path / name).write_text("The cat\n")
    (document,) = corpus(str(tmp_path), train=name).documents("train")
    assert document.sentences[0].words == ("The", "cat")
