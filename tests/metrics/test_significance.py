import itertools
import logging
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from depgen.metrics import significance as module
from depgen.metrics.significance import (
    bootstrap_interval,
    holm,
    paired_bootstrap,
    paired_t_test,
    welch_over_seeds,
    welch_t_test,
)

P_VALUES = st.lists(st.floats(0.0, 1.0), max_size=6)


def test_paired_t_equals_its_formula():
    first, second = np.array([3.0, 5.0, 4.0, 9.0]), np.array([1.0, 5.5, 2.0, 6.0])
    differences = first - second
    outcome = paired_t_test(first, second)
    assert outcome.difference == pytest.approx(1.625)
    t = differences.mean() / (differences.std(ddof=1) / 2)
    # with 3 degrees of freedom the distribution function is closed
    tail = 0.5 - (t / math.sqrt(3) / (1 + t * t / 3) + math.atan(t / math.sqrt(3))) / math.pi
    assert outcome.p_value == pytest.approx(2 * tail)


def test_welch_equals_its_formula():
    first, second = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([2.0, 9.0, 4.0])
    outcome = welch_t_test(first, second)
    errors = 2.5 / 5, 13 / 3  # variances over numbers of items
    freedom = sum(errors) ** 2 / (errors[0] ** 2 / 4 + errors[1] ** 2 / 2)
    assert outcome.difference == pytest.approx(-2)
    assert outcome.p_value == pytest.approx(2 * stats.t.sf(2 / math.sqrt(sum(errors)), freedom))


def test_systems_without_variance():
    same = paired_t_test(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    assert (same.p_value, same.difference) == (1.0, 0.0)
    apart = paired_t_test(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    assert (apart.p_value, apart.difference) == (0.0, -1.0)
    assert welch_t_test(np.array([1.0, 1.0]), np.array([1.0, 1.0])).p_value == 1.0
    assert paired_bootstrap(np.ones(5), np.ones(5), resamples=50).p_value == 1.0


@pytest.mark.filterwarnings("error")
def test_scores_that_differ_by_rounding_alone_are_alike():
    scores = np.array([0.1, 0.3, 0.7, 4.7])
    rounded = (scores + 1e3) - 1e3
    assert 0.0 < np.ptp(scores - rounded) < 1e-12
    near = scores * (1 + np.array([1e-16, 3e-16, 0.0, 2e-16]))
    assert paired_t_test(scores, near).p_value == 1.0
    shifted = paired_t_test(scores, near + 0.3)
    assert (shifted.p_value, shifted.difference) == (0.0, pytest.approx(-0.3))
    one_alike = welch_t_test(np.full(4, 0.1) + np.array([0.0, 1e-17, 0.0, 2e-17]), scores)
    assert one_alike.p_value == pytest.approx(stats.ttest_1samp(scores, 0.1).pvalue)


def test_undefined_items_are_left_out_counted_and_logged(caplog):
    first, second = np.array([1.0, np.nan, 3.0, 5.0]), np.array([0.0, 1.0, np.nan, 2.0])
    with caplog.at_level(logging.WARNING):
        outcome = paired_t_test(first, second)
        assert welch_t_test(first, second).difference == pytest.approx(2.0)
        assert paired_bootstrap(first, second, resamples=10).difference == 2.0
    assert outcome == paired_t_test(np.array([1.0, 5.0]), np.array([0.0, 2.0]))
    assert caplog.text.count("2 items without a defined score are left out of the test; ") == 3


def test_too_few_or_unequal_items_are_refused():
    for test in (paired_t_test, paired_bootstrap):
        with pytest.raises(ValueError, match="found 2 and 3 scores"):
            test(np.ones(2), np.ones(3))
        with pytest.raises(ValueError, match="at least 2 items, found 1"):
            test(np.array([1.0, np.nan]), np.ones(2))
    with pytest.raises(ValueError, match="at least 2 items, found 1"):
        welch_t_test(np.ones(1), np.ones(4))


def test_bootstrap_p_value_equals_full_enumeration():
    differences = np.array([2.0, -1.0, 3.0, 0.5])
    means = np.array([np.mean(draw) for draw in itertools.product(differences, repeat=4)])
    exact = np.mean(np.abs(means - differences.mean()) >= differences.mean() - 1e-12)
    outcome = paired_bootstrap(differences, np.zeros(4), resamples=40_000)
    assert outcome.p_value == pytest.approx(exact, abs=0.01)
    assert outcome.difference == pytest.approx(differences.mean())


def test_interval_equals_the_normal_one_for_many_items():
    scores = np.random.default_rng(1).normal(10, 2, 900)
    interval = bootstrap_interval(np.append(scores, np.nan))
    half = 1.96 * scores.std() / 30
    assert interval.value == pytest.approx(scores.mean())
    assert interval.low == pytest.approx(scores.mean() - half, abs=0.02)
    assert interval.high == pytest.approx(scores.mean() + half, abs=0.02)
    assert math.isnan(bootstrap_interval(np.array([np.nan])).low)
    narrow = bootstrap_interval(scores, confidence=0.5)
    assert narrow.high - narrow.low == pytest.approx(2 * 0.6745 * scores.std() / 30, abs=0.02)


def test_interval_does_not_depend_on_chunks(monkeypatch):
    scores = np.random.default_rng(1).normal(size=50)
    whole = bootstrap_interval(scores, resamples=200)
    monkeypatch.setattr(module, "_CHUNK", 50 * 7)
    assert bootstrap_interval(scores, resamples=200) == whole


@given(P_VALUES)
def test_holm_equals_its_definition(p_values):
    order = sorted(p_values)
    adjusted = holm(p_values)
    for p, found in zip(p_values, adjusted, strict=True):
        place = len(order) - 1 - order[::-1].index(p)
        steps = [min(1.0, (len(order) - rank) * order[rank]) for rank in range(place + 1)]
        assert found == max(steps)


@pytest.mark.parametrize(("first", "second"), [([50.0, 52.0], [44.0, 45.0]), ([1.0, 2.0, 4.0], [3.0, 3.0])])
def test_seeds_are_compared_by_scipys_welch_test(first, second):
    assert welch_over_seeds(first, second) == pytest.approx(stats.ttest_ind(first, second, equal_var=False).pvalue)
    assert welch_over_seeds(second, first) == pytest.approx(welch_over_seeds(first, second))


@pytest.mark.parametrize(("first", "second"), [([50.0], [44.0, 45.0]), ([], [1.0, 2.0]), ([5.0, 5.0], [4.0, 4.0])])
def test_seeds_that_allow_no_test_have_no_p_value(first, second):
    assert welch_over_seeds(first, second) is None


def test_items_of_a_group_are_drawn_together():
    generator = np.random.default_rng(0)
    first, second = generator.normal(0.4, 1, 20), np.zeros(20)
    whole = paired_bootstrap(first, second, groups=np.arange(20))
    cut = paired_bootstrap(np.repeat(first, 5), np.zeros(100), groups=np.repeat(np.arange(20), 5))
    assert (cut.p_value, cut.difference) == (whole.p_value, pytest.approx(whole.difference))
    assert paired_bootstrap(np.repeat(first, 5), np.zeros(100)).p_value < whole.p_value / 4
    gaps = np.where(np.arange(20) == 3, np.nan, first)
    kept = paired_bootstrap(np.delete(first, 3), np.zeros(19), groups=np.arange(19))
    assert paired_bootstrap(gaps, second, groups=np.arange(20)).p_value == kept.p_value
    with pytest.raises(ValueError, match="at least 2 groups of items, found all 20 items in one"):
        paired_bootstrap(first, second, groups=np.zeros(20, dtype=int))
