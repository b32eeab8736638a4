"""Binary trees against the constituents that they come from, and the best one against a search through all."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.decoding.binary_trees import NO_CONSTITUENT, best_binary_trees, chart_of, constituents_of
from depgen.trees.constituency import check_constituents
from tests.trees.trees import constituents


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


@given(st.data())
def test_a_chart_is_a_binary_tree_that_gives_the_constituents_back(data):
    length = data.draw(st.integers(1, 9))
    own = data.draw(constituents(length))
    chart = chart_of(own, length)
    assert constituents_of(chart) == own
    spans = {(start, end) for start, end, _ in chart}
    assert len(chart) == len(spans) == 2 * length - 1
    check_constituents([(start, end, label or "_") for start, end, label in chart], length, "here")
    for start, end in spans:
        if end - start > 1:
            assert any((start, cut) in spans and (cut, end) in spans for cut in range(start + 1, end))


def test_many_parts_are_made_binary_from_the_right():
    flat = [(0, 4, "S"), (0, 4, "VP"), (1, 2, "NP")]
    assert chart_of(flat, 4) == [
        (0, 4, "S VP"), (0, 1, ""), (1, 4, ""), (1, 2, "NP"), (2, 4, ""), (2, 3, ""), (3, 4, ""),
    ]  # fmt: skip
    assert chart_of([], 1) == [(0, 1, NO_CONSTITUENT)]
