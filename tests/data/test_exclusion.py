"""What is excluded is gone from training and validation, word for word, and from nowhere else."""

import logging

from depgen.data.exclusion import WithoutSentences

from depgen.data.corpus import SPLITS, Corpus
from depgen.trees.sentence import Document, Sentence


class Texts:
    """Documents of sentences as strings, sentences apart by |."""

    published: dict = {}  # noqa: RUF012

    def __init__(self, name, **splits):
        self.name, self.splits = name, splits

    def documents(self, split):
        for number, text in enumerate(self.splits.get(split, [])):
            yield Document(tuple(Sentence(tuple(each.split())) for each in text.split("|")), f"{split}:{number}")

    def fingerprint(self, split):
        return f"{self.name} {self.splits.get(split)}"


CORPUS = Texts("PTB", train=["a b|c d|a b", "e|f g", "a b"], valid=["c d", "h"], test=["a b|h"])
TESTED = Texts("sample", train=["a b"], valid=["e"], test=["c d", "x y", "a"])


def left(corpus, split):
    return [["|".join(" ".join(s.words) for s in d.sentences), d.identifier] for d in corpus.documents(split)]


def test_sentences_of_any_split_go_from_training_and_validation_and_empty_documents_with_them(caplog):
    corpus = WithoutSentences(CORPUS, excluded=TESTED)
    assert isinstance(corpus, Corpus)
    with caplog.at_level(logging.WARNING):
        assert left(corpus, "train") == [["f g", "train:1"]]
        assert left(corpus, "valid") == [["h", "valid:1"]]
    assert left(corpus, "test") == [["a b|h", "test:0"]]
    assert caplog.messages == [
        "PTB without sample, train: left out 5 sentences of sample.",
        "PTB without sample, valid: left out 1 sentences of sample.",
    ]


def test_splits_and_name_are_as_told():
    corpus = WithoutSentences(CORPUS, excluded=TESTED, splits=["test"], name="rest")
    assert left(corpus, "test") == [["h", "test:0"]]
    assert left(corpus, "train") == left(CORPUS, "train")
    assert corpus.name == "rest"


def test_the_fingerprint_follows_both_corpora_where_sentences_go():
    corpus = WithoutSentences(CORPUS, excluded=TESTED)
    assert corpus.fingerprint("test") == CORPUS.fingerprint("test")
    found = {corpus.fingerprint("train"), corpus.fingerprint("valid"), CORPUS.fingerprint("train")}
    for split in SPLITS:
        changed = Texts("sample", **{**TESTED.splits, split: ["new"]})
        found.add(WithoutSentences(CORPUS, excluded=changed).fingerprint("train"))
    assert len(found) == 3 + len(SPLITS)
    assert WithoutSentences(CORPUS, excluded=TESTED, name="other").fingerprint("train") == corpus.fingerprint("train")
