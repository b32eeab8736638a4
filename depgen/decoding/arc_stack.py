"""The stacks of hypotheses that build dependency trees by arc-standard actions, many at once.

Each hypothesis is a string of columns, of which those on its stack are seen by later ones. A word has a column for each
of its tokens, or one once it has dependents. At the bottom lies the beginning of the text.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

from depgen.nn.stack_attention import FARTHEST, NEAREST, StackAttention
from depgen.trees.arc_standard import LEFT, RIGHT, ROOT, SHIFT

WAIT = -1
"""No action."""


@dataclass(frozen=True)
class ArcStack:
    """The stack of each row.

    Attributes:
        heights: of the word that each column belongs to, 1 for the lowest word, 0 for the beginning; -1: not on it.
        words: number of words on the stack.
        last: the last token of the word that each place of the stack holds.
        has_right: whether that word has dependents on its right.
        actions: those taken so far, `WAIT` in between.
        arcs: number of arcs since the last token.
    """

    heights: Int[Tensor, "rows columns"]
    words: Int[Tensor, " rows"]
    last: Int[Tensor, "rows places"]
    has_right: Bool[Tensor, "rows places"]
    actions: Int[Tensor, "rows steps"]
    arcs: Int[Tensor, " rows"]

    @classmethod
    def empty(cls, rows: int, *, device: torch.device | str = "cpu") -> "ArcStack":
        """Stacks without columns, to which the beginning is the first to come."""
        none = torch.zeros(rows, 0, dtype=torch.long, device=device)
        nothing = none.new_zeros(rows)
        return cls(none, nothing - 1, none, none.bool(), none, nothing)

    def select(self, rows: Int[Tensor, " kept"]) -> "ArcStack":
        """The stacks of some rows, in the order given."""
        return ArcStack(*(each[rows] for each in vars(self).values()))

    @property
    def may_join(self) -> Bool[Tensor, "rows 2"]:
        """Whether `LEFT` and `RIGHT` are possible; a word takes its dependents on the left first."""
        two = self.words > 1
        if not bool(two.any()):
            return two[:, None].expand(-1, 2)
        return torch.stack((two & ~self.has_right.gather(1, self.words[:, None].clamp_min(0))[:, 0], two), 1)

    @property
    def live_columns(self) -> Int[Tensor, "rows kept"]:
        """The columns on each stack, and others after them where other rows have more."""
        dead = self.heights < 0
        most = int((~dead).sum(1).max()) if dead.numel() else 0
        return dead.int().argsort(dim=1, stable=True)[:, :most]

    @property
    def may_end(self) -> Bool[Tensor, " rows"]:
        """Whether one word at most is on the stack."""
        return self.words <= 1

    def composing(self, actions: Int[Tensor, " rows"]) -> tuple[StackAttention, Int[Tensor, " rows"], "ArcStack"]:
        """A new column for arcs and `ROOT`: what it sees, the last token of the head, and the stack with it.

        Args:
            actions: of each row; the column is padding where it is no arc and not `ROOT`.
        """
        joins, is_left = (actions == LEFT) | (actions == RIGHT) | (actions == ROOT), actions == LEFT
        top, below = self.words.clamp_min(0), (self.words - 1).clamp_min(0)
        head, dependent = torch.where(is_left, top, below), torch.where(is_left, below, top)
        visible = joins[:, None] & (self.heights >= below[:, None])
        is_dependent = (self.heights == dependent[:, None]) & (head != dependent)[:, None]
        last = self.last.gather(1, head[:, None])[:, 0]
        heights = F.pad(self.heights.masked_fill(visible, -1), (0, 1), value=-1)
        heights[:, -1] = torch.where(joins, below, -1)
        here = F.one_hot(below, self.last.size(1)).bool() & joins[:, None]
        stack = replace(
            self, heights=heights, words=torch.where(joins, below, self.words),
            last=torch.where(here, last[:, None], self.last),
            has_right=torch.where(here, (actions == RIGHT)[:, None], self.has_right), arcs=self.arcs + joins,
        )  # fmt: skip
        distances = F.pad(is_dependent, (0, 1))[:, None] * NEAREST
        return StackAttention(with_itself(visible), distances), last, stack

    def stacking(
        self, actions: Int[Tensor, " rows"], tokens: Int[Tensor, " rows"], opens: Bool[Tensor, " rows"]
    ) -> tuple[StackAttention, "ArcStack"]:
        """A new column for the second copies of arcs, which are not put on the stack, and for tokens, which are.

        Args:
            actions: of each row; the column is padding at `WAIT` and `ROOT`.
            tokens: where the action is `SHIFT`.
            opens: whether each token begins a word; the others belong to the word on top.
        """
        pushes, is_column = actions == SHIFT, (actions != WAIT) & (actions != ROOT)
        words = self.words + (pushes & opens)
        last, has_right = self.last, self.has_right
        if bool((words >= last.size(1)).any()):
            last, has_right = F.pad(last, (0, 1)), F.pad(has_right, (0, 1))
        here = F.one_hot(words.clamp_min(0), last.size(1)).bool() & pushes[:, None]
        heights = F.pad(self.heights, (0, 1))
        heights[:, -1] = torch.where(pushes, words, -1)
        visible, distances = (self.heights >= 0) & is_column[:, None], words[:, None] - self.heights
        attention = StackAttention(with_itself(visible), F.pad(distances, (0, 1))[:, None].clamp(NEAREST, FARTHEST))
        return attention, replace(
            self, heights=heights, words=words, last=torch.where(here, tokens[:, None], last),
            has_right=has_right & ~(here & opens[:, None]), arcs=self.arcs.masked_fill(pushes, 0),
        )  # fmt: skip

    def recorded(self, actions: Int[Tensor, " rows"], opens: Bool[Tensor, " rows"]) -> "ArcStack":
        """The same, with one more action a row; a token that begins no word is none."""
        action = torch.where((actions == ROOT) | ((actions == SHIFT) & ~opens), WAIT, actions)
        return replace(self, actions=torch.cat((self.actions, action[:, None]), 1))


def with_itself(visible: Bool[Tensor, "rows columns"]) -> Bool[Tensor, "rows 1 columns+1"]:
    """What a new column sees of those before it, and itself."""
    return F.pad(visible, (0, 1), value=True)[:, None]
