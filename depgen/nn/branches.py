"""Where the columns of hypotheses that share a past are stored, and attention over such a past without copying it.

Hypotheses of one text form a tree: most of their tokens are the same. What is kept for a token lies in one slot of a
pool, and each hypothesis has a row of slot numbers: choosing and repeating hypotheses copies these numbers alone.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

NODES_PER_COLUMN = 24
"""The hypotheses of a text attend to all its slots at once, masked, while there are at most this many a column:
the products at slots that a hypothesis has not are then cheaper than a copy of each hypothesis's past. With copies
alone, small systems searched 1.05 (GiLT) to 1.07 times (Pushdown) as long, with 20 hypotheses on a CPU."""
COPIED_AT_ONCE = 1 << 20
"""Bytes of keys that are copied for some hypotheses at once on a CPU, so that the copy stays in its cache."""


@dataclass(frozen=True)
class Tree:
    """The hypotheses and slots of each text, as two grids that are padded to the most of any text.

    Attributes:
        text: of each row.
        place: of each row among those of its text.
        slots: of each text; 0 in the padding.
        node: the place of each row's columns among the slots of its text.
        rows: the most rows of a text.
    """

    text: Int[Tensor, " rows"]
    place: Int[Tensor, " rows"]
    slots: Int[Tensor, "texts nodes"]
    node: Int[Tensor, "rows context"]
    rows: int

    @property
    def is_narrow(self) -> bool:
        """Whether attention over all slots of a text is cheaper than over each row's own copy."""
        return self.slots.size(1) <= NODES_PER_COLUMN * self.node.size(1)

    def attend(
        self,
        queries: Float[Tensor, "rows attention_heads 1 size"],
        keys: Float[Tensor, "slots key_heads size"],
        values: Float[Tensor, "slots key_heads value_size"],
        *,
        mask: Bool[Tensor, "#rows 1 1 context"] | None,
        added: Tensor | None = None,
    ) -> Float[Tensor, "rows attention_heads 1 value_size"]:
        """Values of each row's own columns, mixed by the softmax of (queries·keys/√size + added).

        Several heads may share keys and values. `mask`: True at the columns that a row sees; None: at all. `added`:
        [rows attention_heads 1 context], or what is broadcast to it.
        """
        heads, of_row = queries.size(1), (self.text, self.place)
        added = None if added is None else added.to(queries.dtype)
        asking = queries.new_zeros(len(self.slots), self.rows, heads, queries.size(-1))
        asking[of_row] = queries[:, :, 0]
        shared = heads // keys.size(1)
        seen, mixed = (slots[self.slots].repeat_interleave(shared, 2).transpose(1, 2) for slots in (keys, values))
        found = F.scaled_dot_product_attention(asking.transpose(1, 2), seen, mixed, attn_mask=self._mask(mask, added))
        return found.transpose(1, 2)[of_row][:, :, None]

    def _mask(self, mask: Tensor | None, added: Tensor | None) -> Tensor:
        """What each row of a text adds to the scores of each slot of it: -inf or False at those that it has not."""
        (texts, nodes), (rows, context) = self.slots.shape, self.node.shape
        own = self.text[:, None], self.place[:, None], self.node
        visible = torch.zeros(texts, self.rows, nodes, dtype=torch.bool, device=self.slots.device)
        visible[own] = True if mask is None else mask[:, 0, 0].expand(rows, context)
        if added is None:
            return visible[:, None]
        heads = added.size(-3) if added.dim() > 2 else 1
        bias = added.new_zeros(texts, self.rows, nodes, heads)
        bias[own] = added.expand(rows, heads, 1, context)[:, :, 0].transpose(1, 2)
        return bias.masked_fill(~visible[..., None], -torch.inf).permute(0, 3, 1, 2)


