"""Sizes of a corpus's splits, with those published for it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from json import dumps
from typing import Any

from depgen.data.corpus import SPLITS, Corpus, Split
from depgen.data.steps import text_of


@dataclass(frozen=True)
class Sizes:
    """Sizes of one split as measured.

    Attributes:
        tokens: words, and one end of sequence a document, as is published for the Penn Treebank.
        types: different tokens, the end of sequence being one.
        mean_length: words a document.
        max_length: words of the longest document.
        mean_sentences: sentences a document.
        in_training: documents that equal one of training but for blanks; None for training itself, or where it was not
            measured.
        unknown: share of words that training lacks; None likewise.
    """

    documents: int
    sentences: int
    tokens: int
    types: int
    mean_length: float
    max_length: int
    mean_sentences: float
    in_training: int | None = None
    unknown: float | None = None


def measure(corpus: Corpus, splits: Sequence[Split] = SPLITS) -> dict[Split, Sizes]:
    """The sizes of splits; the others are compared with training where it is among them."""
    measured: dict[Split, Sizes] = {}
    train_words: set[str] | None = None
    train_texts: set[str] | None = None
    for split in sorted(splits, key=SPLITS.index):
        counts, texts, lengths, sentences = Counter[str](), list[str](), list[int](), 0
        for document in corpus.documents(split):
            words = list(document.words())
            counts.update(words)
            texts.append(text_of(document))
            lengths.append(len(words))
            sentences += len(document.sentences)
        documents, total = max(len(lengths), 1), sum(lengths)
        in_training = unknown = None
        if train_words is not None and train_texts is not None:
            in_training = sum(text in train_texts for text in texts)
            unknown = sum(count for word, count in counts.items() if word not in train_words) / max(total, 1)
        measured[split] = Sizes(
            len(lengths), sentences, total + len(lengths), len(counts) + 1,
            total / documents, max(lengths, default=0), sentences / documents, in_training, unknown,
        )  # fmt: skip
        if split == "train":
            train_words, train_texts = set(counts), set(texts)
    return measured


def data_statistics(corpus: Corpus, splits: Sequence[Split] = SPLITS, json: bool = False) -> str:
    """A table, or JSON, of the splits' sizes, each with the published ones below.

    Tokens are words, with one end of sequence a document, which is also one of the types. `in_training` counts the
    documents that equal one of training but for blanks; `unknown` is the share of words that training lacks.

    Args:
        corpus: whose sizes.
        splits: which of its splits.
        json: all figures as JSON.
    """
    rows: list[dict[str, Any]] = []
    for split, sizes in measure(corpus, splits).items():
        rows.append({"split": split, **asdict(sizes)})
        if published := corpus.published.get(split):
            rows.append({"split": f"{split}, published", **asdict(published)})
    if json:
        return dumps({"corpus": corpus.name, "splits": rows}, indent=2)
    import pandas as pd

    table = pd.DataFrame(rows, dtype=object).fillna("")
    return f"{corpus.name}\n{table.to_string(index=False, float_format='{:.4g}'.format)}"
