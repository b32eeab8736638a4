"""Arc-standard actions against all projective trees."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from tests.models.projective_trees import all_beginnings, all_heads, is_projective_tree


@st.composite
def projective_trees(draw, most=14):
    """Heads of a random projective tree: a root, and random trees over the words at each of its sides."""

    def hang(first, stop, head, heads):
        while first < stop:  # dependents of `head` next to one another
            end = draw(st.integers(first + 1, stop))
            word = draw(st.integers(first, end - 1))
            heads[word] = head
            hang(first, word, word + 1, heads)
            hang(word + 1, end, word + 1, heads)
            first = end

    length = draw(st.integers(1, most))
    heads, root = [0] * length, draw(st.integers(0, length - 1))
    hang(0, root, root + 1, heads)
    hang(root + 1, length, root + 1, heads)
    return heads


@given(projective_trees())
def test_a_tree_comes_back_from_its_actions(heads):
    assert is_projective_tree(heads)
    actions = arc_actions(heads)
    assert [max(head, 0) for head in heads_of_actions(actions)] == heads
    assert are_built(heads, actions)
    assert actions.count(SHIFT) == len(heads)
    assert len(actions) == 2 * len(heads) - 1


@given(projective_trees(9))
def test_a_word_joins_its_head_once_it_has_all_its_dependents_and_left_ones_come_first(heads):
    stack, joined, read = [], [], 0
    for action in arc_actions(heads):
        if action == SHIFT:
            read += 1
            stack.append(read)
            continue
        dependent, head = (stack[-2], stack[-1]) if action == LEFT else (stack[-1], stack[-2])
        assert {word for word, above in enumerate(heads, start=1) if above == dependent} <= set(joined)
        if action == LEFT:
            assert not any(heads[word - 1] == head and word > head for word in joined)
        joined.append(dependent)
        stack.remove(dependent)


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
