"""Correlations against scipy's, resamples against ranking each anew, pairs in whatever order they come."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from depgen.metrics.similarity import ScoredPairs, pearson, spearman, spearman_interval


@pytest.fixture(params=["untied", "tied"])
def sides(request):
    generator = np.random.default_rng(3)
    first = generator.normal(size=200)
    second = first + generator.normal(size=200)
    return (first, second) if request.param == "untied" else (first.round(), second.round(1))


def test_correlations_are_scipys(sides):
    assert pearson(*sides) == pytest.approx(100 * stats.pearsonr(*sides).statistic, abs=1e-10)
    assert spearman(*sides) == pytest.approx(100 * stats.spearmanr(*sides).statistic, abs=1e-10)


def test_no_correlation_without_two_different_values():
    assert math.isnan(spearman(np.ones(4), np.arange(4.0)))
    assert math.isnan(pearson(np.arange(1.0), np.arange(1.0)))
    assert math.isnan(pearson(np.empty(0), np.empty(0)))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("predicted", [np.ones(4), np.ones(1), np.empty(0)], ids=["constant", "one pair", "none"])
def test_where_there_is_no_correlation_there_is_no_interval(predicted):
    interval = spearman_interval(predicted, np.arange(len(predicted), dtype=float))
    assert all(map(math.isnan, (interval.value, interval.low, interval.high)))


def test_the_interval_is_that_of_samples_each_ranked_anew(sides):
    generator, found = np.random.default_rng(7), []
    for places in generator.integers(0, 200, (300, 200)):
        found.append(stats.spearmanr(sides[0][places], sides[1][places]).statistic)
    interval = spearman_interval(*sides, resamples=300, seed=7, confidence=0.9)
    assert interval.value == pytest.approx(spearman(*sides))
    assert [interval.low, interval.high] == pytest.approx(list(100 * np.quantile(found, [0.05, 0.95])), abs=1e-9)


def test_pairs_are_kept_in_order_once_each_and_in_full():
    metric = ScoredPairs()
    for items in ([4, 0], [2], [4, 1]):  # 4 on two devices
        kept = torch.tensor(items)
        metric.update(kept / 10, (kept % 3).float(), items=kept, test_sets=kept % 2, seen=kept == 2)
    pairs = metric.compute()
    assert pairs.items.tolist() == [0, 1, 2, 4]
    assert pairs.predicted.dtype == np.float64
    assert pairs.predicted == pytest.approx([0, 0.1, 0.2, 0.4], abs=1e-7)
    assert pairs.of(0).items.tolist() == [0, 2, 4]
    assert pairs.of(0, unseen=True).items.tolist() == [0, 4]
    assert pairs.of(0, unseen=True).judged.tolist() == [0, 1]
