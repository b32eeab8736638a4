"""Lifted and binarised trees against slow versions that were written from the paper alone."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from depgen.trees.binarization import binary_dependencies, depths, lifted, numbered_through
from depgen.trees.pieces import piece_heads
from tests import oracles_of_itexp as oracle
from tests.trees.trees import head_lists, projective_heads

SCHEMES = ["left-right", "none"]
RELATIONS = st.sampled_from(["nsubj", "obj", "amod", "det"])


def sides(heads):
    """The numbers of dependents of each word at each side."""
    return [
        sum(other == word and (dependent > word) == right for dependent, other in enumerate(heads, 1))
        for word in range(1, len(heads) + 1)
        for right in (False, True)
    ]


def with_one_root(heads):
    """The tree whose other roots depend on the first."""
    root = heads.index(0) + 1
    return [head if head or word == root else root for word, head in enumerate(heads, 1)]


# -- lifting ----------------------------------------------------------------------------------------------------------


@given(head_lists())
def test_lifting_moves_the_shortest_crossed_arc_until_none_is_crossed(heads):
    found = lifted(heads).tolist()
    assert oracle.is_tree(found)
    assert oracle.yield_of(oracle.node(found, found.index(0) + 1)) == [*range(1, len(heads) + 1)]
    assert oracle.crossed(heads) or heads.count(0) > 1 or found == heads
    assert found.index(0) == heads.index(0), "the first root stays"
    one_root = with_one_root(heads)
    assert found == oracle.lifted(one_root)
    for word, head in enumerate(one_root, 1):  # an arc moves up its own path alone
        assert found[word - 1] in [head, *oracle.ancestors(one_root, head)] if head else not found[word - 1]


def test_trees_are_lifted_by_hand():
    assert lifted([3, 4, 0, 3]).tolist() == [3, 3, 0, 3]  # 2 <- 4 spans the root, so 2 hangs on 4's head
    assert lifted([0, 0, 2]).tolist() == [0, 1, 2]
    assert lifted([0]).tolist() == [0]
    assert lifted([5, 0, 1, 1, 2]).tolist() == [2, 0, 5, 5, 2]  # the arcs to 3, to 4, and to 1


# -- binarisation -----------------------------------------------------------------------------------------------------


@given(projective_heads(), st.sampled_from(SCHEMES))
def test_binarised_trees_equal_the_recursive_ones(heads, scheme):
    found = binary_dependencies(heads, binarization=scheme).tolist()
    assert found == oracle.binarised(heads, scheme)
    assert oracle.is_tree(found)
    assert not oracle.crossed(found)
    if scheme != "none":
        assert max(sides(found)) <= 1
        assert binary_dependencies(found, binarization=scheme).tolist() == found
    moved = [word for word, (one, other) in enumerate(zip(found, heads, strict=True)) if one != other]
    assert all(sides(heads)[2 * heads[word] - 2 + (word + 1 > heads[word])] > 1 for word in moved), "an only dependent"


def test_the_tree_of_figure_1_changes_by_one_arc():
    heads, relations = oracle.LIKES["heads"], oracle.LIKES["relations"]
    found = binary_dependencies(heads).tolist()
    assert found == [2, 4, 2, 0, 4, 5]
    patterns = [oracle.pattern(found, relations, word) for word in range(1, 7)]
    nothing = ((), ())
    assert patterns == [
        nothing, (("poss",), ("advmod",)), nothing, (("nsubj",), ("xcomp",)), ((), ("dobj",)), nothing,
    ]  # fmt: skip
    assert depths(found).max() == 3
    assert depths(heads).max() == 3


def test_a_tree_is_binarised_by_hand():
    assert binary_dependencies([4, 4, 4, 0, 4, 4, 4]).tolist() == [4, 1, 2, 0, 4, 5, 6]


@given(head_lists())
def test_depths_count_the_words_up_to_a_root(heads):
    assert depths(heads).tolist() == [oracle.depth(heads, word) for word in range(1, len(heads) + 1)]


# -- pieces -----------------------------------------------------------------------------------------------------------


@given(st.data(), projective_heads(max_size=8), st.sampled_from(SCHEMES))
def test_cutting_words_and_binarising_may_change_places(data, heads, scheme):
    relations = data.draw(st.lists(RELATIONS, min_size=len(heads), max_size=len(heads)))
    counts = data.draw(st.lists(st.integers(1, 3), min_size=len(heads), max_size=len(heads)))
    pieces = [[f"{word}.{part}" for part in range(count)] for word, count in enumerate(counts)]
    _, cut, labels = oracle.in_pieces(heads, relations, pieces)
    word_of_piece = [word for word, count in enumerate(counts) for _ in range(count)]
    assert piece_heads(heads, word_of_piece, left_dependents="first_piece") == cut
    first = binary_dependencies(heads, binarization=scheme).tolist()
    _, expected, expected_labels = oracle.in_pieces(first, relations, pieces)
    assert binary_dependencies(cut, binarization=scheme).tolist() == expected
    assert labels == expected_labels


# -- many trees at once -----------------------------------------------------------------------------------------------


@given(st.lists(head_lists(max_size=7), min_size=1, max_size=5), st.sampled_from(SCHEMES))
def test_many_trees_are_lifted_and_binarised_as_each(trees, scheme):
    starts = np.cumsum([0, *map(len, trees)])[:-1]
    found = binary_dependencies(lifted(numbered_through(np.concatenate(trees), starts), starts), binarization=scheme)
    each = [oracle.binarised(oracle.lifted(with_one_root(heads)), scheme) for heads in trees]
    assert found.tolist() == numbered_through(np.concatenate(each), starts).tolist()
    expected = [oracle.depth(heads, word) for heads in each for word in range(1, len(heads) + 1)]
    assert depths(found).tolist() == expected
