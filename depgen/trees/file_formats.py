"""What a file of texts holds, by the ending of its name: the one rule of all verbs."""

from pathlib import Path
from typing import Literal, get_args

from depgen.errors import UserError

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
