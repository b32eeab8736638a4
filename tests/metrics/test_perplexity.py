import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.metrics.perplexity import perplexity


@given(st.lists(st.floats(-30.0, 0.0), min_size=1, max_size=40))
def test_is_the_inverse_geometric_mean_of_the_probabilities(log_probs):
    oracle = math.prod(math.exp(value) ** (-1.0 / len(log_probs)) for value in log_probs)
    assert perplexity(-sum(log_probs), len(log_probs)) == pytest.approx(oracle, rel=1e-9)


def test_extremes():
    assert perplexity(110.0, 1) == pytest.approx(math.exp(110.0))
    assert perplexity(1e4, 1) == math.inf
    assert math.isnan(perplexity(0.0, 0))
