"""Distributions over labelled projective trees with one root: samples and probabilities.

Eisner (2000), "Bilexical grammars and their cubic-time parsing algorithms". SuPar's `DependencyCRF` is the same
distribution over unlabelled trees; its `sample` fails with torch 2.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int64

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
        from depgen.decoding.projective_charts import inside

        return inside(self.arcs, self.roots, np.full(len(self.roots), -1))

    def sample(self, number: int, generator: np.random.Generator) -> list[Tree]:
        """Independent trees; those of a smaller number are the first ones of a larger number. O(n^3 + number n^2)."""
        from depgen.decoding.projective_charts import sampled_heads

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
        from depgen.decoding.projective_charts import inside

        heads, relations = tree
        words = np.arange(len(heads))
        numbers = np.array([self.relations.index(name) if name in self.relations else -1 for name in relations])
        arcs = np.where(numbers[:, None] >= 0, self.arcs + self.labels[words, :, numbers], -np.inf)
        if binarization == "none":
            score = np.where(heads > 0, arcs[words, np.maximum(heads - 1, 0)], self.roots).sum()
        else:
            score = np.logaddexp.reduce(inside(arcs, self.roots, subtrees(heads)[0] - 1)[2])
        return float(score) - float(np.logaddexp.reduce(self._charts[2]))
