"""Attachments of binary bracketings, against trees of nltk and a stack that is moved step by step."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk import Tree

from depgen.errors import UserError
from depgen.trees.attachments import (
    attachments_of,
    binary_constituents,
    closed_at_the_end,
    depth_tape,
    with_words,
)
from tests.models.bracketings import spans_of


@st.composite
def bracketings(draw, *, largest=9):
    """Spans of a tree over some tokens, unary and n-ary constituents included, and the number of tokens."""
    length = draw(st.integers(1, largest))
    spans = []

    def split(start, end):
        spans.extend([(start, end)] * draw(st.integers(1, 2)))
        if end - start > 1:
            cuts = draw(st.sets(st.integers(start + 1, end - 1), min_size=1))
            bounds = [start, *sorted(cuts), end]
            for one, other in pairwise(bounds):
                if other - one > 1 or draw(st.booleans()):
                    split(one, other)

    split(0, length)
    return spans, length


def nltk_tree(spans, length):
    """The tree of distinct spans, whose leaves are the tokens' numbers."""
    spans = sorted(set(spans) | {(k, k + 1) for k in range(length)}, key=lambda span: (span[0], -span[1]))

    def build(span):
        inner = [each for each in spans if span[0] <= each[0] and each[1] <= span[1] and each != span]
        children = [each for each in inner if not any(o != each and o[0] <= each[0] <= each[1] <= o[1] for o in inner)]
        return Tree("X", [build(each) for each in children] if children else [str(span[0])])

    return build((0, length))


def spans_in(tree):
    """The spans of two leaves or more."""
    found = []

    def walk(node, start):
        if isinstance(node, str):
            return start + 1
        end = start
        for child in node:
            end = walk(child, end)
        found.append((start, end))
        return end

    walk(tree, 0)
    return sorted({span for span in found if span[1] - span[0] > 1})


@given(bracketings())
def test_a_bracketing_is_made_binary_as_by_nltk(case):
    spans, length = case
    tree = nltk_tree(spans, length)
    tree.chomsky_normal_form()
    found = binary_constituents([(*span, "label") for span in spans], length)
    assert found == spans_in(tree)
    assert len(found) == length - 1


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([(0, 2), (2, 4), (0, 4)], [0, 0, 2, 1]),
        ([(0, 4), (1, 4), (2, 4)], [0, 1, 2, 0]),
        ([(0, 2), (0, 3), (0, 4)], [0, 0, 1, 2]),
        ([(1, 3), (0, 3)], [0, 1, 0]),
        ([(1, 3)], [0, 1, 1]),
        ([], [0]),
    ],
)
def test_attachments_of_small_trees(spans, expected):
    assert attachments_of(spans, len(expected)) == expected
    assert spans_of(expected) == sorted(spans)


@given(bracketings())
def test_attachments_and_depths_are_those_of_a_binary_tree(case):
    spans, length = case
    binary = binary_constituents(spans, length)
    labels = attachments_of(binary, length)
    assert spans_of(labels) == binary
    tape = depth_tape(labels)
    for row, column in product(range(length), repeat=2):  # the spans that are closed and hold the token
        expected = sum(start <= column < end <= row + 1 for start, end in binary)
        assert tape[row, column] == expected


@given(bracketings(), st.integers(1, 9))
def test_the_beginning_of_a_tree_has_the_beginning_of_its_attachments(case, cut):
    spans, length = case
    cut = min(cut, length)
    binary = binary_constituents(spans, length)
    beginning = [span for span in binary if span[1] <= cut]
    labels = attachments_of(binary, length)[:cut]
    assert attachments_of(beginning, cut) == labels
    assert np.array_equal(depth_tape(labels), depth_tape(attachments_of(binary, length))[:cut, :cut])
    assert spans_of(labels) == sorted(beginning)
    closed = closed_at_the_end(beginning, cut)
    assert set(beginning) <= set(closed)
    assert len(closed) == cut - 1


def test_words_of_several_tokens_are_constituents():
    ends = np.array([False, False, True, True, False, True])
    spans = with_words([(0, 6), (3, 6)], ends)
    assert sorted(spans) == [(0, 3), (0, 6), (3, 6), (4, 6)]
    assert binary_constituents(spans, 6) == [(0, 3), (0, 6), (1, 3), (3, 6), (4, 6)]


def test_deep_trees_have_the_largest_depth():
    assert depth_tape([0, *range(299)])[-1, [0, 1, 299]].tolist() == [255, 255, 1]


def test_what_is_no_tree_is_refused():
    with pytest.raises(UserError, match=r"4 tokens, found \(3, 5\)"):
        binary_constituents([(3, 5)], 4)
    for spans in ([(0, 4), (1, 3), (2, 4)], [(0, 2), (1, 4)], [(0, 3), (2, 4)], [(1, 4), (0, 2)]):
        with pytest.raises(UserError, match="crosses"):
            binary_constituents(spans, 4)
