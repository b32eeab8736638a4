"""Stacks of brackets, words and composed constituents that grow symbol by symbol, those of many hypotheses at once."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

from depgen.trees.tree_strings import NOTHING, WORD


@dataclass(frozen=True)
class BracketState:
    """The stack of each row, in columns as a network reads them (`depgen.trees.tree_strings.positions_of`).

    Column 0 is the beginning, at the bottom. Columns that rows have nothing in are on no stack.

    Attributes:
        depths: how many brackets are open around each column, its own included.
        on_stack: whether each column is on the stack.
        is_open: whether it is an opening bracket on the stack.
        labels: of opening brackets.
        seen: the columns that the last one attends to.
        openings: how many brackets were opened since the last word.
        symbols: those so far; `NOTHING` where a row had none.
    """

    depths: Int[Tensor, "rows columns"]
    on_stack: Bool[Tensor, "rows columns"]
    is_open: Bool[Tensor, "rows columns"]
    labels: Int[Tensor, "rows columns"]
    seen: Bool[Tensor, "rows columns"]
    openings: Int[Tensor, " rows"]
    symbols: Int[Tensor, "rows steps"]

    @classmethod
    def beginning(cls, rows: int, *, device: torch.device | str = "cpu") -> "BracketState":
        """The state of rows that hold the beginning alone."""
        zeros = torch.zeros(rows, 1, dtype=torch.long, device=device)
        return cls(zeros, zeros == 0, zeros > 0, zeros, zeros == 0, zeros[:, 0], zeros[:, :0])

    def select(self, rows: Int[Tensor, " kept"]) -> "BracketState":
        """The state of some rows, in the order given."""
        return BracketState(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    @property
    def open_brackets(self) -> Int[Tensor, " rows"]:
        """How many brackets are open."""
        return self.is_open.sum(1)

    @property
    def closable(self) -> Int[Tensor, " rows"]:
        """The label of the bracket that may be closed next, which has a word by now; `NOTHING` where none may."""
        innermost = _last(self.is_open)
        has_word = self.is_open.any(1) & (_last(self.on_stack) > innermost)
        return torch.where(has_word, self.labels.gather(1, innermost[:, None])[:, 0], NOTHING)

    @property
    def distances(self) -> Int[Tensor, "rows columns"]:
        """How much deeper the last column is than each."""
        return self.depths[:, -1:] - self.depths

    def composed(self, closes: Bool[Tensor, " rows"]) -> "BracketState":
        """The state with a column that composes the innermost constituent of some rows, and is nothing in others."""
        columns = torch.arange(self.depths.size(1), device=closes.device)
        taken = self.on_stack & (columns >= _last(self.is_open)[:, None]) & closes[:, None]
        return replace(
            self,
            depths=_with_column(self.depths, self.open_brackets * closes),
            on_stack=_with_column(self.on_stack & ~taken, closes),
            is_open=_with_column(self.is_open & ~taken, torch.zeros_like(closes)),
            labels=F.pad(self.labels, (0, 1)),
            seen=F.pad(taken, (0, 1), value=True),
        )

    def pushed(self, symbols: Int[Tensor, " rows"]) -> "BracketState":
        """The state with a column for the next symbol of each row; one that closes a bracket follows `composed`.

        Args:
            symbols: of each row; `NOTHING` for none.
        """
        is_symbol, opens = symbols > NOTHING, (symbols > WORD) & (symbols % 2 == 1)
        enters = opens | (symbols == WORD)
        return BracketState(
            depths=_with_column(self.depths, (self.open_brackets + 1) * is_symbol),
            on_stack=_with_column(self.on_stack, enters),
            is_open=_with_column(self.is_open, opens),
            labels=_with_column(self.labels, (symbols - 1) // 2 * opens),
            seen=F.pad(self.on_stack & is_symbol[:, None], (0, 1), value=True),
            openings=(self.openings + opens.long()) * (symbols != WORD),
            symbols=_with_column(self.symbols, symbols),
        )

    def compacted(self) -> tuple["BracketState", Int[Tensor, "rows kept"]]:
        """A first column that holds nothing, and the columns on stacks alone; and which these are."""
        most = int(self.on_stack.sum(1).max())
        kept = self.on_stack.int().argsort(dim=1, descending=True, stable=True)[:, :most]
        names = ("depths", "on_stack", "is_open", "labels", "seen")
        return replace(self, **{name: F.pad(getattr(self, name).gather(1, kept), (1, 0)) for name in names}), kept


def _last(where: Bool[Tensor, "rows columns"]) -> Int[Tensor, " rows"]:
    """The last column of each row that is True; the last of all where none is."""
    return where.size(1) - 1 - where.flip(1).int().argmax(1)


def _with_column(columns: Tensor, column: Tensor) -> Tensor:
    return torch.cat((columns, column[:, None]), 1)
