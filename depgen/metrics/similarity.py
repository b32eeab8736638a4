"""Correlations of predicted with judged similarities, in points (times 100), as the tables of the field have them."""

import math
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torchmetrics.utilities import dim_zero_cat

from depgen.metrics.precise import PreciseMetric
from depgen.metrics.significance import Interval, percentile_interval
from depgen.nn.precise import precise

_CHUNK = 1 << 21


def pearson(first: Float[np.ndarray, " pairs"], second: Float[np.ndarray, " pairs"]) -> float:
    """Pearson's correlation in points; NaN where either side is constant, or there are fewer than two pairs.

    >>> round(pearson(np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 2.0])), 2)
    32.73
    """
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return math.nan
    a, b = first - first.mean(), second - second.mean()
    return float(100 * np.clip((a @ b) / math.sqrt((a @ a) * (b @ b)), -1, 1))


def spearman(first: Float[np.ndarray, " pairs"], second: Float[np.ndarray, " pairs"]) -> float:
    """Spearman's correlation in points: Pearson's of the ranks, equal values sharing their mean rank.

    >>> spearman(np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 2.0]))
    50.0
    """
    return pearson(*(_Ranking.of(values).ranks(np.ones((1, len(values))))[0] for values in (first, second)))


def spearman_interval(
    first: Float[np.ndarray, " pairs"],
    second: Float[np.ndarray, " pairs"],
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """Spearman's correlation with its bootstrap percentile interval over pairs; each resample is ranked by itself.

    Cost: O(resamples * pairs) after one sort. All NaN where there is no correlation.
    """
    value = spearman(first, second)
    if math.isnan(value):
        return Interval(value, value, value)
    generator, pairs = np.random.default_rng(seed), len(first)
    rankings = _Ranking.of(first), _Ranking.of(second)
    rows, drawn = max(1, _CHUNK // max(1, pairs)), []
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        places = generator.integers(0, pairs, (count, pairs)) + pairs * np.arange(count)[:, None]
        weights = np.bincount(places.ravel(), minlength=count * pairs).reshape(count, pairs).astype(np.float64)
        ranks = [each.ranks(weights) for each in rankings]
        drawn.append(_weighted_pearson(ranks[0], ranks[1], weights))
    low, high = percentile_interval(np.concatenate(drawn), confidence=confidence)
    return Interval(value, 100 * low, 100 * high)


@dataclass(frozen=True)
class _Ranking:
    """The order of values, so that samples of them are ranked without sorting.

    Attributes:
        order: places of the values, sorted.
        starts: where each different value begins in that order.
        group: which different value is at each place.
    """

    order: Int[np.ndarray, " pairs"]
    starts: Int[np.ndarray, " values"]
    group: Int[np.ndarray, " pairs"]

    @classmethod
    def of(cls, values: Float[np.ndarray, " pairs"]) -> "_Ranking":
        order = np.argsort(values, kind="stable")
        new = np.diff(values[order], prepend=np.nan) != 0
        group = np.empty(len(values), dtype=np.int64)
        group[order] = np.cumsum(new) - 1
        return cls(order, np.flatnonzero(new), group)

    def ranks(self, weights: Float[np.ndarray, "samples pairs"]) -> Float[np.ndarray, "samples pairs"]:
        """The mean rank of each value in samples that hold it `weights` times."""
        counts = np.add.reduceat(weights[:, self.order], self.starts, axis=1)
        ranks = np.cumsum(counts, axis=1) - (counts - 1) / 2
        return np.asarray(ranks[:, self.group])


def _weighted_pearson(
    first: Float[np.ndarray, "samples pairs"],
    second: Float[np.ndarray, "samples pairs"],
    weights: Float[np.ndarray, "samples pairs"],
) -> Float[np.ndarray, " samples"]:
    total = weights.sum(1, keepdims=True)
    a = first - (weights * first).sum(1, keepdims=True) / total
    b = second - (weights * second).sum(1, keepdims=True) / total
    products = ((weights * x * y).sum(1) for x, y in ((a, b), (a, a), (b, b)))
    covariance, *spreads = products
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(covariance / np.sqrt(spreads[0] * spreads[1]))


@dataclass(frozen=True)
class PairScores:
    """The results of a test, pair by pair, in the order of the split.

    Attributes:
        items: each pair's place in its split.
        predicted: similarities.
        judged: by people.
        test_sets: the set that each pair belongs to.
        seen: whether it was trained on.
    """

    items: Int[np.ndarray, " pairs"]
    predicted: Float[np.ndarray, " pairs"]
    judged: Float[np.ndarray, " pairs"]
    test_sets: Int[np.ndarray, " pairs"]
    seen: Bool[np.ndarray, " pairs"]

    def of(self, test_set: int, *, unseen: bool = False) -> "PairScores":
        """Those of one set; with `unseen`, only those that were not trained on."""
        kept = (self.test_sets == test_set) & ~(self.seen & unseen)
        return PairScores(**{name: getattr(self, name)[kept] for name in PAIR_PARTS})


PAIR_PARTS = tuple(field.name for field in fields(PairScores))


class ScoredPairs(PreciseMetric):
    """Keeps predicted and judged similarities of all pairs, on all devices: a correlation needs the whole set."""

    is_differentiable = False
    full_state_update = False

    items: list[Tensor]
    predicted: list[Tensor]
    judged: list[Tensor]
    test_sets: list[Tensor]
    seen: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        for name in PAIR_PARTS:
            self.add_state(name, [], dist_reduce_fx="cat")

    def update(
        self,
        predicted: Float[Tensor, " pairs"],
        judged: Float[Tensor, " pairs"],
        *,
        items: Int[Tensor, " pairs"],
        test_sets: Int[Tensor, " pairs"],
        seen: Bool[Tensor, " pairs"],
    ) -> None:
        """Add a batch of pairs."""
        exact = precise(predicted)
        values = (items, exact, precise(judged), test_sets, seen)
        for name, value in zip(PAIR_PARTS, values, strict=True):
            getattr(self, name).append(value.to(exact.device))

    def compute(self) -> dict[str, Tensor]:
        """The kept values, by name, in the order in which the devices saw them."""
        return {name: dim_zero_cat(getattr(self, name)) for name in PAIR_PARTS}

    def pairs(self) -> PairScores:
        """All pairs, in the order of the split; one that two devices have scored counts once."""
        parts = {name: part.reshape(-1).cpu().numpy() for name, part in self.compute().items()}
        _, first = np.unique(parts["items"], return_index=True)
        return PairScores(**{name: part[first] for name, part in parts.items()})
