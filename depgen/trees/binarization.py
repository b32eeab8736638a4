"""Trees whose words have at most one dependent at each side, as iterative expansion writes them.

Casas, Fonollosa & Costa-jussà (2020), section 3. Trees must be projective with a single root: `lifted` makes them so.
Labels of arcs and the order of words never change.

Heads are 1-based, 0 = root. Functions of heads take those of one tree, or of several trees one after the other, whose
words are numbered through as by `numbered_through`; `starts` is then the number of words before each tree.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Int

Binarization = Literal["left-right", "none"]
"""`left-right`: of several dependents at one side, each but the first hangs on the last word of the subtree before it.
`none`: trees stay as they are."""

HEAD = "HEAD"
"""A word's own place in its expansion."""
ROOT = "ROOT"
"""The label of the root."""
SUBWORD = "subword"
"""The label of a later piece of a word, which hangs on the piece before it."""


def numbered_through(heads: Int[np.ndarray, " words"], starts: Int[np.ndarray, " trees"]) -> Int[np.ndarray, " words"]:
    """The heads of several trees, which each count from 1 within its tree, counted from the first word of all.

    >>> numbered_through(np.array([0, 1, 2, 0]), np.array([0, 2])).tolist()
    [0, 1, 4, 0]
    """
    sizes = np.diff(np.append(starts, len(heads)))
    return np.where(heads > 0, heads + np.repeat(starts, sizes), 0)


def lifted(heads: Sequence[int] | np.ndarray, starts: Sequence[int] | np.ndarray = (0,)) -> Int[np.ndarray, " words"]:
    """The nearest projective tree with one root: a tree that is one already stays as it is.

    Words that hang on the root besides the first hang on that one. Then, as long as an arc covers a word that its head
    does not dominate, the shortest such arc is lifted to the head's head (Nivre & Nilsson, 2005). O(n^3) at worst.

    >>> lifted([3, 4, 0, 3]).tolist(), lifted([0, 0]).tolist()
    ([3, 3, 0, 3], [0, 1])
    """
    result, bounds = np.array(heads, dtype=np.int64), np.append(starts, len(heads))
    tree = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    roots = np.flatnonzero(result == 0)
    _, first = np.unique(tree[roots], return_index=True)
    other_roots = np.delete(roots, first)
    result[other_roots] = roots[first][tree[other_roots]] + 1
    first_word, last_word, sizes = subtrees(result)
    for number in np.unique(tree[last_word - first_word + 1 != sizes]):
        part = slice(bounds[number], bounds[number + 1])
        own = result[part]
        own[own > 0] -= bounds[number]
        _lift(own)
        own[own > 0] += bounds[number]
    return result


def _lift(heads: Int[np.ndarray, " words"]) -> None:
    """Make a tree with one root projective, in place."""
    words = np.arange(1, len(heads) + 1)
    while True:
        dominates, above = np.eye(len(heads), dtype=bool), heads
        while above.any():
            dominates[above[above > 0] - 1, words[above > 0] - 1] = True
            above = np.where(above > 0, heads[above - 1], 0)
        outside = np.cumsum(~dominates, axis=1)[heads - 1]  # of each word's head: words up to each that it has not
        low, high = np.minimum(heads, words), np.maximum(heads, words)
        between = outside[words - 1, high - 2] - outside[words - 1, low - 1]
        crossed = np.where((heads > 0) & (between > 0), high - low, len(heads))
        shortest = crossed.argmin()
        if crossed[shortest] == len(heads):
            return
        heads[shortest] = heads[heads[shortest] - 1]


def subtrees(
    heads: Int[np.ndarray, " words"],
) -> tuple[Int[np.ndarray, " words"], Int[np.ndarray, " words"], Int[np.ndarray, " words"]]:
    """The first and the last word of each word's subtree, 1-based, and the number of its words."""
    deep = depths(heads)
    first = np.arange(1, len(heads) + 1)
    last, sizes = first.copy(), np.ones_like(first)
    order = np.argsort(-deep, kind="stable")
    for level in np.split(order, np.flatnonzero(np.diff(deep[order])) + 1):  # the deepest words first
        words = level[heads[level] > 0]
        above = heads[words] - 1
        np.minimum.at(first, above, first[words])
        np.maximum.at(last, above, last[words])
        np.add.at(sizes, above, sizes[words])
    return first, last, sizes


