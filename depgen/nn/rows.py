"""States with a row for each text or hypothesis, of which some rows go on."""

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

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
