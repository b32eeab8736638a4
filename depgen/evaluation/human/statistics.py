"""What ratings say: shares with intervals, agreement of raters, and whether a preference is more than chance.

Deviations of the comparison with Table 3 of Yang & Wan (ACL 2022):
    D1. Their column κ is Krippendorff's alpha, not a kappa; they do not name its level. Here it is nominal: win, lose
        and tie are three kinds of answer without an order. Fleiss' kappa is not reported by them, and not here. For
        ratings, of which Casas et al. (2020) report no agreement, the level is interval, as for mean and deviation.
    D2. They do not name the unit of the Wilcoxon signed-rank test. Here it is the pair of texts, with the mean
        preference of its raters, since the judgements of one pair are not independent; the test over single judgements
        is reported with it. Units without a preference are left out of the ranks (`zero_method="wilcox"`; over single
        judgements, whose sizes are all 1, Pratt's way comes to the same). p-values are two-sided and not corrected for
        their number; over more than 50 units they are the normal approximation with ties corrected.
    D3. Two things in the paper's Table 3 do not follow from its rates. Those of DM-LSTM against PRPN and AWD-LSTM are
        no multiples of 1/500 and fit 400 judgements; and logicality against AWD-LSTM (43.0 : 34.5, starred for
        p < 0.01) has p = 0.05 over 400 single judgements, 0.03 over 500.
"""

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from depgen.evaluation.human.answers import Ratings
from depgen.metrics.significance import Interval, bootstrap_interval

Level = Literal["nominal", "interval"]
"""How far apart two answers are: equal or not; the square of their difference."""


@dataclass(frozen=True)
class SignedRank:
    """A Wilcoxon signed-rank test.

    Attributes:
        p_value: two-sided.
        units: tested, those without a preference among them.
        zeros: units without a preference, which the ranks leave out.
    """

    p_value: float
    units: int
    zeros: int


@dataclass(frozen=True)
class Preference:
    """One aspect of a comparison, from the first system's side.

    Attributes:
        win: % of judgements, every item counting alike, with the 95 % bootstrap interval over items.
        lose: the same.
        tie: the same.
        alpha: Krippendorff's, nominal; None where it is not defined.
        over_items: the test on items' mean preferences.
        over_judgements: the test on single judgements, as if they were independent.
    """

    win: Interval
    lose: Interval
    tie: Interval
    alpha: float | None
    over_items: SignedRank
    over_judgements: SignedRank


def preference(ratings: Ratings, *, seed: int = 0) -> Preference:
    """What judgements of 1 (the first system is better), 0 and -1 say; NaN is no judgement."""
    win, lose, tie = (item_shares(ratings, value, seed=seed) for value in (1.0, -1.0, 0.0))
    return Preference(
        win,
        lose,
        tie,
        krippendorff_alpha(ratings),
        signed_rank(item_means(ratings)),
        signed_rank(ratings[~np.isnan(ratings)]),
    )


@dataclass(frozen=True)
class Rated:
    """Ratings of a system's sentences (Casas et al., 2020, Table 4).

    Attributes:
        mean: over items of the mean over their raters, with the 95 % bootstrap interval over items.
        deviation: the mean over items of the standard deviation (n - 1) over their raters; None where no item has two.
    """

    mean: Interval
    deviation: float | None


def rated(ratings: Ratings, *, seed: int = 0) -> Rated:
    """What ratings of items say; NaN is no rating.

    >>> found = rated(np.array([[1.0, 4.0], [3.0, np.nan]]))
    >>> found.mean.value, round(found.deviation, 4)
    (3.0, 1.4142)
    """
    several = ratings[:, (~np.isnan(ratings)).sum(axis=0) > 1]
    deviation = float(np.nanstd(several, axis=0, ddof=1).mean()) if several.shape[1] else None
    return Rated(bootstrap_interval(item_means(ratings), seed=seed), deviation)


def item_shares(ratings: Ratings, value: float, *, seed: int = 0) -> Interval:
    """The % of judgements that are `value`: the mean over items of their raters' share, resampled over items."""
    shares = np.where(np.isnan(ratings), np.nan, 100.0 * (ratings == value))
    return bootstrap_interval(item_means(shares), seed=seed)


def item_means(ratings: Ratings) -> Float[np.ndarray, " items"]:
    """Each item's mean over the raters who judged it; NaN where nobody did.

    >>> item_means(np.array([[1.0, 0.0], [0.0, np.nan]]))
    array([0.5, 0. ])
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # an item that nobody judged
        return np.asarray(np.nanmean(ratings, axis=0))


def krippendorff_alpha(ratings: Ratings, level: Level = "nominal") -> float | None:
    """Krippendorff's alpha, items as units; None where all pairable answers are one and the same.

    Items with fewer than two answers count nowhere. Krippendorff (2011), "Computing Krippendorff's
    alpha-reliability": one less the observed over the expected disagreement.

    Args:
        ratings: NaN is no answer.
        level: `nominal` for answers without an order, `interval` for numbers whose differences count.

    >>> ratings = np.array([[1.0, 2.0, 5.0], [1.0, 3.0, 4.0]])
    >>> [round(krippendorff_alpha(ratings, level), 4) for level in ("nominal", "interval")]
    [0.2857, 0.875]
    """
    values = np.unique(ratings[~np.isnan(ratings)])
    counts = (ratings == values[:, None, None]).sum(axis=1)  # [value, item]
    counts = counts[:, counts.sum(axis=0) > 1]
    apart = values[:, None] - values  # [value, value]
    distances = (apart != 0).astype(np.float64) if level == "nominal" else apart**2
    answers, of_value = counts.sum(axis=0), counts.sum(axis=1)
    expected = of_value @ distances @ of_value  # over ordered pairs of all answers
    if expected == 0:
        return None
    observed = ((counts * (distances @ counts)).sum(axis=0) / (answers - 1)).sum()
    return float(1 - (of_value.sum() - 1) * observed / expected)


def signed_rank(differences: Float[np.ndarray, " units"]) -> SignedRank:
    """The Wilcoxon signed-rank test that differences lie around zero; NaN ones are no units.

    >>> signed_rank(np.array([0.2, 0.4, 0.6, -0.8, 1.0]))
    SignedRank(p_value=0.4375, units=5, zeros=0)
    """
    from scipy.stats import wilcoxon

    units = differences[~np.isnan(differences)]
    zeros = int((units == 0).sum())
    if zeros == len(units):
        return SignedRank(1.0, len(units), zeros)
    return SignedRank(float(wilcoxon(units, zero_method="wilcox").pvalue), len(units), zeros)
