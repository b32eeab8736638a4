"""Text files: what one holds by its name, its lines, and tables, with errors that name the file and the line."""

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

from depgen.errors import UserError, no_file

FileFormat = Literal["text", "conllu", "sdp", "jsonl", "csv", "tsv"]
_ENDINGS: dict[str, FileFormat] = {f".{each}": each for each in get_args(FileFormat) if each != "text"}
_UNREAD = frozenset({".conll", ".conllx", ".json", ".mrg", ".parquet", ".xls", ".xlsx"})
"""Endings of files that hold no plain text, and that no verb reads."""


def unpacked(path: Path) -> Path:
    """A file's path without the ending `.gz`.

    >>> unpacked(Path("pairs.tsv.gz")).name, unpacked(Path("pairs.tsv")).name
    ('pairs.tsv', 'pairs.tsv')
    """
    return path.with_suffix("") if path.suffix == ".gz" else path


def format_of(path: Path) -> FileFormat:
    """What a file holds by the ending of its name, `.gz` aside: text where the ending says nothing.

    >>> format_of(Path("stimuli.csv")), format_of(Path("graphs.sdp.gz")), format_of(Path("story.txt"))
    ('csv', 'sdp', 'text')
    """
    ending = unpacked(path).suffix.lower()
    if ending in _UNREAD:
        raise UserError(
            f"{path}: expected text, CoNLL-U (.conllu), SDP (.sdp), JSON lines (.jsonl) or a table (.csv, .tsv), found "
            f"the ending {ending}: convert the file, or name it as what it holds (.conllu, or .txt for plain text)."
        )
    return _ENDINGS.get(ending, "text")


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Line numbers, from 1, and lines without their ends; only `\n` and `\r\n` end a line, `.gz` is unpacked.

    Raises:
        UserError: the file is missing, empty, cut short (`.gz`), not UTF-8 or with a NUL (line and byte are named), or
            one whose lines all end in `\r`.
    """
    if not path.is_file():
        raise no_file(path)
    number, line = 0, ""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            for number, raw in enumerate(stream, start=1):
                line = _decode(raw, f"{path}:{number}", encoding="utf-8-sig" if number == 1 else "utf-8")
                yield number, line
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}:{number + 1}: damaged or cut short ({error}); copy the file again.") from error
    if number == 0:
        raise UserError(f"{path}: the file is empty; expected lines of text.")
    if number == 1 and "\r" in line:
        raise UserError(
            rf"{path}: expected lines that end in \n or \r\n, found ends of \r alone: convert them by tr '\r' '\n'."
        )


def _decode(raw: bytes, where: str, *, encoding: str) -> str:
    other = "utf-16" if raw[:1] in (b"\xff", b"\xfe") or b"\0" in raw else "latin1"
    try:
        line = raw.decode(encoding).rstrip("\r\n")
    except UnicodeDecodeError as error:
        byte, position = error.object[error.start], error.start + 1
    else:
        if "\0" not in line:
            return line
        byte, position = 0, raw.index(0) + 1
    raise UserError(
        f"{where}: expected UTF-8, found byte 0x{byte:02x} at byte {position} of the line; "
        f"convert the file, for instance by iconv -f {other} -t utf-8."
    )


Separator = Literal["comma", "tab", "tab_unquoted"]
"""Of cells; where they are `tab_unquoted`, all quote marks are text."""
_LONGEST = 2**31 - 1
"""Characters of a cell; Python's own limit is shorter than some documents."""


def read_columns(
    path: Path, *, separator: Separator, names: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number and cells by the names of the columns, of each row that is not blank; cells are stripped.

    A cell that begins with a quote mark ends with one, and those of the text in it are doubled, as pandas, R and
    spreadsheets write it.

    Args:
        path: the file; `.gz` is unpacked.
        separator: of the cells.
        names: of the first columns, where the file does not say them; none: its first line names all.

    Raises:
        UserError: it can't be read, columns of the same name, a row with fewer or more cells than there are columns, or
            quote marks that do not match.
    """
    names, more = list(names), bool(names)
    for line, cells in _rows(path, separator):
        if not any(cells) and len(cells) != 1:  # one empty cell in quote marks is a row
            continue
        if not names:
            names = cells
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise UserError(f"{path}:{line}: expected columns of different names, found {twice} twice: rename one.")
            continue
        if len(cells) < len(names) or (len(cells) > len(names) and not more):
            raise UserError(
                f"{path}:{line}: expected {len(names)} columns, found {len(cells)}: separate cells by a "
                f"{separator.removesuffix('_unquoted')}, and quote those that hold one."
            )
        yield line, dict(zip(names, cells, strict=False))
    if not names:
        raise UserError(f"{path}: expected the names of columns in the first line, found only blank lines.")


def _rows(path: Path, separator: Separator) -> Iterator[tuple[int, list[str]]]:
    """The number of the first line of each row, and its cells."""
    csv.field_size_limit(_LONGEST)
    reader = csv.reader(
        (f"{text}\n" for _, text in read_lines(path)),
        delimiter="," if separator == "comma" else "\t",
        quoting=csv.QUOTE_NONE if separator == "tab_unquoted" else csv.QUOTE_MINIMAL,
        strict=True,
    )
    line = 1
    try:
        for cells in reader:
            yield line, [cell.strip() for cell in cells]
            line = reader.line_num + 1
    except csv.Error as error:
        raise UserError(
            f"{path}:{line}: expected cells whose quote marks match, found others ({error}): write the cell in quote "
            "marks, with those of the text doubled."
        ) from error
