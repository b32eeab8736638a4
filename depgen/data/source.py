"""What a system is trained on: a corpus by its name, its size and its content."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from depgen.data.corpus import SPLITS, Corpus, Split
from depgen.data.sentences import SingleSentences
from depgen.locations import lines_sha256


@dataclass(frozen=True)
class DataSource:
    """What a system was trained on.

    Attributes:
        corpus: the corpus's name.
        reduced: whether its files are smaller than the published statistics.
        train_documents: documents in the training split; None where nobody counted.
        fingerprint: digest of every split's content and reading options, and of the limit on training documents where
            there is one.
    """

    corpus: str
    reduced: bool
    train_documents: int | None = None
    fingerprint: str | None = None


def source_of(
    corpus: Any,  # noqa: ANN401 - any corpus
    *,
    max_documents: int | None = None,
    documents: Mapping[Split, int] | None = None,
) -> DataSource:
    """The corpus by name, size and content; "reduced" where training documents were left out or fewer than published.

    The documents of each split are counted unless their number is given.
    """
    known = documents or {}
    sizes = {split: known[split] if split in known else _size(corpus, split) for split in SPLITS}
    text, limit = _whole(corpus)
    left_out = limit is not None and limit < _size(text, "train")
    if max_documents is not None:
        left_out = left_out or max_documents < sizes["train"]
        sizes["train"] = min(sizes["train"], max_documents)
    published = {split: statistics.documents for split, statistics in corpus.published.items()}
    reduced = left_out or any(size < (published.get(split) or 0) for split, size in sizes.items())
    return DataSource(corpus.name, reduced, sizes["train"], fingerprint_of(corpus, max_documents=max_documents))


def fingerprint_of(corpus: Corpus, *, max_documents: int | None = None) -> str:
    """A digest of every split's content and reading options.

    A limit on training documents is part of it, since it makes other data of the same files; to read all of its
    sentences by themselves is not.
    """
    text, limit = _whole(corpus)
    parts = [text.fingerprint(split) for split in SPLITS]
    parts += [f"max_documents {each}" for each in (limit, max_documents) if each is not None]
    return lines_sha256(parts)


def _whole(corpus: Corpus) -> tuple[Corpus, int | None]:
    """The corpus whose sentences are read by themselves, all of them, and the limit on its training documents."""
    limits = ("max_words", "test_sentences")
    if (
        isinstance(corpus, SingleSentences)
        and corpus.min_words <= 1
        and not any(getattr(corpus, each) for each in limits)
    ):
        return corpus.corpus, corpus.max_documents
    return corpus, None


def _size(corpus: Corpus, split: Split) -> int:
    return sum(1 for _ in corpus.documents(split))