def binary_dependencies(
    heads: Sequence[int] | np.ndarray, *, binarization: Binarization = "left-right"
) -> Int[np.ndarray, " words"]:
    """The binarised form of a projective tree with one root; with at most one dependent at each side it stays as it is.

    >>> binary_dependencies([2, 4, 4, 0, 4, 5]).tolist()  # my dog also likes eating sausage: also hangs on dog
    [2, 4, 2, 0, 4, 5]
    """
    result = np.array(heads, dtype=np.int64)
    if binarization == "none":
        return result
    dependents = np.flatnonzero(result > 0)
    sides = 2 * result[dependents] + (dependents >= result[dependents])
    _, nearest = np.unique(sides, return_index=True)  # the first dependent at each side of each word
    later = np.delete(dependents, nearest)
    result[later] = subtrees(result)[0][later] - 1  # the word before the subtree
    return result


def depths(heads: Sequence[int] | np.ndarray) -> Int[np.ndarray, " words"]:
    """The number of words on the path from the root to each word, both included: 1 at the root.

    >>> depths([2, 4, 2, 0, 4, 5]).tolist()
    [3, 2, 3, 1, 2, 3]
    """
    above = np.asarray(heads, dtype=np.int64)
    heads, result = above, np.ones(len(above), dtype=np.int64)
    while above.any():
        result += above > 0
        above = np.where(above > 0, heads[above - 1], 0)
    return result


def written_tree(
    heads: Sequence[int] | np.ndarray,
    relations: Sequence[str],
    binarization: Binarization,
    starts: Sequence[int] | np.ndarray = (0,),
) -> tuple[Int[np.ndarray, " words"], list[str]]:
    """Heads and labels of the tree that is written, of any tree over the same words; `starts` as in `lifted`."""
    result = binary_dependencies(lifted(heads, starts), binarization=binarization)
    return result, [ROOT if head == 0 else label or SUBWORD for head, label in zip(result, relations, strict=True)]


def expansions(heads: Sequence[int] | np.ndarray, labels: Sequence[str]) -> list[tuple[str, ...]]:
    """The expansion of each word: labels of its dependents at the left, `HEAD`, labels of those at the right.

    >>> expansions([2, 0, 2], ["det", "ROOT", "obj"])
    [('HEAD',), ('det', 'HEAD', 'obj'), ('HEAD',)]
    """
    sides: list[tuple[list[str], list[str]]] = [([], []) for _ in labels]
    for word, (head, label) in enumerate(zip(map(int, heads), labels, strict=True), start=1):
        if head > 0:
            sides[head - 1][word > head].append(label)
    return [(*left, HEAD, *right) for left, right in sides]


PAD = "[pad]"
"""Where nothing is written at a level."""


@dataclass(frozen=True)
class Level:
    """What is read and written at a level, position by position; Figure 2 of Casas et al. (2020).

    Attributes:
        inputs: I_tok: words of the levels above, and placeholders.
        words: O_tok: words at the placeholders.
        expansions: O_exp: expansions at the placeholders.
    """

    inputs: tuple[str, ...]
    words: tuple[str, ...]
    expansions: tuple[str, ...]


def levels_of(words: Sequence[str], heads: Sequence[int] | np.ndarray, labels: Sequence[str]) -> list[Level]:
    """How a sentence is written along its tree, from the root down.

    >>> for level in levels_of(["dog", "likes", "sausage"], [2, 0, 2], ["nsubj", "root", "dobj"]):
    ...     print(*level.inputs, "|", *level.words, "|", *level.expansions)
    [ROOT] | likes | [nsubj-HEAD-dobj]
    [nsubj] likes [dobj] | dog [pad] sausage | [HEAD] [pad] [HEAD]
    """
    levels, deep = [], depths(heads)
    names = [ROOT if head == 0 else label for head, label in zip(heads, labels, strict=True)]
    patterns = ["-".join(row) for row in expansions(heads, names)]
    for level in range(1, max(deep) + 1):
        places = [(place, deep[place] == level) for place in range(len(words)) if deep[place] <= level]
        inputs = tuple(f"[{names[place]}]" if is_new else words[place] for place, is_new in places)
        targets = tuple(words[place] if is_new else PAD for place, is_new in places)
        expanded = tuple(f"[{patterns[place]}]" if is_new else PAD for place, is_new in places)
        levels.append(Level(inputs, targets, expanded))
    return levels
