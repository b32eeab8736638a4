"""Hashed numbers: uniform, unrelated to their neighbours, and the same wherever they are asked for."""

import numpy as np
import pytest
import torch
from scipy import stats

from depgen.nn.hashing import hashed_uniform

PASSES, ITEMS, PLACES = 5, 400, 50


@pytest.fixture(scope="module")
def drawn():
    """[pass, item, place], as evaluation asks for them."""
    items, places = torch.arange(ITEMS)[:, None], torch.arange(PLACES)[None, :]
    return torch.stack([hashed_uniform(0, number, items, places) for number in range(PASSES)]).numpy()


def chained(*keys):
    """The same with Python's own whole numbers."""
    state = 0
    for key in keys:
        state = (state * 3 + key + 0x9E3779B97F4A7C15) % 2**64
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) % 2**64
        state ^= state >> 31
    return (state >> 11) / 2**53


def test_it_is_splitmix64_of_whole_numbers(drawn):
    """Its first output from state 0 as Vigna's reference prints it, and chains of several keys."""
    assert float(hashed_uniform(0)) == (0xE220A8397B1DCDAF >> 11) / 2**53
    for number, item, place in [(0, 0, 0), (4, 399, 49), (2, 17, 3), (1, 256, 31)]:
        assert drawn[number, item, place] == chained(0, number, item, place)


def test_uniform(drawn):
    assert 0 <= drawn.min() <= drawn.max() < 1
    for axes in [(), (0,), (1,), (2,)]:  # all together, each pass, each item, each place by itself
        parts = [drawn] if not axes else np.moveaxis(drawn, axes[0], 0)
        values = [stats.chisquare(np.histogram(part, bins=16, range=(0, 1))[0]).pvalue for part in parts]
        assert min(values) > 1e-3 / len(values)
        assert len(values) < 40 or stats.kstest(values, "uniform").pvalue > 1e-4
    assert stats.kstest(drawn.ravel(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["pass", "item", "place"])
@pytest.mark.parametrize("apart", [1, 2, 3])
def test_neighbours_are_not_correlated(drawn, axis, apart):
    rows = np.moveaxis(drawn, axis, 0)
    one, other = rows[:-apart].ravel(), rows[apart:].ravel()
    assert abs(np.corrcoef(one, other)[0, 1]) < 4 / one.size**0.5
    joint = np.histogram2d(one, other, bins=8, range=[(0, 1), (0, 1)])[0]
    assert stats.chisquare(joint.ravel()).pvalue > 1e-4
