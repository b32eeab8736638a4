"""Arc-standard actions against all projective trees."""

import pytest
from hypothesis import given

from depgen.trees.arc_standard import (
    LEFT,
    NO_HEAD,
    RIGHT,
    SHIFT,
    arc_actions,
    are_built,
    heads_of_actions,
    single_root,
)
from tests.models.projective_trees import all_beginnings, all_heads
from tests.trees.trees import projective_heads


@given(projective_heads(max_size=14))
def test_a_tree_comes_back_from_its_actions(heads):
    actions = arc_actions(heads)
    assert [max(head, 0) for head in heads_of_actions(actions)] == heads
    assert are_built(heads, actions)
    assert actions.count(SHIFT) == len(heads)
    assert len(actions) == 2 * len(heads) - 1


def sequences(length):
    """Every sequence that puts some words on a stack and joins them, a word's dependents on the left first."""
    found, begun = [], [([], [], 0)]
    while begun:
        actions, stack, read = begun.pop()
        if read == length:
            found.append(actions)
        else:
            begun.append(([*actions, SHIFT], [*stack, False], read + 1))
        if len(stack) > 1:
            if not stack[-1]:
                begun.append(([*actions, LEFT], [*stack[:-2], False], read))
            begun.append(([*actions, RIGHT], [*stack[:-2], True], read))
    return found


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_sequences_and_trees_are_as_many(length):
    made = [heads_of_actions(actions) for actions in sequences(length)]
    assert len({tuple(heads) for heads in made}) == len(made)
    whole = [[max(head, 0) for head in heads] for heads in made if heads.count(NO_HEAD) == 1]
    assert sorted(map(tuple, whole)) == sorted(all_heads(length))
    assert len(made) == len(all_beginnings(length))
    for actions, heads in zip(sequences(length), made, strict=True):  # also of words that wait for their heads
        assert arc_actions(heads) == actions


def test_arcs_that_cross_are_not_all_built():
    assert not are_built([3, 4, 0, 3], arc_actions([3, 4, 0, 3]))


def test_later_roots_depend_on_the_first():
    assert single_root([2, 0, 0, 3, 0]) == [2, 0, 2, 3, 2]
    assert single_root([2, NO_HEAD, NO_HEAD]) == [2, NO_HEAD, NO_HEAD]
    assert single_root([]) == []
    assert arc_actions([]) == heads_of_actions([]) == []
