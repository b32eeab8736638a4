"""N-grams of whitespace tokens as integer arrays: what Distinct-n and Self-BLEU-n count.

A text is a string and its tokens are `text.split()`; the argument is a string, not a list, so that nobody passes
characters by mistake.
"""

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
    within: np.ndarray = table.owner[:starts] == table.owner[len(table.owner) - starts :]
    return within
