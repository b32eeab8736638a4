"""Distributions over labelled projective trees with one root: their best trees, samples, and probabilities.

Eisner (2000), "Bilexical grammars and their cubic-time parsing algorithms". SuPar's `DependencyCRF` is the same
distribution over unlabelled trees. It does not serve here: its `topk` fails where a sentence has fewer than k trees and
is hundreds of times slower for 25 words and k = 100, and its `sample` fails with torch 2.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int64

from depgen.trees.binarization import Binarization

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
    def _inside(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        from depgen.decoding.projective_charts import inside

        return inside(self.arcs, self.roots)

    @cached_property
    def log_partition(self) -> float:
        """Log Z, in nats."""
        return float(np.logaddexp.reduce(self._inside[2]))

    def sample(self, number: int, generator: np.random.Generator) -> list[Tree]:
        """Independent trees; those of a smaller number are the first ones of a larger number. O(n^3 + number n^2)."""
        from depgen.decoding.projective_charts import sampled_heads

        words = len(self.roots)
        uniforms = generator.random((number, 3 * words))
        heads = sampled_heads(*self._inside, uniforms[:, : 2 * words])
        of_arcs = self.labels[np.arange(words), np.maximum(heads - 1, 0)]  # [trees words relations]
        cumulative = np.exp(of_arcs).cumsum(-1)
        chosen = (cumulative <= uniforms[:, 2 * words :, None] * cumulative[..., -1:]).sum(-1)
        return [*self._named(heads, np.minimum(chosen, len(self.relations) - 1))]

    def best(self, number: int) -> list[Tree]:
        """The most probable labelled trees, the best first; fewer where there are no more."""
        from depgen.decoding.projective_charts import best_trees

        order = np.argsort(-self.labels, axis=-1, kind="stable")[..., :number]
        arcs = self.arcs[:, :, None] + np.take_along_axis(self.labels, order, -1)
        heads, ranks = best_trees(arcs, self.roots, number)
        words = np.arange(len(self.roots))
        return [*self._named(heads, order[words, np.maximum(heads - 1, 0), ranks])]

    def _named(self, heads: np.ndarray, labels: np.ndarray) -> Iterator[Tree]:
        for tree, numbers in zip(heads, labels.tolist(), strict=True):
            names = (self.relations[number] for number in numbers)
            yield tree, tuple(name if head else ROOT_RELATION for head, name in zip(tree, names, strict=True))

    def log_prob(self, tree: Tree) -> float:
        """Log q of a projective tree with one root, its relations included, in nats; -inf with an unknown relation."""
        heads, words = tree[0], np.arange(len(self.roots))
        arcs = self._arcs_with(tree[1])[words, np.maximum(heads - 1, 0)]
        return float(np.where(heads > 0, arcs, self.roots).sum()) - self.log_partition

    def log_prob_of_binarized(self, tree: Tree, *, binarization: Binarization) -> float:
        """Log q of all trees that become this one when they are binarised, in nats: several trees may.

        Args:
            tree: binarised. Relations are those of the words before, as binarisation leaves them.
            binarization: see `depgen.trees.binarization`.
        """
        from depgen.decoding.projective_charts import log_weight_of_binarized

        if binarization == "none":
            return self.log_prob(tree)
        arcs, inside_out = self._arcs_with(tree[1]), binarization == "inside-out"
        return float(log_weight_of_binarized(tree[0], arcs, self.roots, inside_out)) - self.log_partition

    def _arcs_with(self, relations: tuple[str, ...]) -> Float64[np.ndarray, "words words"]:
        """Scores of arcs when each word has this relation to its head."""
        numbers = [self._numbers.get(name, -1) for name in relations]
        known = np.array(numbers)[:, None] >= 0
        return np.where(known, self.arcs + self.labels[np.arange(len(numbers)), :, numbers], -np.inf)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.relations)}
