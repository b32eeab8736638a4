"""The texts of a file of generated texts, references or prompts, whatever its format."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from depgen.errors import UserError
from depgen.locations import json_value
from depgen.trees.conllu import read_blocks
from depgen.trees.sdp import read_sdp_blocks
from depgen.trees.text_files import format_of, read_columns, read_lines

TEXT = ("text", "sentence")
"""What the column or field of texts is called."""
PROMPT = ("prompt", *TEXT)
"""The same of prompts; `depgen generate --json` writes both."""


def read_file_texts(path: Path, names: Sequence[str] = TEXT) -> list[str]:
    """The texts of a file, empty ones included; see `numbered_texts`.

    Raises:
        UserError: the file can't be read, or not as the ending of its name says.
    """
    return [text for _, text in numbered_texts(path, names)]


def numbered_texts(path: Path, names: Sequence[str] = TEXT) -> Iterator[tuple[int, str]]:
    """Line number and text of each text of a file.

    A line is a text; in JSON lines a field, of which a list of sentences is one text; in tables (`.csv`, `.tsv`) a
    cell; in CoNLL-U and SDP the words of a sentence.

    Args:
        path: its format is that of its name: see `depgen.trees.text_files`. `.gz` is unpacked.
        names: of the field or column; the first that is there is read.

    Raises:
        UserError: the file can't be read, or not as the ending of its name says; a field or column is missing.
    """
    found = format_of(path)
    if found == "text":
        yield from read_lines(path)
    elif found == "conllu":
        yield from ((block.numbers[0], " ".join(block.bare_sentence("xpos").words)) for block in read_blocks(path))
    elif found == "sdp":
        yield from ((block.numbers[0], " ".join(block.bare_sentence().words)) for block in read_sdp_blocks(path))
    elif found == "jsonl":
        for line, content in read_lines(path):
            if content.strip():
                where = f"{path}:{line}"
                value = field_of(json_value(content, where), names, where, kind="field")
                yield line, _joined(value, where)
    else:
        for line, row in read_columns(path, separator="tab" if found == "tsv" else "comma"):
            yield line, field_of(row, names, f"{path}:{line}", kind="column")


def field_of(row: Any, names: Sequence[str], where: str, *, kind: str) -> Any:  # noqa: ANN401 - values of JSON
    """What a row holds under the first of these names that it has.

    Raises:
        UserError: it has none, or is no row.
    """
    if not isinstance(row, Mapping):
        raise UserError(f"{where}: expected a JSON object, found a {type(row).__name__}.")
    name = next((each for each in names if each in row), None)
    if name is None:
        raise UserError(
            f"{where}: expected a {kind} {' or '.join(names)}, found {', '.join(row) or 'none'}: rename the {kind} of "
            "the texts, or write plain text, one a line, into a .txt file."
        )
    return row[name]


def _joined(value: object, where: str) -> str:
    """A text of JSON, which may be a list of sentences."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return " ".join(value)
    if not isinstance(value, str):
        raise UserError(f"{where}: expected a text or a list of sentences, found {value!r:.40}.")
    return value
