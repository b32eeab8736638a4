"""Constituents over the words of a sentence that stay when others are left out."""

from collections.abc import Sequence
from itertools import accumulate

from depgen.trees.sentence import Constituent


def kept_constituents(constituents: Sequence[Constituent], kept: Sequence[bool]) -> tuple[Constituent, ...]:
    """The constituents over the words that stay, numbered from 0 on; those of no such word go.

    >>> kept_constituents([(0, 3, "S"), (0, 1, "NP"), (1, 3, "VP")], [False, True, True])
    ((0, 2, 'S'), (0, 2, 'VP'))
    """
    before = [0, *accumulate(map(int, kept))]  # kept words before each position
    moved = ((before[start], before[end], label) for start, end, label in constituents)
    return tuple(sorted((each for each in moved if each[0] < each[1]), key=lambda each: (each[0], -each[1])))
