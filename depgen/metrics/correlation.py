"""How closely what attention heads weigh goes with the relations of edges: Eq. 16 of Shen et al. (2022).

Every edge of a treebank is a data point: x is a head's weight between its two words, y is 1 where the edge has the
relation and 0 elsewhere. The authors' last code has no correlation; it returns the mean of x over a relation's edges,
which a head that weighs much everywhere gets high in all relations. Both come from the same sums.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from depgen.metrics.precise import PreciseMetric
from depgen.nn.precise import precise

CONSTANT = 1e-12
"""A series whose variance is at most this share of its mean square varies by rounding alone."""


class RelationCorrelation(PreciseMetric):
    """Series of edge weights against the relations of these edges, over all edges seen, on all devices.

    One pass; sums are kept in float64 and counts in int64, so that no figure depends on how edges are batched.

    Args:
        series: the shape of what is weighed at an edge, such as layers and heads.
        relations: how many there are.
    """

    is_differentiable = False
    full_state_update = False

    weights: Tensor
    squares: Tensor
    counts: Tensor
    products: Tensor

    def __init__(self, series: Sequence[int], relations: int) -> None:
        super().__init__()
        shape = tuple(series)
        for name, size in (("weights", shape), ("squares", shape), ("products", (relations, *shape))):
            self.add_state(name, torch.zeros(size, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("counts", torch.zeros(relations, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, weights: Float[Tensor, "edges *series"], relations: Int[Tensor, " edges"]) -> None:
        """Add edges: what each series weighs at them, and the number of their relation."""
        exact = precise(weights)
        relations = relations.to(exact.device)
        self.weights += exact.sum(0)
        self.squares += exact.square().sum(0)
        self.counts += torch.bincount(relations, minlength=len(self.counts))
        self.products.index_add_(0, relations, exact)

    def compute(self) -> dict[str, Tensor]:
        """`pearson` (Eq. 16) and `mean_weight` (the authors' code's), series by relation, float64.

        A correlation is 0 where a series is constant, or a relation is that of no edge or of all; the mean of a
        relation without edges is 0.
        """
        products, edges = self.products.movedim(0, -1), self.counts.sum()
        spread = edges * self.squares - self.weights.square()
        spread = spread.masked_fill(spread <= CONSTANT * edges * self.squares, 0)[..., None]
        share = (self.counts * (edges - self.counts)).double()
        covariance = edges * products - self.weights[..., None] * self.counts
        scale = (spread * share).sqrt()
        return {
            "pearson": torch.where(scale > 0, covariance / scale, 0.0).clamp(-1, 1),
            "mean_weight": products / self.counts.clamp_min(1),
        }
