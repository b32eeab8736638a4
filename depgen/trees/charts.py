"""Constituents of any number of parts as a binary tree of labelled spans, and back.

A parser that looks for binary trees gives each span one label. So constituents over the same words share one, and the
spans that make a tree binary have the label `NO_CONSTITUENT`, as have single words that are no constituent.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

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
