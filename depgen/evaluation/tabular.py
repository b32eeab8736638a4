"""Results as rows, and as a pandas table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

Row = dict[str, Any]
_Item = TypeVar("_Item", bound="Tabular")


class Tabular:
    """A result that is a table: column names and values, row by row."""

    def rows(self) -> list[Row]:
        """The rows of the table."""
        raise NotImplementedError(f"{type(self).__name__} has no rows")

    def to_frame(self) -> Any:  # noqa: ANN401 - pandas is imported where it is used
        """The same rows as a `pandas.DataFrame`."""
        import pandas

        return pandas.DataFrame(self.rows())


@dataclass(frozen=True)
class Results(Tabular, Generic[_Item]):
    """Results of several texts, in the order in which the texts were given.

    Attributes:
        items: one result for each text.
    """

    items: tuple[_Item, ...]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[_Item]:
        return iter(self.items)

    @overload
    def __getitem__(self, index: int) -> _Item: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[_Item]: ...

    def __getitem__(self, index: int | slice) -> _Item | Sequence[_Item]:
        return self.items[index]

    def rows(self) -> list[Row]:
        """The rows of all texts; `text` counts the texts from 1."""
        return [{"text": number, **row} for number, item in enumerate(self.items, start=1) for row in item.rows()]
