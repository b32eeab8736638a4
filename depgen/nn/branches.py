"""Where the columns of hypotheses that share a past are stored.

Hypotheses of one text form a tree: most of their tokens are the same. What is kept for a token lies in one slot of a
pool, and each hypothesis has a row of slot numbers: choosing and repeating hypotheses copies these numbers alone.
Attention copies the keys and values of all hypotheses out of one layer's pool at a time. Attention over all slots of a
text at once, masked, took 0.99 to 1.09 times as long (GiLT and Pushdown, 20 and 60 hypotheses, on a CPU).
"""

import torch
from jaxtyping import Int
from torch import Tensor


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
