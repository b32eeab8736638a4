"""Controls for systems that write along a tree: trees of a shape alone, with one label.

All are projective and have one root and at most one dependent at each side of a word.
"""

import hashlib
import random
from collections.abc import Sequence
from functools import cache

from depgen.locations import lines_sha256
from depgen.trees.annotator import Annotator
from depgen.trees.binarization import binary_dependencies, depths, lifted
from depgen.trees.sentence import Sentence


class BalancedTrees:
    """Binary trees of the least depth: the middle word is the root, and so on at both sides.

    >>> BalancedTrees().annotate([Sentence(("a", "b", "c", "d", "e"))])[0].heads
    (2, 3, 0, 5, 3)
    """

    scheme = "balanced trees"

    def fingerprint(self) -> str:
        """A constant: nothing to set."""
        return lines_sha256(["balanced trees 1"])

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with balanced trees."""
        return [each.with_heads(balanced_heads(len(each))) for each in sentences]


class OneLabel:
    """The trees of an annotator, binarised, with one label: the shape of syntax without its relations.

    Args:
        annotator: gives the trees.
    """

    def __init__(self, annotator: Annotator) -> None:
        self.annotator = annotator
        self.scheme = f"{annotator.scheme}, one label"

    def fingerprint(self) -> str:
        """Of the annotator."""
        return lines_sha256(["one label 1", self.annotator.fingerprint()])

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with the annotator's trees, less their relations."""
        return [each.with_heads(_shape(each)) for each in self.annotator.annotate(sentences)]


class RandomShapes:
    """Random binary trees, uniform over those that are as deep as the annotator's binarised tree; one label.

    Args:
        annotator: gives the depths.
        seed: another seed gives other trees.
    """

    def __init__(self, annotator: Annotator, seed: int = 0) -> None:
        self.annotator, self.seed = annotator, seed
        self.scheme = f"random trees as deep as {annotator.scheme}, seed {seed}"

    def fingerprint(self) -> str:
        """Of the annotator and the seed."""
        return lines_sha256(["random shapes 1", str(self.seed), self.annotator.fingerprint()])

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with random trees; the same words get the same tree whatever is around them."""
        found = []
        for each in self.annotator.annotate(sentences):
            digest = hashlib.sha256("\0".join([str(self.seed), *each.words]).encode()).digest()
            deepest = int(depths(_shape(each)).max(initial=0))
            found.append(each.with_heads(random_heads(len(each), deepest, random.Random(digest))))
        return found


def _shape(sentence: Sentence) -> list[int]:
    assert sentence.heads is not None
    return [int(head) for head in binary_dependencies(lifted(sentence.heads))]


def balanced_heads(words: int) -> list[int]:
    """Heads (1-based, 0 = root) of the balanced binary tree."""
    heads = [0] * words
    spans = [(0, words, 0)]
    while spans:
        first, stop, head = spans.pop()
        if first < stop:
            middle = (first + stop) // 2
            heads[middle] = head
            spans += [(first, middle, middle + 1), (middle + 1, stop, middle + 1)]
    return heads


@cache
def binary_trees(words: int, depth: int) -> int:
    """The number of binary trees over some words that have at most a depth; O(words) a new pair.

    >>> [binary_trees(3, depth) for depth in (1, 2, 3)]
    [0, 1, 5]
    """
    if words == 0:
        return 1
    if depth <= 0:
        return 0
    return sum(binary_trees(left, depth - 1) * binary_trees(words - 1 - left, depth - 1) for left in range(words))


def random_heads(words: int, depth: int, generator: random.Random) -> list[int]:
    """Heads of a tree drawn uniformly from the binary trees over these words of exactly this depth.

    >>> random_heads(3, 2, random.Random(0))
    [2, 0, 2]
    """
    heads = [0] * words
    open_spans = [(0, words, 0, depth, True)]
    while open_spans:
        first, count, head, most, exact = open_spans.pop()
        if count:
            root, left, right = _drawn_root(count, most, exact=exact, generator=generator)
            heads[first + root] = head
            open_spans.append((first, root, first + root + 1, *left))
            open_spans.append((first + root + 1, count - 1 - root, first + root + 1, *right))
    return heads


Depth = tuple[int, bool]
"""A depth, and whether it is that of the tree or the most that it may be."""


def _drawn_root(count: int, depth: int, *, exact: bool, generator: random.Random) -> tuple[int, Depth, Depth]:
    """The number of words before the root, and the depths of the trees before and after it."""
    below, less, least = (depth - 1, True), (depth - 2, False), (depth - 1, False)
    pairs = [(below, below), (below, less), (less, below)] if exact else [(least, least)]
    choices = [(root, *pair) for root in range(count) for pair in pairs]
    weights = [_trees(root, *left) * _trees(count - 1 - root, *right) for root, left, right in choices]
    drawn = generator.randrange(sum(weights))
    for choice, weight in zip(choices, weights, strict=True):
        drawn -= weight
        if drawn < 0:
            return choice
    raise AssertionError("the weights sum to more than was drawn")


def _trees(words: int, depth: int, exact: bool) -> int:
    """The number of binary trees of a depth, or of at most this depth; no words are a tree of depth 0."""
    found = binary_trees(words, depth) if depth >= 0 else 0
    return found - (binary_trees(words, depth - 1) if depth > 0 else 0) if exact else found
