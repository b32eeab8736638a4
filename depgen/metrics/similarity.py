"""Correlations of predicted with judged similarities, in points (times 100), as the tables of the field have them."""

import math
from typing import NamedTuple

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
    from scipy.stats import rankdata

    return pearson(rankdata(first), rankdata(second))


def spearman_interval(
    first: Float[np.ndarray, " pairs"],
    second: Float[np.ndarray, " pairs"],
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """Spearman's correlation with its bootstrap percentile interval over pairs; each resample is ranked by itself.

    All NaN where there is no correlation.
    """
    from scipy.stats import rankdata

    value = spearman(first, second)
    if math.isnan(value):
        return Interval(value, value, value)
    generator, pairs, correlations = np.random.default_rng(seed), len(first), np.empty(resamples)
    rows = max(1, _CHUNK // pairs)
    for start in range(0, resamples, rows):
        places = generator.integers(0, pairs, (min(rows, resamples - start), pairs))
        a, b = (rankdata(values[places], axis=1) - (pairs + 1) / 2 for values in (first, second))
        with np.errstate(invalid="ignore"):  # a resample of one value has no correlation
            correlations[start : start + rows] = (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))
    low, high = percentile_interval(correlations, confidence=confidence)
    return Interval(value, 100 * low, 100 * high)


class PairScores(NamedTuple):
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
        chosen = (self.test_sets == test_set) & ~(self.seen & unseen)
        return PairScores(*(column[chosen] for column in self))


class ScoredPairs(PreciseMetric):
    """Keeps predicted and judged similarities of all pairs, on all devices: a correlation needs the whole set."""

    is_differentiable = False
    full_state_update = False

    def __init__(self) -> None:
        super().__init__()
        for name in PairScores._fields:
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
        columns = PairScores(items, exact, precise(judged), test_sets, seen)  # type: ignore[arg-type]
        for name, column in columns._asdict().items():
            getattr(self, name).append(column.to(exact.device))

    def compute(self) -> PairScores:
        """All pairs, in the order of the split; one that two devices have scored counts once."""
        columns = [dim_zero_cat(getattr(self, name)).cpu().numpy() for name in PairScores._fields]
        _, first = np.unique(columns[0], return_index=True)
        return PairScores(*(column[first] for column in columns))
