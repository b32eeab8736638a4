"""Is the difference between two systems more than chance: tests on item scores and over seeds, and intervals.

Which test where: the paired t-test for measures with an item score (BLEU, BERTScore); the paired bootstrap for
Self-BLEU, as in the DMLM paper, although it takes items for independent and those of Self-BLEU are not (each text is
scored against all the others), so that its p-value is optimistic there; Welch's t-test where the items of two systems
do not belong together (free generation); Distinct-n is left untested, as in the DMLM paper. Scores that are NaN are
undefined for their item: the item is left out of the test, and how many are is logged.

All randomness comes from the seed that is passed, so every figure repeats.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

logger = logging.getLogger(__name__)

Scores = Float[np.ndarray, " items"]
OtherScores = Float[np.ndarray, " others"]
Groups = Int[np.ndarray, " items"]
"""Numbers of what items are pieces of: those of the same are no independent ones, and are drawn together."""

_CHUNK = 1 << 21


@dataclass(frozen=True)
class Comparison:
    """The outcome of a two-sided test between two systems.

    Attributes:
        difference: first minus second.
        p_value: probability of a difference at least as large if there were none.
        items: how many were compared; of independent samples, those of both.
    """

    difference: float
    p_value: float
    items: int


@dataclass(frozen=True)
class Interval:
    """A value and its bootstrap percentile interval."""

    value: float
    low: float
    high: float


def paired_t_test(first: Scores, second: OtherScores) -> Comparison:
    """The paired t-test on the scores that two systems have for the same items.

    >>> round(paired_t_test(np.array([1.0, 2.0, 4.0]), np.array([0.0, 2.0, 1.0])).p_value, 4)
    0.2697
    """
    from scipy.stats import ttest_rel

    first, second = _defined_pairs(first, second)
    differences = first - second
    rounding = _rounding(first, second)
    if np.ptp(differences) <= rounding:  # no variance: scipy would divide zero by zero
        return _constant(float(differences[0]), len(differences), rounding)
    return Comparison(float(differences.mean()), float(ttest_rel(first, second).pvalue), len(differences))


def welch_t_test(first: Scores, second: OtherScores) -> Comparison:
    """Welch's t-test (unequal variances) on item scores that do not belong together."""
    defined, others = first[~np.isnan(first)], second[~np.isnan(second)]
    items = len(defined) + len(others)
    _check_enough(min(len(defined), len(others)), len(first) + len(second) - items)
    difference = float(defined.mean() - others.mean())
    rounding = _rounding(defined, others)
    if max(np.ptp(defined), np.ptp(others)) <= rounding:
        return _constant(difference, items, rounding)
    return Comparison(difference, _welch_p_value(defined, others), items)


def _welch_p_value(first: Scores, second: OtherScores) -> float:
    """That of `ttest_ind(first, second, equal_var=False)`, which warns where one system's scores are all alike."""
    from scipy.stats import ttest_ind_from_stats

    moments = [(np.mean(scores), np.std(scores, ddof=1), len(scores)) for scores in (first, second)]
    return float(ttest_ind_from_stats(*moments[0], *moments[1], equal_var=False).pvalue)


def paired_bootstrap(
    first: Scores, second: OtherScores, *, groups: Groups | None = None, resamples: int = 10_000, seed: int = 0
) -> Comparison:
    """The paired bootstrap test on the mean of item scores.

    The items are drawn with replacement, the same for both systems; the p-value is the share of resampled differences
    that lie at least as far from the observed one as that lies from zero (Efron & Tibshirani, 1993, ch. 16), never
    below 1 / (resamples + 1). For Self-BLEU the item scores are resampled while the texts that they were compared with
    stay (computing it again on a resample would match each repeated text with itself): what one text adds to the scores
    of the others is held fixed, so that the variance is underestimated and the p-value optimistic.
    """
    if groups is not None:
        groups = groups[~(np.isnan(first) | np.isnan(second))]
    first, second = _defined_pairs(first, second)
    if groups is not None and len(np.unique(groups)) < 2:
        raise ValueError(f"A test wants at least 2 groups of items, found all {len(first)} items in one.")
    differences = first - second
    resampled = _resampled_means(differences, resamples, seed, groups)
    observed = float(differences.mean())
    return Comparison(observed, _bootstrap_p_value(observed, resampled), len(differences))


