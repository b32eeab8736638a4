"""Stacks of constituents that grow token by token, those of many hypotheses at once."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class StackState:
    """The stack of each row, and how often each token has been joined with others (`depgen.trees.attachments`).

    The first token lies at the bottom and is joined with nothing: it is the beginning of the text.

    Attributes:
        depths: of each token.
        is_last: True at the last token of each constituent on the stack.
        joins: with how many constituents each token was joined when it came.
    """

    depths: Int[Tensor, "rows tokens"]
    is_last: Bool[Tensor, "rows tokens"]
    joins: Int[Tensor, "rows tokens"]

    @classmethod
    def empty(cls, rows: int, *, device: torch.device | str = "cpu") -> "StackState":
        """Stacks without tokens."""
        depths = torch.zeros(rows, 0, dtype=torch.long, device=device)
        return cls(depths, depths.bool(), depths)

    def select(self, rows: Int[Tensor, " kept"]) -> "StackState":
        """The stacks of some rows, in the order given."""
        return StackState(self.depths[rows], self.is_last[rows], self.joins[rows])

    @property
    def places(self) -> Int[Tensor, "rows tokens"]:
        """The place of each token's constituent on the stack, 1 on top; 0 at padding that follows all tokens."""
        return self.is_last.flip(1).cumsum(1).flip(1)

    def pushed(self, joins: Int[Tensor, " rows"], is_token: Bool[Tensor, " rows"]) -> "StackState":
        """The stacks with one more token, which is then joined with the constituents on top, one by one.

        Args:
            joins: with how many; 0 at padding.
            is_token: False at rows whose new column is padding.
        """
        places = self.places
        more = (joins[:, None] + 1 - places).clamp_min(0) * (places > 0)
        is_last = self.is_last & (places > joins[:, None])
        new = ((self.depths + more, joins), (is_last, is_token), (self.joins, joins))
        return StackState(*(torch.cat((before, each[:, None]), 1) for before, each in new))

    def joins_of(self, attachments: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
        """With how many constituents the next token is joined, from the column that it is attached to; 0 for its own.

        Args:
            attachments: the last column of a constituent, or one that follows all columns.
        """
        return F.pad(self.places, (0, 1)).gather(1, attachments.clamp_max(self.depths.size(1))[:, None])[:, 0]

    def attached(self, joins: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
        """The column that the next token is attached to: the reverse of `joins_of`."""
        is_there = F.pad(self.is_last & (self.places == joins[:, None]), (0, 1), value=True)
        return is_there.int().argmax(1)

    def by_joins(
        self, columns: Float[Tensor, "rows tokens"], own: Float[Tensor, " rows"]
    ) -> Float[Tensor, "rows tokens"]:
        """Scores of joining the next token with 0, 1, 2 … constituents; -inf for more than there are.

        Args:
            columns: of attaching it to each column.
            own: of joining it with none.
        """
        places, count = self.places, self.depths.size(1)
        index = places.where(self.is_last & (places < places[:, :1]), count)
        scores = columns.new_full((columns.size(0), count + 1), -torch.inf).scatter(1, index, columns)
        return torch.cat((own[:, None], scores[:, 1:count]), 1)
