"""Eq. 2 by a literal loop, over windows and padding, and in pieces."""

import math

import pytest
import torch

from depgen.models.dmlm import QueryKeyAttention
from depgen.nn.band import matrix_of_band


def literal(attention, hidden, padding, window):
    """Weights of every position by the formula, one dot product at a time."""
    batch, length, width = hidden.shape
    weights = torch.zeros(batch, length, length, dtype=hidden.dtype)
    for row in range(batch):
        for t in range(length):
            seen = [
                tau
                for tau in range(t + 1)
                if tau == t or (not padding[row, tau] and (window is None or t - tau < window))
            ]
            query = attention.query.weight @ hidden[row, t] + attention.query.bias
            keys = [attention.key.weight @ hidden[row, tau] + attention.key.bias for tau in seen]
            exponentials = [math.exp((query @ key).item() / math.sqrt(width)) for key in keys]
            for tau, value in zip(seen, exponentials, strict=True):
                weights[row, t, tau] = value / sum(exponentials)
    return weights


def over_all(log_weights, window, context):
    """Weights over all positions."""
    return (log_weights if window is None else matrix_of_band(log_weights, context, missing=-math.inf)).exp()


@pytest.fixture
def attention():
    torch.manual_seed(0)
    module = QueryKeyAttention(4).double()
    torch.nn.init.normal_(module.query.bias)
    torch.nn.init.normal_(module.key.bias)
    return module


@pytest.mark.parametrize("window", [None, 1, 3])
def test_weights_are_those_of_eq_2(attention, window):
    hidden, padding = torch.randn(2, 6, 4).double() * 3, torch.zeros(2, 6, dtype=torch.bool)
    padding[1, :2] = True
    found, _ = attention(hidden, padding=padding, window=window)
    torch.testing.assert_close(over_all(found, window, 6), literal(attention, hidden, padding, window))


@pytest.mark.parametrize("window", [None, 1, 3])
def test_in_pieces_it_is_the_same(attention, window):
    hidden, padding = torch.randn(2, 7, 4).double(), torch.zeros(2, 7, dtype=torch.bool)
    padding[0, :3] = True
    whole, _ = attention(hidden, padding=padding, window=window)
    past = None
    for start, stop in ((0, 4), (4, 5), (5, 7)):
        part = slice(start, stop)
        found, past = attention(hidden[:, part], padding=padding[:, part], past=past, window=window)
        expected = over_all(whole, window, 7)[:, part, :stop]
        torch.testing.assert_close(over_all(found, window, stop), expected)


def test_a_window_keeps_no_more_keys_than_it_needs(attention):
    _, seen = attention(torch.randn(1, 9, 4).double(), window=2)
    assert len(seen.keys) == len(seen.padding) == 2
