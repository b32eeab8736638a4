"""Stacks that grow in a batch, against the depths of `depgen.trees.attachments`."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from depgen.decoding.stack_state import StackState
from depgen.trees.attachments import depth_tape, spans_of

INFINITE = float("inf")


@st.composite
def texts(draw):
    """For each row: columns of padding before it, and the number of constituents that each token is joined with."""
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        size, joins = 0, []
        for _ in range(draw(st.integers(1, 7))):
            joins.append(draw(st.integers(0, size)))
            size += 1 - joins[-1]
        rows.append((draw(st.integers(0, 3)), joins))
    return rows


def attachments_by_steps(joins):
    """The attachments of tokens by a stack of last tokens."""
    stack, found = [], []
    for token, count in enumerate(joins):
        found.append(stack[-count] if count else token)
        del stack[len(stack) - count :]
        stack.append(token)
    return found, stack


@given(texts())
def test_stacks_of_a_batch_are_those_of_each_row(rows):
    width = max(left + 1 + len(joins) for left, joins in rows)
    state = StackState.empty(len(rows))
    for column in range(width):
        here = [column - left - 1 for left, _ in rows]  # -1 is the beginning of the text
        is_token = torch.tensor([-1 <= k < len(joins) for k, (_, joins) in zip(here, rows, strict=True)])
        joins = torch.tensor([joins[k] if 0 <= k < len(joins) else 0 for k, (_, joins) in zip(here, rows, strict=True)])
        attached = state.attached(joins)
        assert torch.equal(state.joins_of(attached), joins)
        state = state.pushed(joins, is_token)
        for row, (left, joins) in enumerate(rows):
            count = column - left
            if 0 < count <= len(joins):
                labels, stack = attachments_by_steps(joins[:count])
                label = labels[-1]
                assert attached[row] == (left + 1 + label if label < count - 1 else column)
                tape = depth_tape(labels)[-1].tolist()
                assert state.depths[row].tolist() == [0] * (left + 1) + tape
                last = {left, *(left + 1 + token for token in stack)}
                assert {*state.is_last[row].nonzero()[:, 0].tolist()} == last
                assert len(spans_of(labels)) == sum(joins[:count])


def test_scores_by_the_number_of_constituents():
    state = StackState.empty(2)
    for joins, is_token in (
        ([0, 0], [False, True]),
        ([0, 0], [True, True]),
        ([0, 0], [True, True]),
        ([0, 1], [True] * 2),
    ):
        state = state.pushed(torch.tensor(joins), torch.tensor(is_token))
    # the first row: padding, the beginning, a, b; the second: the beginning, a, (b c) after b has been joined
    assert state.is_last.tolist() == [[False, True, True, True], [True, True, False, True]]
    columns = torch.tensor([[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]])
    found = state.by_joins(columns, torch.tensor([8.0, 9.0]))
    assert found.tolist() == [[8.0, 3.0, 2.0, -INFINITE], [9.0, 7.0, 5.0, -INFINITE]]


def test_selected_rows_may_repeat():
    state = StackState.empty(2).pushed(torch.tensor([0, 0]), torch.tensor([True, True]))
    state = state.pushed(torch.tensor([0, 0]), torch.tensor([True, True])).select(torch.tensor([1, 1, 0]))
    state = state.pushed(torch.tensor([0, 1, 1]), torch.tensor([True, True, True]))
    assert state.depths.tolist() == [[0, 0, 0], [0, 1, 1], [0, 1, 1]]
