"""Constituents as a binary tree of labelled spans, and the best such tree over the words of each sentence.

A parser that looks for binary trees gives each span one label. So constituents over the same words share one, and the
spans that make a tree binary have the label `NO_CONSTITUENT`, as have single words that are no constituent.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float, Int

from depgen.trees.attachments import binary_constituents
from depgen.trees.constituency import Span
from depgen.trees.sentence import Constituent

NO_CONSTITUENT = ""
JOINED_BY = " "
"""Separates the labels of constituents over the same words, the outermost first; no label holds a space."""


def chart_of(constituents: Sequence[Constituent], length: int) -> list[Constituent]:
    """The spans of a binary tree, 2 * length - 1 of them; parts beyond the second are made binary from the right.

    >>> chart_of([(0, 3, "S"), (0, 1, "NP")], 3)
    [(0, 3, 'S'), (0, 1, 'NP'), (1, 3, ''), (1, 2, ''), (2, 3, '')]
    """
    whole, words = (0, length), [(start, start + 1) for start in range(length)]
    labels = defaultdict[Span, list[str]](list)
    for start, end, label in constituents:
        labels[start, end].append(label)
    spans = {whole, *words, *labels, *binary_constituents([*constituents, whole], length)}
    ordered = sorted(spans, key=lambda span: (span[0], -span[1]))
    return [(*span, JOINED_BY.join(labels[span])) for span in ordered]


def constituents_of(chart: Iterable[Constituent]) -> tuple[Constituent, ...]:
    """The constituents of a chart whose spans are in top-down order.

    >>> constituents_of([(0, 2, "S VP"), (0, 1, ""), (1, 2, "NP")])
    ((0, 2, 'S'), (0, 2, 'VP'), (1, 2, 'NP'))
    """
    return tuple((start, end, label) for start, end, labels in chart for label in labels.split())


def best_binary_trees(
    scores: Float[np.ndarray, "batch starts ends"], lengths: Int[np.ndarray, " batch"] | Sequence[int]
) -> list[list[Span]]:
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


def _spans(cuts: Int[np.ndarray, "starts ends"], length: int) -> list[Span]:
    spans, pending = list[Span](), [(0, length)]
    while pending:
        start, end = pending.pop()
        spans.append((start, end))
        if end - start > 1:
            cut = int(cuts[start, end])
            pending += [(cut, end), (start, cut)]
    return spans