def bootstrap_interval(
    scores: Scores,
    *,
    groups: Groups | None = None,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """The mean of the defined item scores with its bootstrap percentile interval; NaN without any.

    >>> interval = bootstrap_interval(np.array([0.0, 1.0] * 50))
    >>> interval.value, 0.38 < interval.low < 0.42 and 0.58 < interval.high < 0.62
    (0.5, True)
    """
    is_defined = ~np.isnan(scores)
    defined = scores[is_defined]
    if not len(defined):
        return Interval(math.nan, math.nan, math.nan)
    means = _resampled_means(defined, resamples, seed, None if groups is None else groups[is_defined])
    return Interval(float(defined.mean()), *percentile_interval(means, confidence=confidence))


def percentile_interval(resampled: Float[np.ndarray, " resamples"], *, confidence: float = 0.95) -> tuple[float, float]:
    """Low and high end of the bootstrap percentile interval of a figure, given its value on each resample.

    Resamples on which the figure is not defined (NaN) are left out.

    >>> percentile_interval(np.arange(101.0), confidence=0.5)
    (25.0, 75.0)
    """
    low, high = np.nanquantile(resampled, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def bootstrap_means(
    scores: Float[np.ndarray, "items series"],
    weights: Float[np.ndarray, "items series"],
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> Float[np.ndarray, "resamples series"]:
    """Weighted means of several series of scores over the same items, each line of one resample of the items.

    A score without weight does not count, and may be NaN. A ratio of sums is the mean of the ratios weighted by their
    denominators: nats a token of a whole split come from those of its items weighted by their tokens. Cost: one
    matrix product of resamples x items x series, so that a whole table is done at once.

    >>> means = bootstrap_means(np.array([[1.0], [5.0]]), np.array([[3.0], [1.0]]), resamples=500)
    >>> sorted(set(means[:, 0].tolist()))
    [1.0, 2.0, 5.0]
    """
    generator = np.random.default_rng(seed)
    items = len(scores)
    summands = np.concatenate([np.where(weights > 0, scores, 0.0) * weights, weights], axis=1)
    rows = max(1, _CHUNK // items)
    sums = np.empty((resamples, summands.shape[1]))
    for start in range(0, resamples, rows):
        stop = min(start + rows, resamples)
        drawn = generator.integers(0, items, (stop - start, items)) + items * np.arange(stop - start)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=(stop - start) * items).reshape(stop - start, items)
        sums[start:stop] = counts.astype(np.float64) @ summands
    above, below = np.split(sums, 2, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(above / below)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted for their number by Holm's step-down method (1979), in the order given.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def welch_over_seeds(first: Sequence[float], second: Sequence[float]) -> float | None:
    """The two-sided p-value of Welch's t-test between two systems' figures over seeds, which are independent runs.

    None where a system has fewer than two seeds, or none of the two varies: then there is nothing to test by.

    >>> round(welch_over_seeds([50.0, 52.0], [44.0, 45.0]), 3)
    0.055
    """
    if min(len(first), len(second)) < 2 or np.ptp(first) == np.ptp(second) == 0:
        return None
    return _welch_p_value(np.array(first), np.array(second))


def rank_sum_over_seeds(first: Sequence[float], second: Sequence[float]) -> float | None:
    """The exact two-sided p-value of the rank-sum test (Mann & Whitney, 1947) between two systems' figures over seeds.

    With ties, every division of the ranks is counted. None where a system has fewer than two seeds.

    >>> round(rank_sum_over_seeds([80.0, 81.0, 82.0], [70.0, 71.0, 72.0]), 3)
    0.1
    """
    from scipy.stats import PermutationMethod, mannwhitneyu

    if min(len(first), len(second)) < 2:
        return None
    has_ties = len({*first, *second}) < len(first) + len(second)
    divisions = math.comb(len(first) + len(second), len(first))
    method = PermutationMethod(n_resamples=divisions + 1) if has_ties else "exact"  # more than there are: all of them
    return float(mannwhitneyu(first, second, alternative="two-sided", method=method).pvalue)


def bootstrap_over_seeds(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the first system's mean minus the second's; resampled are the seeds of each."""
    from scipy.stats import bootstrap

    drawn = bootstrap(
        (first, second),
        lambda mine, theirs, axis: mine.mean(axis) - theirs.mean(axis),
        n_resamples=10_000,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    low, high = drawn.confidence_interval
    return float(low), float(high)


def _defined_pairs(
    first: Scores, second: OtherScores
) -> tuple[Float[np.ndarray, " defined"], Float[np.ndarray, " defined"]]:
    """The items for which both scores are defined."""
    if len(first) != len(second):
        raise ValueError(f"A paired test wants the same items: found {len(first)} and {len(second)} scores.")
    defined = ~(np.isnan(first) | np.isnan(second))
    _check_enough(int(defined.sum()), int((~defined).sum()))
    return first[defined], second[defined]


def _check_enough(items: int, excluded: int) -> None:
    if excluded:
        logger.warning("%d items without a defined score are left out of the test; %d remain.", excluded, items)
    if items < 2:
        raise ValueError(f"A test wants at least 2 items, found {items} ({excluded} left out as undefined).")


def _rounding(first: Scores, second: OtherScores) -> float:
    """The difference up to which scores of two systems are alike but for rounding."""
    return 1e-12 * float(max(np.abs(first).max(), np.abs(second).max()))


def _constant(difference: float, items: int, rounding: float) -> Comparison:
    """The outcome when scores have no variance: certain when they differ, none when they do not."""
    return Comparison(difference, 0.0 if abs(difference) > rounding else 1.0, items)


def by_group(
    scores: Float[np.ndarray, "items *series"], weights: Float[np.ndarray, "items *series"], groups: Groups
) -> tuple[Float[np.ndarray, "groups *series"], Float[np.ndarray, "groups *series"]]:
    """Each group's weighted mean and its weight, so that the weighted mean over groups is that over items.

    >>> by_group(np.array([1.0, 3.0, 5.0]), np.ones(3), np.array([0, 0, 7]))
    (array([2., 5.]), array([2., 1.]))
    """
    numbers, place = np.unique(groups, return_inverse=True)
    sums, sizes = (np.zeros((len(numbers), *scores.shape[1:])) for _ in range(2))
    np.add.at(sums, place, np.where(weights > 0, scores, 0.0) * weights)
    np.add.at(sizes, place, weights)
    with np.errstate(invalid="ignore"):
        return sums / sizes, sizes


def _resampled_means(
    scores: Scores, resamples: int, seed: int, groups: Groups | None = None
) -> Float[np.ndarray, " resamples"]:
    """The means of samples with replacement, of groups whole ones."""
    weights = np.ones_like(scores)
    if groups is not None:
        scores, weights = by_group(scores, weights, groups)
    return bootstrap_means(scores[:, None], weights[:, None], resamples=resamples, seed=seed)[:, 0]


def _bootstrap_p_value(observed: float, resampled: Float[np.ndarray, " resamples"]) -> float:
    """Two-sided p-value of a difference under the resampled differences shifted to have no difference."""
    # The tolerance counts rounding errors of equal sums as equal.
    beyond = np.abs(resampled - observed) >= abs(observed) * (1 - 1e-12) - 1e-15
    return float((1 + beyond.sum()) / (1 + len(resampled)))
