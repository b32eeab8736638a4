"""Results as rows, and as a pandas table."""

import csv
import json
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from depgen.errors import UserError
from depgen.locations import check_output, write_atomically

Row = dict[str, Any]
_Text = TypeVar("_Text", covariant=True)


class Tabular:
    """A result that is a table: column names and values, row by row."""

    def rows(self) -> list[Row]:
        """The rows of the table."""
        raise NotImplementedError(f"{type(self).__name__} has no rows")

    def columns(self) -> list[str] | None:
        """The names of the columns where there is no row; None: the table has none then."""
        return None

    def to_frame(self) -> Any:  # noqa: ANN401 - pandas is imported where it is used
        """The same rows as a `pandas.DataFrame`."""
        import pandas

        rows = self.rows()
        return pandas.DataFrame(rows, columns=None if rows else self.columns())


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


def check_table_output(output: Path | None, *, json: bool) -> None:
    """Raises UserError if a table can't be written to a file, or if the file's ending is of another format."""
    if output is None:
        return
    check_output(output)
    ending = output.suffix.lower()
    if json and ending in (".csv", ".tsv", ".conllu", ".sdp"):
        raise UserError(f"{output} is to hold JSON lines: expected an ending such as .jsonl, found {ending}.")
    if not json and ending in (".json", ".jsonl", ".conllu", ".sdp"):
        raise UserError(
            f"{output} is to hold a table: expected an ending such as .tsv or .csv, found {ending}. JSON lines are "
            "written with --json."
        )


def written_table(
    rows: Sequence[Row], *, output: Path | None, json: bool, digits: int = 6, as_given: Collection[str] = ()
) -> str | None:
    """The rows as text, or None once they are in the file: JSON lines, commas for `.csv`, else tabs."""
    separator = "," if output is not None and output.suffix.lower() == ".csv" else "\t"
    content = as_json_lines(rows) if json else as_columns(rows, digits=digits, separator=separator, as_given=as_given)
    if output is None:
        return content
    write_atomically(output, content)
    return None


def as_columns(rows: Sequence[Row], *, digits: int = 6, separator: str = "\t", as_given: Collection[str] = ()) -> str:
    r"""Rows as separated columns below their names; cells with a separator or a quote are quoted as in CSV.

    >>> as_columns([{"word": ",", "surprisal": 1.5, "rank": None}], digits=2, separator=",")
    'word,surprisal,rank\n",",1.50,\n'

    Args:
        rows: at least one; all have the same columns. None is an empty cell, a list or an object is JSON.
        digits: after the point of numbers that are not whole.
        separator: between columns.
        as_given: columns whose numbers are not rounded.
    """
    content = StringIO()
    writer = csv.writer(content, delimiter=separator, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows(
        [_cell(value, None if name in as_given else digits) for name, value in row.items()] for row in rows
    )
    return content.getvalue()


def _cell(value: Any, digits: int | None) -> str:  # noqa: ANN401
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and digits is not None:
        return f"{value + 0.0:.{digits}f}"
    return " ".join((json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)).split())


def as_json_lines(rows: Iterable[Row]) -> str:
    """A line a row, with `json_ready` values."""
    return "".join(f"{json.dumps(json_ready(row), ensure_ascii=False)}\n" for row in rows)


def json_ready(content: Any) -> Any:  # noqa: ANN401 - values of JSON
    """The content with null for what JSON has no word for: infinite or undefined numbers."""
    if isinstance(content, dict):
        return {name: json_ready(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [json_ready(each) for each in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
