"""Bands against the squares that they are cut from."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.nn.band import band_of_matrix, band_of_values, band_products, band_sums, matrix_of_band

SIZES = st.tuples(st.integers(1, 9), st.integers(0, 6), st.integers(1, 8))


def literal_band(matrix, window, missing):
    batch, length, context = matrix.shape
    band = torch.full((batch, length, window), missing, dtype=matrix.dtype)
    for t in range(length):
        for k in range(window):
            position = context - length + t - window + 1 + k
            if position >= 0:
                band[:, t, k] = matrix[:, t, position]
    return band


@settings(deadline=None)
@given(SIZES)
def test_products_are_the_band_of_the_square(sizes):
    length, more, window = sizes
    queries, keys = torch.randn(2, length, 3, dtype=torch.double), torch.randn(2, length + more, 3, dtype=torch.double)
    queries.requires_grad_()
    keys.requires_grad_()
    found, expected = band_products(queries, keys, window), literal_band(queries @ keys.mT, window, 0.0)
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(found)
    ours = torch.autograd.grad((found * weights).sum(), (queries, keys))
    theirs = torch.autograd.grad((expected * weights).sum(), (queries, keys))
    torch.testing.assert_close(ours, theirs)


@settings(deadline=None)
@given(SIZES)
def test_sums_are_those_over_the_square(sizes):
    length, more, window = sizes
    values, weights = torch.randn(2, length + more, 3).double(), torch.randn(2, length, window).double()
    square = matrix_of_band(weights, length + more, missing=0.0)
    torch.testing.assert_close(band_sums(weights, values), square @ values)


@settings(deadline=None)
@given(SIZES)
def test_values_matrices_and_back(sizes):
    length, more, window = sizes
    context = length + more
    values = torch.randn(2, context)
    rows = values[:, None].expand(2, length, context)
    torch.testing.assert_close(band_of_values(values, length, window, missing=-5.0), literal_band(rows, window, -5.0))
    matrix = torch.randn(2, length, context)
    band = band_of_matrix(matrix, window, missing=-7.0)
    torch.testing.assert_close(band, literal_band(matrix, window, -7.0))
    again = matrix_of_band(band, context, missing=0.0)
    far = torch.arange(length)[:, None] + more - torch.arange(context)
    torch.testing.assert_close(again, matrix.masked_fill((far < 0) | (far >= window), 0.0))


@pytest.mark.parametrize("window", [1, 16])
def test_memory_and_work_grow_with_the_window_not_with_the_square(window):
    """A band of 16 over 4,096 positions in much less than the square's 16.8 million entries."""
    queries = torch.randn(1, 4096, 2)
    with torch.profiler.profile(profile_memory=True) as profile:
        band_products(queries, queries, window)
    largest = max(event.cpu_memory_usage for event in profile.events())
    assert largest < 4096 * 4096
