"""Sizes of a corpus's splits, with those published for it."""

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
        documents: how many.
        sentences: how many.
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
    """The sizes of splits; the others are compared with training where it is among them.

    Raises:
        MissingDataError: a split that is named is not there.
    """
    measured: dict[Split, Sizes] = {}
    known: set[str] | None = None
    texts: set[str] | None = None
    for split in sorted(splits, key=SPLITS.index):
        documents = sentences = words = longest = unknown = in_training = 0
        types, own_texts = set[str](), set[str]()
        for document in corpus.documents(split):
            read = list(document.words())
            documents, sentences, words = documents + 1, sentences + len(document.sentences), words + len(read)
            longest = max(longest, len(read))
            types.update(read)
            own_texts.add(text_of(document))
            in_training += texts is not None and text_of(document) in texts
            unknown += 0 if known is None else sum(word not in known for word in read)
        measured[split] = Sizes(
            documents, sentences, words + documents, len(types) + 1,
            words / max(documents, 1), longest, sentences / max(documents, 1),
            None if texts is None else in_training, None if known is None else unknown / max(words, 1),
        )  # fmt: skip
        if split == "train":
            known, texts = types, own_texts
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
