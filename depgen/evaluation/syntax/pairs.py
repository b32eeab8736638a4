"""Files of minimal pairs: BLiMP's JSON lines, or any JSON lines and tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from depgen.errors import UserError
from depgen.locations import find_data, json_value
from depgen.trees.text_files import Separator, read_columns, read_lines, unpacked

NAMES = {
    "good": ("sentence_good", "good"),
    "bad": ("sentence_bad", "bad"),
    "paradigm": ("UID", "paradigm"),
    "phenomenon": ("linguistics_term", "phenomenon"),
    "identifier": ("pairID", "id"),
}
"""What the fields or columns of a file may be called: in BLiMP, and in other files."""
_ENDINGS = (".jsonl", ".tsv", ".csv")
_EVERY = 10
_FINAL = ".?!"


@dataclass(frozen=True)
class TestSentence:
    """A sentence of a benchmark.

    Attributes:
        place: file and line or item, for messages.
        text: with single blanks.
    """

    place: str
    text: str
    __test__ = False  # not a test case


@dataclass(frozen=True)
class Pair:
    """A sentence and a minimally different one that breaks a rule.

    Attributes:
        good: the grammatical sentence.
        bad: the other.
        paradigm: the rule; by default the name of the file.
        phenomenon: what the paradigm belongs to; by default the paradigm.
        identifier: no two of a paradigm have the same; by default the number of the line.
        fields: what else the file says of the pair, such as its condition.
    """

    good: TestSentence
    bad: TestSentence
    paradigm: str
    phenomenon: str
    identifier: str
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)


def read_pairs(path: Path | None = None) -> list[Pair]:
    """The pairs of a file, or of all files in a folder; by default of BLiMP under `$DEPGEN_DATA/blimp`.

    `.gz` is unpacked.

    Raises:
        UserError: there is no such file, or none in the folder; a field or column is missing, a sentence empty, or two
            pairs of a paradigm have the same identifier (file and line are named).
    """
    found = [pair for file in _files(path) for pair in _of_file(file)]
    places: dict[tuple[str, str], str] = {}
    for pair in found:
        first = places.setdefault((pair.paradigm, pair.identifier), pair.good.place)
        if first != pair.good.place:
            raise UserError(
                f"{pair.good.place}: expected a pair with an id of its paradigm {pair.paradigm} that is new, found "
                f"{pair.identifier}, which {first} has: give each pair another id, or none at all."
            )
    return found


def _files(path: Path | None) -> list[Path]:
    if path is None:
        how = "The 67 files of github.com/alexwarstadt/blimp belong there; or name a file or folder of pairs."
        path = find_data("blimp", how_to_get=how)
    if path.is_dir():
        found = sorted(each for each in path.iterdir() if unpacked(each).suffix.lower() in _ENDINGS)
        if not found:
            raise UserError(f"{path}: expected files of pairs ({' or '.join(_ENDINGS)}), found none.")
        return found
    if unpacked(path).suffix.lower() not in _ENDINGS:
        raise UserError(
            f"{path}: expected pairs as JSON lines (.jsonl), or as columns separated by tabs (.tsv) or commas (.csv), "
            "found another ending: rename the file by what it holds."
        )
    return [path]


def _of_file(path: Path) -> list[Pair]:
    ending, kinds = unpacked(path).suffix.lower(), dict[str, Separator]({".tsv": "tab", ".csv": "comma"})
    rows = _json_rows(path) if ending == ".jsonl" else _column_rows(path, kinds[ending])
    found = [_pair(row, path, line) for line, row in rows]
    if not found:
        raise UserError(f"{path}: expected pairs of sentences, found none.")
    return found


def _pair(row: Mapping[str, Any], path: Path, line: int) -> Pair:
    place = f"{path}:{line}"
    good, bad = (TestSentence(place, _sentence(row, name, place)) for name in ("good", "bad"))
    paradigm = _text(row, "paradigm", place) or unpacked(path).stem
    phenomenon = _text(row, "phenomenon", place) or paradigm
    known = {each for names in NAMES.values() for each in names}
    others = {name: value for name, value in row.items() if name not in known}
    return Pair(good, bad, paradigm, phenomenon, _text(row, "identifier", place) or str(line), others)


def _json_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for line, text in read_lines(path):
        if text.strip():
            row = json_value(text, f"{path}:{line}")
            if not isinstance(row, dict):
                raise UserError(f"{path}:{line}: expected a JSON object, found a {type(row).__name__}.")
            yield line, row


def _column_rows(path: Path, separator: Separator) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for line, row in read_columns(path, separator=separator):
        for name in ("good", "bad"):
            if not {*NAMES[name]} & {*row}:
                raise _missing(name, list(row), f"{path}:1", kind="column")
        yield line, row


def _missing(name: str, found: list[str], place: str, *, kind: str) -> UserError:
    return UserError(
        f"{place}: expected a {kind} {' or '.join(NAMES[name])}, found {', '.join(found) or 'none'}: name it so."
    )


def _sentence(row: Mapping[str, Any], name: str, place: str) -> str:
    """The sentence in a row.

    Raises:
        UserError: it is missing, no text or blank.
    """
    if not {*NAMES[name]} & {*row}:
        raise _missing(name, list(row), place, kind="field")
    found = one_line(_text(row, name, place))
    if not found:
        raise UserError(f"{place}: expected a sentence as {name} one of the pair, found an empty one: fill it in.")
    return found


def _text(row: Mapping[str, Any], name: str, place: str) -> str:
    """What a row holds under one of the names; "" where it holds none.

    Raises:
        UserError: it is neither text nor a whole number.
    """
    value = next((row[each] for each in NAMES[name] if each in row), "")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise UserError(f"{place}: expected text as {name}, found {value!r:.40}.")
    return str(value)


def pairs_of_protocol(pairs: Sequence[Pair], protocol: Literal["plain", "paper"]) -> Sequence[Pair]:
    """All pairs; or, of the paper, every tenth of each paradigm, with the final punctuation as a word by itself.

    Raises:
        UserError: (paper) a sentence does not end with `.`, `?` or `!`.
    """
    if protocol == "plain":
        return pairs
    numbers: dict[str, int] = {}
    found = []
    for pair in pairs:
        number = numbers[pair.paradigm] = numbers.get(pair.paradigm, -1) + 1
        if number % _EVERY == 0:
            good, bad = map(_with_final_apart, (pair.good, pair.bad))
            found.append(replace(pair, good=good, bad=bad))
    return found


def _with_final_apart(sentence: TestSentence) -> TestSentence:
    if sentence.text[-1] not in _FINAL:
        raise UserError(
            f"{sentence.place}: expected a sentence that ends with one of {' '.join(_FINAL)}, found {sentence.text!r}: "
            "take --protocol plain."
        )
    return TestSentence(sentence.place, one_line(f"{sentence.text[:-1]} {sentence.text[-1]}"))


def one_line(text: str) -> str:
    r"""The text with single blanks and none at its ends.

    >>> one_line(" the  cat\n sat ")
    'the cat sat'
    """
    return " ".join(text.split())
