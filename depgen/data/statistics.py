"""Sizes of a corpus's splits, with those published for it."""

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from json import dumps
from typing import Any, Literal

from depgen.data.corpus import SPLITS, Corpus, Split, SplitStatistics
from depgen.errors import MissingDataError

logger = logging.getLogger(__name__)

Status = Literal["as published", "reduced", "differs", "nothing published"]
COMPARED = ("documents", "sentences", "tokens", "types")
_HEADER = {
    "split": "split",
    "documents": "documents",
    "sentences": "sentences",
    "tokens_without_eos": "tokens",
    "tokens": "with eos",
    "types": "types",
    "mean_length": "mean length",
    "max_length": "max length",
    "mean_sentences": "mean sentences",
    "max_sentences": "max sentences",
    "unknown_rate": "unknown",
    "status": "status",
}


@dataclass(frozen=True)
class MeasuredStatistics(SplitStatistics):
    """Sizes of one split as found.

    Attributes:
        tokens: with one end of sequence a document, as is published for the Penn Treebank.
        types: different tokens, the end of sequence being one.
        tokens_without_eos: words alone.
        mean_length: words a document.
        max_length: words of the longest document.
        mean_sentences: sentences a document.
        max_sentences: sentences of the document that has most.
        unknown_rate: share of words that the training split lacks; None for the training split itself, or without one.
    """

    tokens_without_eos: int = 0
    mean_length: float = 0.0
    max_length: int = 0
    mean_sentences: float = 0.0
    max_sentences: int = 0
    unknown_rate: float | None = None


def measure(corpus: Corpus, splits: Sequence[Split] = SPLITS) -> dict[Split, MeasuredStatistics]:
    """The sizes of splits; the training split is read too, for the unknown words of the others.

    If only the others are named and there is no training split, their unknown words are not counted, and a warning
    says so.

    Raises:
        MissingDataError: a split that is named is not there.
    """
    try:
        known, train = _measure(corpus, "train", frozenset())
    except MissingDataError as error:
        if "train" in splits:
            raise
        logger.warning("The unknown words are not counted, for the training split is not there: %s", error)
        return {split: _measure(corpus, split, None)[1] for split in splits}
    return {split: train if split == "train" else _measure(corpus, split, known)[1] for split in splits}


def _measure(corpus: Corpus, split: Split, known: frozenset[str] | None) -> tuple[frozenset[str], MeasuredStatistics]:
    documents = sentences = tokens = longest = most = unknown = 0
    types: set[str] = set()
    for document in corpus.documents(split):
        words = list(document.words())
        documents += 1
        sentences += len(document.sentences)
        tokens += len(words)
        longest, most = max(longest, len(words)), max(most, len(document.sentences))
        types.update(words)
        unknown += 0 if known is None else sum(word not in known for word in words)
    statistics = MeasuredStatistics(
        documents=documents,
        sentences=sentences,
        tokens=tokens + documents,
        types=len(types) + 1,
        tokens_without_eos=tokens,
        mean_length=tokens / max(documents, 1),
        max_length=longest,
        mean_sentences=sentences / max(documents, 1),
        max_sentences=most,
        unknown_rate=None if split == "train" or known is None else unknown / max(tokens, 1),
    )
    return frozenset(types), statistics


def compare(measured: SplitStatistics, published: SplitStatistics | None) -> Status:
    """How the files differ from what is published: "reduced" if fewer documents, "differs" for any other difference.

    >>> compare(SplitStatistics(documents=9), SplitStatistics(documents=10))
    'reduced'
    """
    pairs = [
        (getattr(measured, name), expected)
        for name in COMPARED
        if published and (expected := getattr(published, name)) is not None
    ]
    if not pairs:
        return "nothing published"
    if all(found == expected for found, expected in pairs):
        return "as published"
    found, expected = pairs[0]
    return "reduced" if found < expected else "differs"


def data_statistics(corpus: Corpus, splits: Sequence[Split] = SPLITS, json: bool = False) -> str:
    """An aligned table, or JSON, of the splits' sizes, each with the published ones below and their difference named.

    Tokens are words; "with eos" adds one end of sequence a document, which is also one of the types. Lengths are words
    a document, "mean sentences" and "max sentences" sentences a document, "unknown" the share of words that the
    training split lacks. Document models count an end a sentence: "tokens" and "sentences" together.

    Args:
        corpus: whose sizes.
        splits: which of its splits.
        json: all figures as JSON.
    """
    rows: list[dict[str, Any]] = []
    for split, measured in measure(corpus, splits).items():
        published = corpus.published.get(split)
        rows.append({"split": split, **asdict(measured), "status": compare(measured, published)})
        if published:
            rows.append({"split": f"{split}, published", **asdict(published)})
    if json:
        return dumps({"corpus": corpus.name, "splits": rows}, indent=2)
    cells = [list(_HEADER.values()), *([_cell(key, row.get(key)) for key in _HEADER] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if index in (0, len(widths) - 1) else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join([corpus.name, *lines])


def _cell(key: str, value: str | int | float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if key == "unknown_rate":
        return f"{value:.2%}"
    return f"{value:.1f}" if isinstance(value, float) else f"{value:,}"
