import itertools
import math

import numpy as np
import pytest
from scipy.stats import rankdata, wilcoxon

from depgen.evaluation.human.statistics import item_means, item_shares, krippendorff_alpha, preference, signed_rank

NAN = np.nan
# Krippendorff, "Computing Krippendorff's alpha-reliability" (2011), section C: four observers, twelve units.
OBSERVERS = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
)


APART = {"nominal": lambda one, other: one != other, "interval": lambda one, other: (one - other) ** 2}


def alpha_by_pairs(ratings, level="nominal"):
    """1 - observed / expected disagreement, counted pair by pair; a unit's pairs weigh 1 / (its values - 1)."""
    apart = APART[level]
    units = [[value for value in unit if not np.isnan(value)] for unit in ratings.T]
    units = [unit for unit in units if len(unit) > 1]
    values = [value for unit in units for value in unit]
    observed = sum(
        sum(apart(*pair) for pair in itertools.permutations(unit, 2)) / (len(unit) - 1) for unit in units
    ) / len(values)
    pairs = list(itertools.permutations(values, 2))
    return 1 - observed / (sum(apart(*pair) for pair in pairs) / len(pairs))


def test_alpha_of_krippendorffs_own_example():
    # By hand: the coincidences agree on 7 + 10 + 8 + 4 + 3 = 32 of 40 values, the values' counts are 9, 13, 10, 5, 3:
    # ((40 - 1) 32 - 344) / (40 (40 - 1) - 344) = 904 / 1216, where 344 = 9 8 + 13 12 + 10 9 + 5 4 + 3 2.
    assert krippendorff_alpha(OBSERVERS) == pytest.approx(904 / 1216, abs=1e-12)
    assert alpha_by_pairs(OBSERVERS) == pytest.approx(904 / 1216, abs=1e-12)
    # The same source prints 0.849 for the interval level of these data.
    assert krippendorff_alpha(OBSERVERS, "interval") == pytest.approx(0.849, abs=5e-4)


@pytest.mark.parametrize("level", ["nominal", "interval"])
def test_alpha_is_one_less_observed_over_expected_disagreement(level):
    generator = np.random.default_rng(0)
    for _ in range(20):
        ratings = generator.integers(-1, 2, (5, 12)).astype(float)
        ratings[generator.random(ratings.shape) < 0.3] = NAN
        assert krippendorff_alpha(ratings, level) == pytest.approx(alpha_by_pairs(ratings, level), abs=1e-12)


def test_alpha_where_there_is_nothing_to_agree_on():
    assert krippendorff_alpha(np.ones((3, 4))) is None
    assert krippendorff_alpha(np.array([[1.0, NAN], [NAN, 0.0]])) is None
    assert krippendorff_alpha(np.array([[1.0, 0.0]])) is None
    assert krippendorff_alpha(np.array([[1.0, 0.0, -1.0]] * 3)) == 1.0


@pytest.mark.parametrize("level", ["nominal", "interval"])
def test_alpha_is_that_of_the_krippendorff_package(level):
    from krippendorff import alpha

    generator = np.random.default_rng(7)
    for raters in (2, 3, 6):
        ratings = generator.integers(0, 4, (raters, 30)).astype(float)
        ratings[generator.random(ratings.shape) < 0.2] = NAN
        expected = alpha(reliability_data=ratings, level_of_measurement=level)
        assert krippendorff_alpha(ratings, level) == pytest.approx(expected, abs=1e-12)


def judgements(seed, items=100, raters=5, better=0.5):
    generator = np.random.default_rng(seed)
    return generator.choice([1.0, 0.0, -1.0], (raters, items), p=[better, 0.3, 0.7 - better])


@pytest.mark.parametrize("seed", [1, 2])
def test_the_test_is_scipys_on_the_raw_numbers(seed):
    ratings = judgements(seed, better=0.4)
    found = preference(ratings)
    means = [sum(ratings[:, item]) / 5 for item in range(100)]
    assert found.over_items.p_value == pytest.approx(wilcoxon(means, zero_method="wilcox").pvalue)
    assert found.over_judgements.p_value == pytest.approx(wilcoxon(ratings.ravel(), zero_method="wilcox").pvalue)
    assert found.over_items.zeros == sum(mean == 0 for mean in means)
    assert (found.over_items.units, found.over_judgements.units) == (100, 500)


def test_the_test_is_the_normal_approximation_of_the_rank_sum():
    ratings = judgements(3, better=0.4)
    units = ratings.mean(axis=0)
    units = units[units != 0]
    ranks = rankdata(abs(units))
    # Under no difference each rank has either sign by a fair coin: the signed ranks' sum has variance sum r^2.
    z = (ranks * np.sign(units)).sum() / np.sqrt((ranks**2).sum())
    assert signed_rank(ratings.mean(axis=0)).p_value == pytest.approx(math.erfc(abs(z) / math.sqrt(2)), rel=1e-9)


def test_no_preference_at_all_is_no_difference():
    found = preference(np.zeros((2, 3)))
    assert (found.over_items.p_value, found.over_items.zeros) == (1.0, 3)
    assert found.alpha is None
    assert found.tie.value == 100.0


def test_judgements_that_are_missing_do_not_count():
    ratings = np.array([[1.0, -1.0, NAN], [0.0, NAN, NAN]])
    assert np.array_equal(item_means(ratings), [0.5, -1.0, NAN], equal_nan=True)
    found = preference(ratings)
    assert (found.win.value, found.lose.value, found.tie.value) == (25.0, 50.0, 25.0)
    assert (found.over_items.units, found.over_judgements.units) == (2, 3)


def test_the_other_systems_side_is_the_mirror():
    ratings = judgements(5)
    one, other = preference(ratings), preference(-ratings)
    assert (one.win, one.lose, one.tie) == (other.lose, other.win, other.tie)
    assert one.alpha == pytest.approx(other.alpha, abs=1e-12)
    assert one.over_items.p_value == pytest.approx(other.over_items.p_value)
    assert one.win.value + one.lose.value + one.tie.value == pytest.approx(100.0)
    assert one.win.low < one.win.value < one.win.high


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(7)
    covered = 0
    for _ in range(100):  # items differ in how often they are preferred, so that their raters are alike
        chances = generator.beta(2, 2, 100)
        ratings = (generator.random((5, 100)) < chances).astype(float)
        share = item_shares(ratings, 1.0)
        covered += share.low <= 50.0 <= share.high
    assert 88 <= covered <= 99


def test_the_papers_rates_do_not_bear_out_one_of_its_stars():
    # DM-LSTM against AWD-LSTM in logicality: 43.0 % wins, 34.5 % losses, starred for p < 0.01.
    for judged, p_value in ((400, 0.053), (500, 0.029)):
        wins, losses = round(0.43 * judged), round(0.345 * judged)
        units = np.repeat([1.0, -1.0, 0.0], [wins, losses, judged - wins - losses])
        assert signed_rank(units).p_value == pytest.approx(p_value, abs=5e-4)
