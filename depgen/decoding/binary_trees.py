"""The best binary tree over the words of each sentence, given how good every span is as a constituent."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int


def best_binary_trees(
    scores: Float[np.ndarray, "batch starts ends"], lengths: Int[np.ndarray, " batch"] | Sequence[int]
) -> list[list[tuple[int, int]]]:
    """The spans of the binary tree with the largest sum of scores, single words included, in top-down order.

    Exact (Cocke-Kasami-Younger); of several best trees, the one that cuts its spans further left. O(n^3) a sentence.

    Args:
        scores: of the span from word `start` up to, not including, word `end`, 0-based; others are ignored.
        lengths: words of each sentence, at least one.

    >>> scores = np.zeros((1, 4, 4))
    >>> scores[0, 0, 2] = 1.0  # the first two of three words
    >>> best_binary_trees(scores, [3])
    [[(0, 3), (0, 2), (0, 1), (1, 2), (2, 3)]]
    """
    best = scores.astype(np.float64)
    cuts = np.zeros(best.shape, dtype=np.int64)
    for width in range(2, best.shape[1]):
        starts = np.arange(best.shape[1] - width)
        between = starts[:, None] + np.arange(1, width)
        parts = best[:, starts[:, None], between] + best[:, between, starts[:, None] + width]
        first = parts.argmax(-1)
        cuts[:, starts, starts + width] = starts + 1 + first
        best[:, starts, starts + width] += np.take_along_axis(parts, first[..., None], -1)[..., 0]
    return [_spans(own, int(length)) for own, length in zip(cuts, lengths, strict=True)]


def _spans(cuts: Int[np.ndarray, "starts ends"], length: int) -> list[tuple[int, int]]:
    found, pending = [], [(0, length)]
    while pending:
        start, end = pending.pop()
        found.append((start, end))
        if end - start > 1:
            cut = int(cuts[start, end])
            pending += [(cut, end), (start, cut)]
    return found
