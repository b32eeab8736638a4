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


def pearson_of_sums(
    weights: Float[Tensor, "*series"],
    squares: Float[Tensor, "*series"],
    relations: Int[Tensor, " relations"],
    products: Float[Tensor, "*series relations"],
    edges: int | Int[Tensor, ""],
) -> Float[Tensor, "*series relations"]:
    """Pearson's correlation of each series with each relation, float64; 0 where either is constant.

    Args:
        weights: the sum of each series over all edges.
        squares: the sum of its squares.
        relations: how many edges each relation has.
        products: each series' sum over the edges of each relation.
        edges: how many there are.

    >>> half = torch.tensor([2.0]).double()
    >>> pearson_of_sums(half, half, torch.tensor([2, 4]), torch.tensor([[2.0, 2.0]]).double(), 4).tolist()
    [[1.0, 0.0]]
    """
    spread = edges * squares - weights.square()
    spread = spread.masked_fill(spread <= CONSTANT * edges * squares, 0)[..., None]
    share = (relations * (edges - relations)).double()
    covariance = edges * products - weights[..., None] * relations
    scale = (spread * share).sqrt()
    return torch.where(scale > 0, covariance / scale, 0.0).clamp(-1, 1)


class RelationCorrelation(PreciseMetric):
    """Series of edge weights against the relations of these edges, over all edges seen, on all devices.

    One pass; sums are kept in float64 and counts in int64, so that no figure depends on how edges are batched.

    Args:
        series: the shape of what is weighed at an edge, such as layers and heads.
        relations: how many there are.
    """

    is_differentiable = False
    full_state_update = False

    edges: Tensor
    weights: Tensor
    squares: Tensor
    counts: Tensor
    products: Tensor

    def __init__(self, series: Sequence[int], relations: int) -> None:
        super().__init__()
        shape = tuple(series)
        self.add_state("edges", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("weights", torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("squares", torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("counts", torch.zeros(relations, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("products", torch.zeros((relations, *shape), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, weights: Float[Tensor, "edges *series"], relations: Int[Tensor, " edges"]) -> None:
        """Add edges: what each series weighs at them, and the number of their relation."""
        exact = precise(weights)
        relations = relations.to(exact.device)
        self.edges += len(relations)
        self.weights += exact.sum(0)
        self.squares += exact.square().sum(0)
        self.counts += torch.bincount(relations, minlength=len(self.counts))
        self.products.index_add_(0, relations, exact)

    def compute(self) -> dict[str, Tensor]:
        """`pearson` (Eq. 16) and `mean_weight` (the authors' code's), series by relation, float64.

        A correlation is 0 where a series is constant, or a relation is that of no edge or of all; the mean of a
        relation without edges is 0.
        """
        products = self.products.movedim(0, -1)
        return {
            "pearson": pearson_of_sums(self.weights, self.squares, self.counts, products, self.edges),
            "mean_weight": products / self.counts.clamp_min(1),
        }
