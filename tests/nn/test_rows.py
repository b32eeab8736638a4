"""Some rows of a state are those of each of its fields, but for what all rows share."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from depgen.nn.growing import Growing
from depgen.nn.rows import Rows


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
