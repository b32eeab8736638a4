"""Some rows of a state are those of its fields, but for what all rows share; a growing tensor stays as it was."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from depgen.nn.rows import Growing, Rows


class Cells(NamedTuple):
    hidden: Tensor
    cell: Tensor


@dataclass(frozen=True)
class Stack(Rows):
    depths: Tensor


@dataclass(frozen=True)
class State(Rows):
    shared: ClassVar[frozenset[str]] = frozenset({"table", "eos"})

    numbers: Tensor
    layers: tuple[Cells, ...]
    stack: Stack
    keys: Growing
    table: Tensor
    eos: int
    word: Any = None


@given(st.lists(st.integers(0, 4), max_size=7))
def test_rows_are_those_of_each_field(chosen):
    numbers = torch.arange(5)
    layers = tuple(Cells(numbers + 10 * layer, numbers[:, None].expand(-1, 3) * layer) for layer in (1, 2))
    table = torch.tensor([1.0])
    state = State(numbers, layers, Stack(numbers[:, None]), Growing.of(numbers[:, None], dim=1), table, 7)
    rows = state.select(torch.tensor(chosen, dtype=torch.long))
    assert rows.numbers.tolist() == chosen
    for layer, cells in enumerate(rows.layers, start=1):
        assert isinstance(cells, Cells)
        assert cells.hidden.tolist() == [row + 10 * layer for row in chosen]
        assert cells.cell.tolist() == [[row * layer] * 3 for row in chosen]
    assert rows.stack.depths[:, 0].tolist() == rows.keys.tensor[:, 0].tolist() == chosen
    assert rows.table is table
    assert (rows.eos, rows.word) == (7, None)
    assert type(rows) is State


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("gradients", [True, False])
def test_it_equals_concatenation_however_it_branches(dim, gradients):
    torch.manual_seed(0)
    parts = [torch.randn(2, 3, 3) for _ in range(6)]
    with torch.set_grad_enabled(gradients):
        states = [Growing.of(parts[0], dim=dim)]
        for part in parts[1:]:
            states.append(states[-1].extended(part))
        other = states[2].extended(parts[5])
        for length, state in enumerate(states, start=1):
            torch.testing.assert_close(state.tensor, torch.cat(parts[:length], dim))
        torch.testing.assert_close(other.tensor, torch.cat([*parts[:3], parts[5]], dim))


def test_rows_can_be_chosen_and_grow_on():
    first, new = torch.randn(3, 2, 4), torch.randn(2, 1, 4)
    with torch.no_grad():
        chosen = Growing.of(first, dim=1).select(torch.tensor([2, 0])).extended(new)
    torch.testing.assert_close(chosen.tensor, torch.cat([first[[2, 0]], new], 1))


@pytest.mark.parametrize("gradients", [True, False])
def test_the_last_few_are_kept_and_no_more_memory(gradients):
    parts = [torch.randn(2, 1, 3) for _ in range(40)]
    with torch.set_grad_enabled(gradients):
        window = Growing.of(parts[0], dim=1)
        for number, part in enumerate(parts[1:], start=2):
            window = window.extended(part).last(4)
            torch.testing.assert_close(window.tensor, torch.cat(parts[max(0, number - 4) : number], 1))
        earlier = window.extended(parts[0])
        window.extended(parts[1])
    torch.testing.assert_close(earlier.tensor, torch.cat([*parts[-4:], parts[0]], 1))
    assert earlier.tensor.untyped_storage().nbytes() <= 2 * 10 * 3 * 4
