"""N-grams of whitespace tokens as integer arrays, which Self-BLEU counts; and Distinct-n."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int


@dataclass(frozen=True)
class TokenTable:
    """The tokens of many texts, end to end.

    Attributes:
        ids: an id a token, equal for equal strings.
        owner: the index of the text that the token belongs to.
        lengths: tokens in each text, empty texts included.
    """

    ids: Int[np.ndarray, " tokens"]
    owner: Int[np.ndarray, " tokens"]
    lengths: Int[np.ndarray, " texts"]


def tokenize(texts: Sequence[str]) -> TokenTable:
    """The whitespace tokens of each text as integers.

    >>> tokenize(["a b a", "", "b"]).ids.tolist()
    [0, 1, 0, 1]
    """
    vocabulary: dict[str, int] = {}
    ids: list[int] = []
    lengths = np.zeros(len(texts), dtype=np.int64)
    for index, text in enumerate(texts):
        words = text.split()
        lengths[index] = len(words)
        ids.extend(vocabulary.setdefault(word, len(vocabulary)) for word in words)
    return TokenTable(np.array(ids, dtype=np.int64), np.repeat(np.arange(len(texts)), lengths), lengths)


def ngram_ids(table: TokenTable, highest_order: int) -> Iterator[Int[np.ndarray, " starts"]]:
    """For each order 1, 2, …, `highest_order`: an id for the n-gram that starts at each token.

    Equal n-grams have equal ids. All texts are one string here, so n-grams run over the borders of texts; those that
    stay in one text are the starts where `owner` is the same at both ends. `O(tokens log tokens)` an order.

    >>> [ids.tolist() for ids in ngram_ids(tokenize(["a b a b"]), 2)]
    [[0, 1, 0, 1], [0, 1, 0]]
    """
    types = int(table.ids.max(initial=0)) + 1
    ids = table.ids
    for order in range(1, highest_order + 1):
        if order > 1:
            # An id so far is below the number of tokens, hence the product fits in int64.
            ids = np.unique(ids[:-1] * types + table.ids[order - 1 :], return_inverse=True)[1].astype(np.int64)
        yield ids


def starts_within_items(table: TokenTable, order: int) -> np.ndarray:
    """A boolean for each n-gram start of `ngram_ids`: whether the n-gram ends in the text it starts in."""
    starts = max(len(table.ids) - order + 1, 0)
    return np.asarray(table.owner[:starts] == table.owner[len(table.owner) - starts :])


def distinct(texts: Sequence[str], order: int, *, within_items: bool = False) -> float:
    """Distinct-n (Li et al., 2016): 100 x different n-grams / n-grams, over all texts; NaN when there is no n-gram.

    With `within_items`, as published, n-grams that run over the border of two texts are left out; the DMLM paper's code
    counts them too. The value falls as the number of tokens grows: compare only sets of equal size.

    >>> distinct(["a b", "a b"], 2), distinct(["a b", "a b"], 2, within_items=True)
    (66.66666666666667, 50.0)
    """
    table = tokenize(texts)
    *_, ids = ngram_ids(table, order)
    if within_items:
        ids = ids[starts_within_items(table, order)]
    return 100.0 * len(np.unique(ids)) / len(ids) if len(ids) else float("nan")
