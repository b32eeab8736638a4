"""Distinct-n (Li et al., 2016): the share of n-grams that are different, over all texts together.

Deviations:
    D1. `within_items=False`, as the DMLM paper's code has it, counts n-grams that run over the border between two texts
        too; the measure as published counts those inside texts only (`within_items=True`).
"""

from collections.abc import Sequence

import numpy as np

from depgen.metrics.ngrams import ngram_ids, starts_within_items, tokenize


def distinct(texts: Sequence[str], order: int, *, within_items: bool = False) -> float:
    """100 x different n-grams / n-grams, over all texts; NaN when there is no n-gram of that order.

    The value falls as the number of tokens grows: compare only sets of equal size.

    Args:
        texts: one string an item, split at whitespace.
        order: the n of the n-grams.
        within_items: leave out n-grams that run over the border of two texts, as published.

    >>> distinct(["a b", "a b"], 2), distinct(["a b", "a b"], 2, within_items=True)
    (66.66666666666667, 50.0)
    """
    table = tokenize(texts)
    *_, ids = ngram_ids(table, order)
    if within_items:
        ids = ids[starts_within_items(table, order)]
    if not len(ids):
        return float("nan")
    return 100.0 * len(np.unique(ids)) / len(ids)
