"""The bootstrap of documents against all its outcomes, and what equal likelihoods are worth."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy import stats

from depgen.metrics import coherence
from depgen.metrics.coherence import credit, expected_distance, resampled_means

RAGGED = [np.array([1.0, 0.0, 0.5]), np.array([1.0]), np.array([0.0, 0.0, 0.0, 1.0])]


def test_a_choice_is_right_wrong_or_shared():
    scores = np.array([-3.0, -3.0, -5.0, -3.0])
    assert credit(scores) == pytest.approx(1 / 3)
    assert credit(scores[[2, 0]]) == 0
    assert credit(scores[[0, 2]]) == 1
    assert credit(np.array([-1e6, np.nextafter(-1e6, 0)])) == 0, "likelihoods are compared to the last bit"
    assert expected_distance(scores, np.array([0.0, 1.0, 2.0, 5.0])) == 2.0
    with pytest.raises(AssertionError):
        credit(np.array([np.nan, -1.0]))


def test_resampled_sets_have_the_distribution_of_all_draws():
    values = [np.array([1.0, 0.0]), np.array([0.25])]
    one = [each for own in values for each in np.repeat(own, 2 // len(own))]  # of equal probability
    expected = Counter(round(sum(draws) / 2, 6) for draws in product(one, repeat=2))
    resamples = 40_000
    found = Counter(resampled_means(values, resamples=resamples).round(6).tolist())
    assert found.keys() == expected.keys()
    chance = [expected[mean] / 16 * resamples for mean in expected]
    assert stats.chisquare([found[mean] for mean in expected], chance).pvalue > 1e-3


def test_draws_depend_on_the_seed_and_on_nothing_else(monkeypatch):
    found = resampled_means(RAGGED, seed=1)
    assert (found == resampled_means(RAGGED, seed=1)).all()
    assert (found != resampled_means(RAGGED, seed=2)).any()
    assert (found[:100] == resampled_means(RAGGED, resamples=100, seed=1)).all()
    monkeypatch.setattr(coherence, "_CHUNK", 7)
    assert (found == resampled_means(RAGGED, seed=1)).all()
