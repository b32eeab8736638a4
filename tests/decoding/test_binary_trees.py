"""The best binary tree against a search through all of them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.decoding.binary_trees import best_binary_trees


def all_trees(start, end):
    """The spans of every binary tree over some words."""
    if end - start == 1:
        return [[(start, end)]]
    return [
        [(start, end), *left, *right]
        for cut in range(start + 1, end)
        for left in all_trees(start, cut)
        for right in all_trees(cut, end)
    ]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_no_tree_has_a_larger_sum(seed, lengths):
    places = max(lengths) + 1
    scores = np.random.default_rng(seed).normal(size=(len(lengths), places + 1, places + 1)).astype(np.float32)
    for own, length, found in zip(scores, lengths, best_binary_trees(scores, lengths), strict=True):
        trees = all_trees(0, length)
        sums = [sum(float(own[span]) for span in tree) for tree in trees]
        assert found in trees
        assert abs(sum(float(own[span]) for span in found) - max(sums)) < 1e-5
        assert found == sorted(found, key=lambda span: (span[0], -span[1]))


def test_of_equal_trees_the_leftmost_cuts():
    assert best_binary_trees(np.zeros((1, 4, 4)), [3]) == [[(0, 3), (0, 1), (1, 3), (1, 2), (2, 3)]]
