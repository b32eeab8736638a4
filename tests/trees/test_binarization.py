"""Lifted and binarised trees against slow versions that were written from the paper alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.errors import UserError
from depgen.trees.binarization import SUBWORD, binarized, depths, lifted, lossless_labels, restored_heads
from depgen.trees.pieces import piece_heads
from depgen.trees.tree_arrays import level_sizes, regular_trees
from tests import oracles_of_itexp as oracle
from tests.trees.trees import head_lists, projective_heads

SCHEMES = ["left-right", "inside-out", "none"]
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


@settings(deadline=None)  # the first call compiles
@given(head_lists(single_root=True, max_size=9))
def test_lifting_moves_the_shortest_crossed_arc_until_none_is_crossed(heads):
    found = lifted(heads).tolist()
    assert found == oracle.lifted(heads)
    assert oracle.is_tree(found)
    assert oracle.yield_of(oracle.node(found, found.index(0) + 1)) == [*range(1, len(heads) + 1)]


@settings(deadline=None)  # the first call compiles
@given(head_lists())
def test_a_lifted_forest_is_a_projective_tree_in_the_same_order(heads):
    found = lifted(heads).tolist()
    assert oracle.is_tree(found)
    assert not oracle.crossed(found)
    assert found.index(0) == heads.index(0), "the first root stays"
    one_root = with_one_root(heads)
    assert found == oracle.lifted(one_root)
    for word, head in enumerate(one_root, 1):  # an arc moves up its own path alone
        assert found[word - 1] in [head, *oracle.ancestors(one_root, head)] if head else not found[word - 1]


@settings(deadline=None)  # the first call compiles
@given(projective_heads())
def test_a_projective_tree_with_one_root_is_not_lifted(heads):
    assert not oracle.crossed(heads)
    assert lifted(heads).tolist() == heads


def test_trees_are_lifted_by_hand():
    assert lifted([3, 4, 0, 3]).tolist() == [3, 3, 0, 3]  # 2 <- 4 spans the root, so 2 hangs on 4's head
    assert lifted([0, 0, 2]).tolist() == [0, 1, 2]
    assert lifted([0]).tolist() == [0]
    assert lifted([5, 0, 1, 1, 2]).tolist() == [2, 0, 5, 5, 2]  # the arcs to 3, to 4, and to 1


# -- binarisation -----------------------------------------------------------------------------------------------------


@settings(deadline=None)  # the first call compiles
@given(projective_heads(), st.sampled_from(SCHEMES))
def test_binarised_trees_equal_the_recursive_ones(heads, scheme):
    found = binarized(heads, binarization=scheme).tolist()
    assert found == oracle.binarised(heads, scheme)
    assert oracle.is_tree(found)
    assert not oracle.crossed(found)
    if scheme != "none":
        assert max(sides(found)) <= 1
        assert binarized(found, binarization=scheme).tolist() == found
    moved = [word for word, (one, other) in enumerate(zip(found, heads, strict=True)) if one != other]
    assert all(sides(heads)[2 * heads[word] - 2 + (word + 1 > heads[word])] > 1 for word in moved), "an only dependent"


def test_the_tree_of_figure_1_changes_by_one_arc():
    heads, relations = oracle.LIKES["heads"], oracle.LIKES["relations"]
    found = binarized(heads).tolist()
    assert found == [2, 4, 2, 0, 4, 5]
    patterns = [oracle.pattern(found, relations, word) for word in range(1, 7)]
    nothing = ((), ())
    assert patterns == [
        nothing, (("poss",), ("advmod",)), nothing, (("nsubj",), ("xcomp",)), ((), ("dobj",)), nothing,
    ]  # fmt: skip
    assert depths(found).max() == 3
    assert depths(heads).max() == 3


def test_both_schemes_by_hand():
    heads = [4, 4, 4, 0, 4, 4, 4]
    assert binarized(heads).tolist() == [4, 1, 2, 0, 4, 5, 6]
    assert binarized(heads, binarization="inside-out").tolist() == [2, 3, 4, 0, 4, 5, 6]


@settings(deadline=None)  # the first call compiles
@given(head_lists())
def test_depths_count_the_words_up_to_a_root(heads):
    assert depths(heads).tolist() == [oracle.depth(heads, word) for word in range(1, len(heads) + 1)]


# -- pieces -----------------------------------------------------------------------------------------------------------


@settings(deadline=None)  # the first call compiles
@given(st.data(), projective_heads(max_size=8), st.sampled_from(SCHEMES))
def test_cutting_words_and_binarising_may_change_places(data, heads, scheme):
    relations = data.draw(st.lists(RELATIONS, min_size=len(heads), max_size=len(heads)))
    counts = data.draw(st.lists(st.integers(1, 3), min_size=len(heads), max_size=len(heads)))
    pieces = [[f"{word}.{part}" for part in range(count)] for word, count in enumerate(counts)]
    _, cut, labels = oracle.in_pieces(heads, relations, pieces)
    word_of_piece = [word for word, count in enumerate(counts) for _ in range(count)]
    assert piece_heads(heads, word_of_piece, left_dependents="first_piece") == cut
    first = binarized(heads, binarization=scheme).tolist()
    _, expected, expected_labels = oracle.in_pieces(first, relations, pieces)
    assert binarized(cut, binarization=scheme).tolist() == expected
    assert labels == expected_labels


def test_the_pieces_of_dog():
    pieces = [["my"], ["do@@", "g"], ["also"], ["likes"], ["eating"], ["sausage"]]
    found = binarized(oracle.LIKES["heads"]).tolist()
    texts, heads, labels = oracle.in_pieces(found, oracle.LIKES["relations"], pieces)
    assert texts[1:3] == ["do@@", "g"]
    assert oracle.pattern(heads, labels, 2) == (("poss",), ("subword",))
    assert oracle.pattern(heads, labels, 3) == ((), ("advmod",))


# -- labels that keep the tree ----------------------------------------------------------------------------------------


@settings(deadline=None)  # the first call compiles
@given(st.data(), projective_heads())
def test_lossless_labels_restore_the_tree(data, heads):
    relations = data.draw(st.lists(RELATIONS, min_size=len(heads), max_size=len(heads)))
    found = binarized(heads)
    labels = lossless_labels(heads, found, relations)
    steps = oracle.climbs(heads)
    assert labels == [
        name if climb is None else f"{name}^{climb}" for name, climb in zip(relations, steps, strict=True)
    ]
    restored, names = restored_heads(found, labels)
    assert (restored.tolist(), names) == (heads, relations)


@settings(deadline=None)  # the first call compiles
@given(st.data(), projective_heads())
def test_lossless_labels_of_pieces_are_those_of_their_words(data, heads):
    relations = ["root" if head == 0 else "dep" for head in heads]
    counts = data.draw(st.lists(st.integers(1, 3), min_size=len(heads), max_size=len(heads)))
    _, piece_heads, names = oracle.in_pieces(heads, relations, [["piece"] * count for count in counts])
    found = binarized(piece_heads)
    labels = lossless_labels(piece_heads, found, ["" if name == SUBWORD else name for name in names])
    assert list(filter(None, labels)) == lossless_labels(heads, binarized(heads), relations)
    restored, again = restored_heads(found, [label or SUBWORD for label in labels])
    assert (restored.tolist(), again) == (piece_heads, names)


@settings(deadline=None)  # the first call compiles
@given(st.data(), projective_heads())
def test_any_labels_restore_a_tree_or_are_refused(data, heads):
    found = binarized(heads)
    names = st.sampled_from(["amod", SUBWORD, "amod^0", "amod^1", "amod^2", "amod^x", "amod^-1", "amod^", "amod^²"])
    labels = data.draw(st.lists(names, min_size=len(heads), max_size=len(heads)))
    try:
        restored = restored_heads(found, labels)[0].tolist()
    except UserError:
        return
    assert oracle.is_tree(restored)


@pytest.mark.parametrize(
    ("heads", "labels"),
    [
        ([0, 1], ["root", "obj^0"]),
        ([0, 1], ["root^0", "obj"]),
        ([0, 1], ["root", "obj^1"]),
        ([2, 0], ["amod^0", "root"]),
        ([0, 1], ["a", "b^"]),
        ([0, 1], ["a", "b^x"]),
    ],
)
def test_labels_that_no_binarisation_gives_are_refused(heads, labels):
    with pytest.raises(UserError, match=r"word [12]: .*\^"):
        restored_heads(heads, labels)


# -- many trees at once -----------------------------------------------------------------------------------------------


@settings(deadline=None)  # the first call compiles
@given(st.lists(head_lists(max_size=7), min_size=1, max_size=5), st.sampled_from(SCHEMES))
def test_levels_of_many_trees_are_counted_at_once(trees, scheme):
    heads, offsets = np.concatenate(trees), np.cumsum([0, *map(len, trees)])
    found, needs = regular_trees(heads, offsets, scheme == "inside-out", scheme != "none")
    written = [binarized(lifted(each), binarization=scheme).tolist() for each in trees]
    depth = [[oracle.depth(each, word) for word in range(1, len(each) + 1)] for each in written]
    assert found.tolist() == [number for each in depth for number in each]
    crossing = [bool(oracle.crossed(with_one_root(each))) for each in trees]
    assert needs.tolist() == [(each.count(0) > 1) + 2 * many for each, many in zip(trees, crossing, strict=True)]
    firsts, down_to, at = level_sizes(found, offsets)
    assert firsts.tolist() == [0, *np.cumsum([max(each) for each in depth])]
    levels = [level for each in depth for level in [each] * max(each)]
    numbers = [number for each in depth for number in range(1, max(each) + 1)]
    assert at.tolist() == [each.count(number) for each, number in zip(levels, numbers, strict=True)]
    assert down_to.tolist() == [
        sum(one <= number for one in each) for each, number in zip(levels, numbers, strict=True)
    ]
