"""Results as rows, and as a pandas table."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
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


def as_columns(rows: Sequence[Row], *, digits: int = 6) -> str:
    """Rows as tab-separated columns below their names; None is an empty cell."""
    lines = ["\t".join(rows[0]), *("\t".join(_cell(each, digits) for each in row.values()) for row in rows)]
    return "".join(f"{line}\n" for line in lines)


def _cell(value: str | int | float | None, digits: int) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    return f"{value + 0.0:.{digits}f}" if isinstance(value, float) else " ".join(str(value).split())


def as_json_lines(rows: Iterable[Row]) -> str:
    """A line a row; JSON has no word for an infinite number, which becomes null."""
    finite = ({name: _finite(value) for name, value in row.items()} for row in rows)
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in finite)


def _finite(value: Any) -> Any:  # noqa: ANN401
    return None if isinstance(value, float) and not math.isfinite(value) else value
