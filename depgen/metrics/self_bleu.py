"""Self-BLEU-n (Zhu et al., 2018), exact: every text against all others, in time linear in the number of n-grams.

The definition is that of the DMLM paper's code: BLEU of text i with every other text as a reference, uniform weights
over orders 1 to n, the brevity penalty by the reference length that is closest (the shorter of two equally close),
and no smoothing: a text without a match of some order scores zero (the code's numerator of 1e-100 comes to the same).
Lower means more varied. It is not the Texygen variant on a sample of 500 texts.

What makes it linear: the count of an n-gram in text i is clipped to its largest count in any *other* text. That is
its largest count overall unless text i alone has that count, when it is the second largest.

Deviations:
    D1. A text without an n-gram of some order (shorter than n, or empty) has no precision there; as in NLTK its
        numerator is zero over the denominator 1. An empty text scores zero and is counted, and it is a reference of
        length 0 to the others; drop empty texts beforehand for another policy.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from depgen.errors import UserError
from depgen.metrics.ngrams import ngram_ids, starts_within_items, tokenize


def self_bleu(texts: Sequence[str], orders: Sequence[int] = (2, 3)) -> dict[int, Float[np.ndarray, " texts"]]:
    """For each order the Self-BLEU of every text, times 100; their mean is the figure that papers report.

    Cost: `O(T log T)` time and `O(T)` memory for T tokens in all.

    Args:
        texts: one string an item, split at whitespace.
        orders: the highest n-gram orders wanted.

    Raises:
        UserError: fewer than two texts.

    >>> self_bleu(["a b c", "a b c", "a x y"], [2])[2].round(2).tolist()
    [100.0, 100.0, 0.0]
    """
    if len(texts) < 2:
        raise UserError(f"Self-BLEU compares each text with all others: expected at least 2 texts, found {len(texts)}.")
    table = tokenize(texts)
    penalty = brevity_penalties(table.lengths)
    scores: dict[int, Float[np.ndarray, " texts"]] = {}
    log_precisions = np.zeros(len(texts))
    for order, ids in enumerate(ngram_ids(table, max(orders)), start=1):
        within = starts_within_items(table, order)
        matches = leave_one_out_matches(ids[within], table.owner[: len(ids)][within], len(texts))
        with np.errstate(divide="ignore"):  # the logarithm of no match
            log_precisions += np.log(matches / np.maximum(table.lengths - order + 1, 1))
        if order in orders:
            scores[order] = 100.0 * penalty * np.exp(log_precisions / order)
    return {order: scores[order] for order in orders}


def leave_one_out_matches(
    ids: Int[np.ndarray, " ngrams"], owner: Int[np.ndarray, " ngrams"], texts: int
) -> Float[np.ndarray, " texts"]:
    """For each text the sum over its n-grams of min(count in the text, largest count in any other text).

    Args:
        ids: an id an n-gram, equal for equal n-grams.
        owner: the text that each belongs to.
        texts: how many texts there are.
    """
    if not len(ids):
        return np.zeros(texts)
    pairs, counts = np.unique(ids * texts + owner, return_counts=True)
    ids, owner = np.divmod(pairs, texts)
    by_count = np.lexsort((counts, ids))
    ids, owner, counts = ids[by_count], owner[by_count], counts[by_count]
    repeated = ids[1:] == ids[:-1]
    largest = np.append(~repeated, True)
    second = np.where(np.append(False, repeated), np.append(0, counts[:-1]), 0)
    # Only the last of an n-gram's texts can exceed all others; the rest keep their count.
    return np.bincount(owner, weights=np.where(largest, second, counts), minlength=texts)


def brevity_penalties(lengths: Int[np.ndarray, " texts"]) -> Float[np.ndarray, " texts"]:
    """For each text min(1, exp(1 - r / length)), r the closest length of any other text, the shorter of two as close.

    An empty text has the penalty 0, as in NLTK.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        penalty = np.exp(np.minimum(0.0, 1.0 - closest_lengths(lengths) / lengths))
    return np.where(lengths == 0, 0.0, penalty)


def closest_lengths(lengths: Int[np.ndarray, " texts"]) -> Int[np.ndarray, " texts"]:
    """For each text the closest length of any other text, the shorter of two as close.

    >>> closest_lengths(np.array([3, 3, 5, 9])).tolist()
    [3, 3, 3, 5]
    """
    sizes, place, count = np.unique(lengths, return_inverse=True, return_counts=True)
    far = np.iinfo(np.int64).max // 2
    shorter = np.append(-far, sizes[:-1])
    longer = np.append(sizes[1:], far)
    closest = np.where(sizes - shorter <= longer - sizes, shorter, longer)
    found: Int[np.ndarray, " texts"] = np.where(count > 1, sizes, closest)[place]
    return found
