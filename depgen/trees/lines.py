"""Lines of text files, with errors that name the file and the line."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from depgen.errors import UserError, no_file


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Line numbers, from 1, and lines without their ends; only `\n` and `\r\n` end a line, `.gz` is unpacked.

    Raises:
        UserError: the file is missing, a folder, empty, cut short (`.gz`), not UTF-8 or with a NUL (line and byte are
            named), one whose lines all end in `\r`, or may not be read.
    """
    if path.is_dir():
        raise UserError(f"{path}: expected a file, found a folder.")
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
    except OSError as error:
        raise UserError(f"{path} can't be read ({error.strerror or error}); change its rights.") from error
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