def attend_by_rows(
    queries: Float[Tensor, "rows attention_heads 1 size"],
    keys: Float[Tensor, "slots key_heads size"],
    values: Float[Tensor, "slots key_heads value_size"],
    table: Int[Tensor, "rows context"],
    *,
    mask: Bool[Tensor, "#rows 1 1 context"] | None,
    added: Tensor | None = None,
) -> Float[Tensor, "rows attention_heads 1 value_size"]:
    """What `Tree.attend` returns, by copies of rows' columns, which `table` names: on a CPU of few rows at once."""
    (rows, context), heads = table.shape, queries.size(1)
    seen = None if mask is None else mask.expand(rows, 1, 1, context)
    if added is not None:
        added = added.to(queries.dtype).expand(rows, added.size(-3) if added.dim() > 2 else 1, 1, context)
        seen = added if seen is None else added.masked_fill(~seen, -torch.inf)
    a_row = context * keys[:1].numel() * keys.element_size()
    at_once = max(1, COPIED_AT_ONCE // a_row) if keys.device.type == "cpu" else rows
    found = []
    for first in range(0, rows, at_once):
        part = slice(first, first + at_once)
        own, past = (
            each[table[part]].repeat_interleave(heads // each.size(1), 2).transpose(1, 2) for each in (keys, values)
        )
        bias = None if seen is None else seen[part]
        found.append(F.scaled_dot_product_attention(queries[part], own, past, attn_mask=bias))
    return torch.cat(found)


class Places:
    """The slot of each column of each row. Behaves as a value; what layers derive from it alike is made once.

    >>> first = Places.of(2, 3, torch.tensor([1, 1]))
    >>> first.table.tolist(), first.extended(6, 1).table.tolist()
    ([[3, 4, 5], [3, 4, 5]], [[3, 4, 5, 6], [3, 4, 5, 7]])
    """

    def __init__(self, table: Int[Tensor, "rows context"]) -> None:
        self.table = table
        self._longer: tuple[int, int, Places] | None = None

    @classmethod
    def of(cls, rows: int, context: int, chosen: Int[Tensor, " kept"]) -> "Places":
        """The places of chosen rows of a pool that holds `rows` rows of `context` columns, one after the other."""
        slots = torch.arange(rows * context, device=chosen.device).view(rows, context)
        return cls(slots.index_select(0, chosen))

    def select(self, rows: Int[Tensor, " kept"]) -> "Places":
        """The places of some rows, in the order given."""
        return Places(self.table.index_select(0, rows))

    def extended(self, first: int, columns: int) -> "Places":
        """These and further columns, which lie from slot `first` on, a row's columns one after the other."""
        if self._longer is None or self._longer[:2] != (first, columns):
            rows = self.table.size(0)
            new = torch.arange(first, first + rows * columns, device=self.table.device).view(rows, columns)
            self._longer = first, columns, Places(torch.cat((self.table, new), 1))
        return self._longer[2]

    @cached_property
    def tree(self) -> Tree:
        """The rows and slots by text: rows of a text have the first slot in common."""
        roots, text = torch.unique(self.table[:, 0], return_inverse=True)
        slots, node = torch.unique(self.table, return_inverse=True)
        of_slot = torch.empty_like(slots)
        of_slot[node] = text[:, None].expand_as(node)
        place, rows = _places_within(text, len(roots))
        among, nodes = _places_within(of_slot, len(roots))
        grid = slots.new_zeros(len(roots), nodes)
        grid[of_slot, among] = slots
        return Tree(text, place, grid, among[node], rows)


def _places_within(group: Int[Tensor, " all"], groups: int) -> tuple[Int[Tensor, " all"], int]:
    """The place of each member in its group, in order, and the size of the largest group."""
    sizes = torch.bincount(group, minlength=groups)
    order = group.argsort(stable=True)
    place = torch.empty_like(group)
    place[order] = torch.arange(len(group), device=group.device) - (sizes.cumsum(0) - sizes)[group[order]]
    return place, int(sizes.max())
