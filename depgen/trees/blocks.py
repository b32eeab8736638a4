"""What CoNLL-U and SDP files share: a word a line, in columns between tabs, and a blank line after a sentence."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from depgen.errors import UserError
from depgen.trees.text_files import read_lines


@dataclass
class Block:
    """The lines of one sentence.

    Attributes:
        path: the file.
        name: what identifiers call the file.
        lines: number and text of each, without the blank one after them.
        numbers: the line number of each word.
        words: the columns of each word.
    """

    path: Path
    name: str
    lines: Sequence[tuple[int, str]]
    numbers: list[int] = field(default_factory=list)
    words: list[list[str]] = field(default_factory=list)

    @property
    def comments(self) -> list[tuple[int, str]]:
        """Number and text of each line that begins with `#`."""
        return [(number, line) for number, line in self.lines if line.startswith("#")]

    @property
    def place(self) -> str:
        """Its identifier where it has none: the file's name and the line of the first word."""
        return f"{self.name}:{self.numbers[0]}"

    def where(self, token: int) -> str:
        """File and line of a token, from 1."""
        return f"{self.path}:{self.numbers[token - 1]}"

    def column(self, index: int) -> tuple[str, ...]:
        """What a column holds of each word."""
        return tuple(columns[index] for columns in self.words)

    def add_word(self, number: int, columns: list[str]) -> None:
        """Take the columns of the next word."""
        expected = len(self.words) + 1
        if columns[0] != str(expected):
            raise UserError(f"{self.path}:{number}: expected token {expected}, found {columns[0][:40]}")
        if not columns[1].strip():
            raise UserError(f"{self.path}:{number}: expected a form, found {columns[1]!r} for token {expected}")
        self.numbers.append(number)
        self.words.append(columns)


def lines_of_sentences(path: Path, what: str) -> Iterator[list[tuple[int, str]]]:
    """Number and text of the lines of each sentence, the comments before it among them."""
    lines, any_sentence = list[tuple[int, str]](), False
    for number, line in chain(read_lines(path), [(0, "")]):
        if line.strip():
            lines.append((number, line))
        elif any(not text.startswith("#") for _, text in lines):
            yield lines
            lines, any_sentence = [], True
    if not any_sentence:
        raise UserError(f"{path}: expected sentences in {what}, found none.")


def check_identifier(identifier: str, what: str) -> None:
    """Raises UserError unless an identifier can be written in a comment and read again."""
    if not identifier or identifier != identifier.strip() or "\n" in identifier:
        raise UserError(f"{what}: expected an identifier in one line without blanks around it, found {identifier!r}.")


def format_rows(rows: Iterable[Sequence[str]], what: str) -> str:
    """The lines of words."""
    lines = []
    for row in rows:
        if any(not value.strip() or "\t" in value or "\n" in value for value in row):
            raise UserError(
                f"{what}: expected words, tags and relations, not blank and without tabs and line ends, found {row}."
            )
        lines.append("\t".join(row) + "\n")
    return "".join(lines)
