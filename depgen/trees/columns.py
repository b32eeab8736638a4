"""Tables in text files whose first line names the columns, separated by commas (`.csv`) or by tabs (`.tsv`)."""

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from depgen.errors import UserError
from depgen.trees.lines import read_lines

Separator = Literal["comma", "tab", "tab_unquoted"]
"""Of cells; where they are `tab_unquoted`, all quote marks are text."""
Cells = tuple[int, list[str]]
"""The number of a line and its cells."""
_LONGEST = 2**31 - 1
"""Characters of a cell; Python's own limit is shorter than some documents."""
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
"""A cell in quote marks, in which each quote mark of the text is doubled."""


def read_columns(
    path: Path, *, separator: Separator, names: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number and cells by the names of the columns, of each row that is not blank; cells are stripped.

    Quote marks around a cell are no part of it, as in files that pandas, R and spreadsheets write. A `.tsv` whose cells
    are not quoted may have cells that begin with a quote mark of the text, such as `" Go , " she said .`.

    Args:
        path: the file; `.gz` is unpacked.
        separator: of the cells.
        names: of the first columns, where the file does not say them; none: its first line names all.

    Raises:
        UserError: it can't be read, columns of the same name, a row with fewer or more cells than there are columns, or
            quote marks that may or may not belong to the text.
    """
    if separator == "comma":
        rows, remedy = _of_commas(path), "commas, and quote cells that hold one"
    else:
        rows, remedy = _of_tabs(path, quotes=separator == "tab"), "tabs"
    names, more = list(names), bool(names)
    for line, cells in rows:
        if not any(cells) and len(cells) != 1:  # one empty cell in quote marks is a row
            continue
        if not names:
            names = cells
            if twice := next((each for each in names if names.count(each) > 1), None):
                raise UserError(f"{path}:{line}: expected columns of different names, found {twice} twice: rename one.")
            continue
        if len(cells) < len(names) or (len(cells) > len(names) and not more):
            raise UserError(
                f"{path}:{line}: expected {len(names)} columns, found {len(cells)}: separate them by {remedy}."
            )
        yield line, dict(zip(names, cells, strict=False))
    if not names:
        raise UserError(f"{path}: expected the names of columns in the first line, found only blank lines.")


def _of_commas(path: Path) -> Iterator[Cells]:
    csv.field_size_limit(_LONGEST)
    reader = csv.reader((f"{line}\n" for _, line in read_lines(path)), strict=True)
    line = 1
    try:
        for cells in reader:
            yield line, [cell.strip() for cell in cells]
            line = reader.line_num + 1
    except csv.Error as error:
        raise UserError(
            f"{path}:{line}: expected cells separated by commas, found quote marks that do not match ({error}): double "
            "each quote mark in a quoted cell."
        ) from error


def _of_tabs(path: Path, *, quotes: bool) -> Iterator[Cells]:
    rows = [
        (line, [cell.strip() for cell in text.split("\t")] if text.strip() else []) for line, text in read_lines(path)
    ]
    if quotes and _is_quoted(rows, path):
        for line, cells in rows:
            yield line, [_unquoted(cell) for cell in cells]
    else:
        yield from rows


def _is_quoted(rows: list[Cells], path: Path) -> bool:
    """Whether quote marks around cells are those of the file's format, and no words.

    Writers quote all cells, or those that hold a quote mark, which they double.

    Raises:
        UserError: both is possible.
    """
    begun = [(line, cell) for line, cells in rows for cell in cells if cell.startswith('"')]
    plain = [line for line, cell in begun if not _QUOTED.fullmatch(cell)]
    quoted = [line for line, cell in begun if _QUOTED.fullmatch(cell)]
    certain = [
        line
        for line, cell in begun
        if _QUOTED.fullmatch(cell) and (cell == '""' or '""' in cell[1:-1] or line == rows[0][0])
    ]
    if (plain and certain) or (quoted and not plain and not certain):
        where = plain[0] if plain else quoted[0]
        raise UserError(
            f"{path}:{where}: expected quote marks that belong to the text or that enclose cells, found marks that may "
            "be either: write all cells in quote marks, with those of the text doubled, or write JSON lines."
        )
    return bool(certain)


def _unquoted(cell: str) -> str:
    return cell[1:-1].replace('""', '"').strip() if _QUOTED.fullmatch(cell) else cell
