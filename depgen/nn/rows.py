"""States with a row for each text or hypothesis, of which some rows go on, and tensors that grow with the texts."""

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

State = TypeVar("State", bound="Rows")


@dataclass(frozen=True)
class Rows:
    """Base of states whose fields have a row for each text or hypothesis.

    A field is a tensor whose first axis is the rows, anything that has `select`, a tuple of such, or None.

    Attributes:
        shared: names of fields that are the same for all rows.
    """

    shared: ClassVar[frozenset[str]] = frozenset()

    def select(self: State, rows: Int[Tensor, " kept"]) -> State:
        """The state of some rows, in the order given; a row may be taken several times."""
        own = (field.name for field in fields(self) if field.name not in self.shared)
        return replace(self, **{name: selected(getattr(self, name), rows) for name in own})


def selected(value: Any, rows: Int[Tensor, " kept"]) -> Any:  # noqa: ANN401 - any field of `Rows`
    """Some rows of a field of a state; see `Rows`."""
    if isinstance(value, Tensor):
        return value.index_select(0, rows)
    if isinstance(value, tuple):
        parts = (selected(part, rows) for part in value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)  # a NamedTuple stays one
    return None if value is None else value.select(rows)


class _Room:
    """Memory that the tensors which grew from one another share; `used` counts what the longest of them has written."""

    def __init__(self, memory: Tensor, used: int) -> None:
        self.memory, self.used = memory, used


class Growing:
    """A tensor that grows along one axis, as caches do in decoding, without being copied each time.

    Behaves as a value: what is held does not change, and one tensor can be extended twice.

    Room is doubled when it runs out, so that extending costs O(new entries), amortised; so does keeping the `last` few.

    >>> once = Growing.of(torch.tensor([[1.0, 2.0]]), dim=1)
    >>> longer, other = once.extended(torch.tensor([[3.0]])), once.extended(torch.tensor([[4.0]]))
    >>> longer.tensor.tolist(), other.last(2).tensor.tolist()
    ([[1.0, 2.0, 3.0]], [[2.0, 4.0]])
    """

    def __init__(self, room: _Room, start: int, stop: int, dim: int) -> None:
        self._room, self._start, self._stop, self._dim = room, start, stop, dim

    @classmethod
    def of(cls, tensor: Tensor, *, dim: int) -> "Growing":
        """A tensor that may grow along `dim`; nothing is copied."""
        return cls(_Room(tensor, tensor.size(dim)), 0, tensor.size(dim), dim)

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def tensor(self) -> Tensor:
        """All entries held, a view."""
        return self._room.memory.narrow(self._dim, self._start, len(self))

    def extended(self, new: Tensor) -> "Growing":
        """These and further entries."""
        if torch.is_grad_enabled():  # a backward pass may need the old ones as they are
            return Growing.of(torch.cat((self.tensor, new), self._dim), dim=self._dim)
        added, room, start, stop = new.size(self._dim), self._room, self._start, self._stop
        frozen = room.memory.is_inference() and not torch.is_inference_mode_enabled()
        if room.used != stop or room.memory.size(self._dim) < stop + added or frozen:
            room = _Room(self._wider(max(len(self) + added, 2 * len(self))), len(self))
            start, stop = 0, len(self)
        room.memory.narrow(self._dim, stop, added).copy_(new)
        room.used = stop + added
        return Growing(room, start, room.used, self._dim)

    def last(self, count: int) -> "Growing":
        """The latest entries, at most `count`; the memory of the others is let go when room runs out."""
        return Growing(self._room, max(self._start, self._stop - count), self._stop, self._dim)

    def select(self, rows: Int[Tensor, " kept"]) -> "Growing":
        """Some rows of the first axis, with as much room as before."""
        return Growing(_Room(self._room.memory.index_select(0, rows), self._stop), self._start, self._stop, self._dim)

    def _wider(self, capacity: int) -> Tensor:
        shape = list(self._room.memory.shape)
        shape[self._dim] = capacity
        memory = self._room.memory.new_empty(shape)
        memory.narrow(self._dim, 0, len(self)).copy_(self.tensor)
        return memory
