"""Results as rows, and as a pandas table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

Row = dict[str, Any]
_Text = TypeVar("_Text", covariant=True)


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
class Results(Tabular, Generic[_Text]):
    """Results of several texts, in the order in which the texts were given.

    Attributes:
        texts: one result for each text.
    """

    texts: tuple[_Text, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[_Text]:
        return iter(self.texts)

    @overload
    def __getitem__(self, index: int) -> _Text: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[_Text]: ...

    def __getitem__(self, index: int | slice) -> _Text | Sequence[_Text]:
        return self.texts[index]
