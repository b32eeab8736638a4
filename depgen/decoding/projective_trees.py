"""Distributions over labelled projective trees with one root: samples and probabilities.

Eisner (2000), "Bilexical grammars and their cubic-time parsing algorithms". SuPar's `DependencyCRF` is the same
distribution over unlabelled trees; its `sample` fails with torch 2. Slow to import, as the charts are compiled.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int64

from depgen.machine_code import compiled
from depgen.trees.binarization import Binarization, subtrees

Tree = tuple[Int64[np.ndarray, " words"], tuple[str, ...]]
"""Heads (1-based, 0 = root) and relations."""
ROOT_RELATION = "root"
"""The relation of each root, and of no other word."""


@dataclass(frozen=True)
class ProjectiveTrees:
    """A conditional random field over the projective trees of a sentence with one root; relations are independent.

    q(tree) = exp(sum of its arcs' and its root's scores) / Z, times q(relation | arc) for each arc.

    Attributes:
        arcs: `arcs[i, j]` of word i depending on word j, nats; the diagonal is ignored.
        roots: of each word being the root.
        labels: log-probabilities of relations, `labels[i, j]` of the arc from word j to word i.
        relations: their names.
    """

    arcs: Float64[np.ndarray, "words words"]
    roots: Float64[np.ndarray, " words"]
    labels: Float64[np.ndarray, "words words relations"]
    relations: tuple[str, ...]

    @cached_property
    def _charts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return inside(self.arcs, self.roots, np.full(len(self.roots), -1))

    def sample(self, number: int, generator: np.random.Generator) -> list[Tree]:
        """Independent trees; those of a smaller number are the first ones of a larger number. O(n^3 + number n^2)."""
        words = len(self.roots)
        uniforms = generator.random((number, 3 * words))
        heads = sampled_heads(*self._charts, uniforms[:, : 2 * words])
        cumulative = np.exp(self.labels[np.arange(words), np.maximum(heads - 1, 0)]).cumsum(-1)  # [trees words labels]
        drawn = (cumulative <= uniforms[:, 2 * words :, None] * cumulative[..., -1:]).sum(-1)
        names = np.array([*self.relations, ROOT_RELATION], dtype=object)
        chosen = np.where(heads > 0, np.minimum(drawn, len(self.relations) - 1), len(self.relations))
        return [(tree, tuple(names[row])) for tree, row in zip(heads, chosen, strict=True)]

    def log_prob(self, tree: Tree, *, binarization: Binarization = "none") -> float:
        """Log q, in nats, of all trees that become this one when they are binarised; -inf with an unknown relation.

        Binarised `left-right`, trees become one where the subtree of each word begins at the same word. Relations are
        those that the words had before.
        """
        heads, relations = tree
        words = np.arange(len(heads))
        numbers = np.array([self.relations.index(name) if name in self.relations else -1 for name in relations])
        arcs = np.where(numbers[:, None] >= 0, self.arcs + self.labels[words, :, numbers], -np.inf)
        if binarization == "none":
            score = np.where(heads > 0, arcs[words, np.maximum(heads - 1, 0)], self.roots).sum()
        else:
            score = np.logaddexp.reduce(inside(arcs, self.roots, subtrees(heads)[0] - 1)[2])
        return float(score) - float(np.logaddexp.reduce(self._charts[2]))


@compiled
def _log_sum(values: Float64[np.ndarray, " values"]) -> float:
    highest = float(values.max())
    return highest if highest == -np.inf else highest + math.log(np.exp(values - highest).sum())


@compiled
def inside(
    arcs: Float64[np.ndarray, "words words"],
    roots: Float64[np.ndarray, " words"],
    begins: Int64[np.ndarray, " words"],
) -> tuple[Float64[np.ndarray, "words words"], Float64[np.ndarray, "words words"], Float64[np.ndarray, " words"]]:
    """Log-sums over incomplete items, complete items, and all trees with each root. O(n^3).

    Eisner's items: `incomplete[h, d]` has an arc from h to d and all words between; `complete[h, e]` has h with its
    dependents on the side of e, up to word e. Words are 0-based.

    Scores are of `arcs[dependent, head]`; the subtree of each word has to begin at `begins`, or anywhere (-1).
    """
    words = len(roots)
    incomplete, complete = np.full((words, words), -np.inf), np.full((words, words), -np.inf)
    attached = np.full((words, words), -np.inf)  # `complete[d, e]` at the left of d, where its subtree may begin at e
    for word in range(words):
        complete[word, word] = 0.0
        if begins[word] == -1 or begins[word] == word:
            attached[word, word] = 0.0
    for width in range(1, words):
        for first in range(words - width):
            last = first + width
            right = complete[first, first:last]
            incomplete[first, last] = _log_sum(right + attached[last, first + 1 : last + 1]) + arcs[last, first]
            incomplete[last, first] = _log_sum(right + complete[last, first + 1 : last + 1]) + arcs[first, last]
            complete[first, last] = _log_sum(
                incomplete[first, first + 1 : last + 1] + complete[first + 1 : last + 1, last]
            )
            complete[last, first] = _log_sum(incomplete[last, first:last] + attached[first:last, first])
            if begins[last] == -1 or begins[last] == first:
                attached[last, first] = complete[last, first]
    return incomplete, complete, roots + complete[:, 0] + complete[:, words - 1]


@compiled
def _drawn(values: Float64[np.ndarray, " values"], uniform: float) -> int:
    """A place with probability in proportion to the exponential of its value."""
    shares = np.cumsum(np.exp(values - values.max()))
    return min(int(np.searchsorted(shares, uniform * shares[-1], side="right")), len(values) - 1)


@compiled
def sampled_heads(
    incomplete: Float64[np.ndarray, "words words"],
    complete: Float64[np.ndarray, "words words"],
    rooted: Float64[np.ndarray, " words"],
    uniforms: Float64[np.ndarray, "samples variates"],
) -> Int64[np.ndarray, "samples words"]:
    """Trees (1-based heads, 0 = root) drawn top down from what `inside` returns; 2n - 1 variates a tree, O(n^2)."""
    words = len(rooted)
    heads = np.zeros((len(uniforms), words), np.int64)
    for sample in range(len(uniforms)):
        root, used = _drawn(rooted, uniforms[sample, 0]), 1
        pending = [(root, 0, True), (root, words - 1, True)]
        while pending:
            head, end, is_complete = pending.pop()
            if head == end:
                continue
            low, high = min(head, end), max(head, end)
            if is_complete:  # the last dependent on this side
                first = low + (head == low)
                last = high + (head == low)
                place = _drawn(incomplete[head, first:last] + complete[first:last, end], uniforms[sample, used])
                pending.append((head, first + place, False))
                pending.append((first + place, end, True))
            else:  # where the words between are divided
                between = complete[low, low:high] + complete[high, low + 1 : high + 1]
                cut = low + _drawn(between, uniforms[sample, used])
                pending.append((low, cut, True))
                pending.append((high, cut + 1, True))
                heads[sample, end] = head + 1
            used += 1
    return heads
