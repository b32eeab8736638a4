"""Training documents that equal one of validation or test but for blanks."""

import logging
from itertools import islice

import pytest
from depgen.data.document_lines import DocumentLines
from depgen.data.hub_corpus import HubCorpus
from depgen.data.json_documents import JsonDocuments
from depgen.data.overlap import HELD_OUT, dropped_documents
from depgen.data.rocstories import RocStories
from depgen.data.seeded import SeededSplits
from depgen.data.sentences import SingleSentences
from depgen.data.text_lines import TextLines
from depgen.data.treebank import ConlluTreebank

from depgen.data.annotated import AnnotatedSplit
from depgen.data.corpus import Corpus
from depgen.errors import UserError

TEXTS = {
    "train": ["a cat sat .", "two  dogs ran .", "he left .", "a catsat.", "A cat sat ."],
    "valid": ["he left.", "nobody came ."],
    "test": ["acat sat .", "it rained ."],
}
LEFT = ["two dogs ran .", "A cat sat ."]


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "news", TEXTS)
    return tmp_path / "news"


def write(folder, texts):
    folder.mkdir(exist_ok=True)
    for split, lines in texts.items():
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n")


def texts_of(corpus, split="train"):
    return [" ".join(document.words()) for document in corpus.documents(split)]


def test_equal_lines_are_left_out_of_training_and_counted(folder, caplog):
    corpus = TextLines(str(folder))
    assert isinstance(corpus, Corpus)
    with caplog.at_level(logging.WARNING):
        assert texts_of(corpus) == LEFT
    (message,) = caplog.messages
    assert message.startswith("news, train: left out 3 of 5 documents")
    assert corpus.overlap_size() == 3
    for split in HELD_OUT:
        assert texts_of(corpus, split) == [" ".join(text.split()) for text in TEXTS[split]]


def test_lines_are_compared_as_they_are_read(folder):
    assert texts_of(TextLines(str(folder), lowercase=True)) == ["two dogs ran ."]


def test_nothing_is_left_out_by_argument_or_without_equal_lines(folder, tmp_path, caplog):
    kept = TextLines(str(folder), overlap="keep")
    write(tmp_path / "apart", {**TEXTS, "train": LEFT})
    with caplog.at_level(logging.WARNING):
        assert len(texts_of(kept)) == len(TEXTS["train"])
        assert texts_of(TextLines(str(tmp_path / "apart"))) == LEFT
    assert caplog.messages == []
    assert kept.overlap_size() == 0


def test_a_missing_split_drops_nothing(folder):
    (folder / "test.txt").unlink()
    assert texts_of(TextLines(str(folder))) == [" ".join(TEXTS["train"][i].split()) for i in (0, 1, 3, 4)]
    (folder / "valid.txt").unlink()
    corpus = TextLines(str(folder))
    assert len(texts_of(corpus)) == len(TEXTS["train"])
    assert corpus.fingerprint("train") == TextLines(str(folder), overlap="keep").fingerprint("train")


def test_the_fingerprint_changes_where_lines_are_left_out_alone(folder, tmp_path):
    write(tmp_path / "apart", {**TEXTS, "train": LEFT})

    def fingerprints(name, split, **options):
        return TextLines(str(tmp_path / name), **options).fingerprint(split)

    assert fingerprints("apart", "train") == fingerprints("apart", "train", overlap="keep")
    before = fingerprints("news", "train")
    assert before != fingerprints("news", "train", overlap="keep")
    assert before == fingerprints("news", "train")
    for split in HELD_OUT:
        assert fingerprints("news", split) == fingerprints("news", split, overlap="keep")
    (folder / "test.txt").write_text("A cat sat .\n")  # another line goes
    assert fingerprints("news", "train") != before
    assert texts_of(TextLines(str(folder))) == [" ".join(TEXTS["train"][i].split()) for i in (0, 1, 3)]


def test_prepared_tables_follow(folder):
    dropped, kept = TextLines(str(folder)), TextLines(str(folder), overlap="keep")
    digests = {AnnotatedSplit(each, "train", None, whole_documents=False).fingerprint() for each in (dropped, kept)}
    assert len(digests) == 2
    assert [len(AnnotatedSplit(each, "train", None).table()) for each in (dropped, kept)] == [2, 5]


def test_a_training_split_of_nothing_else_is_refused(folder):
    (folder / "train.txt").write_text("it rained .\n")
    corpus = TextLines(str(folder))
    with pytest.raises(UserError, match="set overlap: keep"):
        texts_of(corpus)


def test_a_split_of_the_same_text_drops_nothing(folder):
    corpus = TextLines(str(folder), valid="train.txt")
    assert texts_of(corpus) == [" ".join(TEXTS["train"][i].split()) for i in (1, 2, 4)]  # test drops its own
    assert corpus.overlap_size() == 2
    assert len(texts_of(TextLines(str(folder), valid="train.txt", test="train.txt"))) == len(TEXTS["train"])


def test_published_and_tracked_splits_stay_as_they_are():
    assert TextLines("ptb").overlap == TextLines("mine", published="ptb").overlap == "keep"
    assert JsonDocuments("wikinews").overlap == ConlluTreebank().overlap == HubCorpus("a/b").overlap == "keep"
    assert TextLines("emnlp_news").overlap == RocStories().overlap == JsonDocuments("news").overlap == "drop"
    assert TextLines("ptb", overlap="drop").overlap == "drop"


def test_documents_are_compared_as_a_whole(tmp_path):
    write(tmp_path, {"train": ["he left .", "it rained .", "", "he left ."], "valid": ["he left .", "it rained ."]})
    write(tmp_path, {"test": ["it rained ."]})
    corpus = SingleSentences(DocumentLines(str(tmp_path)))
    assert texts_of(corpus) == ["he left ."]  # the second document; its sentence in the first one stays
    assert dropped_documents(corpus) == 1


def test_datasets_of_the_hub_lose_them_by_argument(folder):
    corpus = HubCorpus(str(folder), valid="validation", overlap="drop")
    (folder / "valid.txt").rename(folder / "validation.txt")
    assert texts_of(corpus) == LEFT
    assert corpus.fingerprint("train") != HubCorpus(str(folder), valid="validation").fingerprint("train")


def test_drawn_splits_lose_documents_that_recur(folder):
    (folder / "train.txt").write_text("\n".join(["he left ."] * 8 + [f"{n} came ." for n in range(4)]))
    options = {"valid_documents": 4, "test_documents": 4}
    corpus, kept = (
        SeededSplits(TextLines(str(folder), overlap="keep"), overlap=each, **options) for each in ("drop", "keep")
    )
    held_out = {text for split in HELD_OUT for text in texts_of(corpus, split)}
    assert "he left ." in held_out
    assert texts_of(kept).count("he left .") == corpus.overlap_size() > 0
    assert texts_of(corpus) == [text for text in texts_of(kept) if text not in held_out]


def test_the_training_split_is_read_as_a_stream(folder, monkeypatch):
    read = []
    whole = TextLines.read

    def counted(self, path, split):
        for document in whole(self, path, split):
            read.append(document.identifier)
            yield document

    monkeypatch.setattr(TextLines, "read", counted)
    assert len(list(islice(TextLines(str(folder)).documents("train"), 1))) == 1
    assert [each for each in read if each.startswith("train")] == ["train.txt:1", "train.txt:2"]
