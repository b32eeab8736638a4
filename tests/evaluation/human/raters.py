"""Questionnaires about invented texts, and raters who answer them."""

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path

from depgen.evaluation.human.forms import sheet_csv
from depgen.evaluation.human.questionnaire import Questionnaire, pairwise, rating, turing

Judge = Callable[[str, Mapping[str, str]], Mapping[str, str]]
"""From a rater's name and a line of the sheet to the answers."""


def compared(pairs: int = 12, **options: int) -> Questionnaire:
    """Texts that say which system wrote them, to us alone."""
    first, second = [f"alpha {n} ." for n in range(pairs)], [f"beta {n} ." for n in range(pairs)]
    return pairwise(("DM-Net", first), ("Net", second), [f"context {n} ." for n in range(pairs)], **options)


def mixed(sentences: int = 6, **options: int) -> Questionnaire:
    """A Turing test of two systems."""
    systems = {name: [f"{word} {n} ." for n in range(sentences)] for name, word in (("Net", "beta"), ("Web", "gamma"))}
    return turing(systems, [f"human {n} ." for n in range(sentences)], **options)


def rated(sentences: int = 6, **options: int) -> Questionnaire:
    """Ratings of two systems."""
    systems = {name: [f"{word} {n} ." for n in range(sentences)] for name, word in (("Net", "beta"), ("Web", "gamma"))}
    return rating(systems, **options)


def answered(questionnaire: Questionnaire, folder: Path, judge: Judge) -> list[Path]:
    """The files of raters who fill in their sheets."""
    return [
        fill(sheet_csv(questionnaire, sheet), folder / f"{sheet.rater}.csv", judge) for sheet in questionnaire.sheets
    ]


def fill(sheet: str, path: Path, judge: Judge) -> Path:
    """Fill in one sheet."""
    rows = list(csv.DictReader(io.StringIO(sheet)))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(row | dict(judge(row["rater"], row)) for row in rows)
    return path


def side_of(row: Mapping[str, str], word: str) -> str:
    """`1` or `2`: where a pair shows the text that begins with a word."""
    return "1" if row["text_1"].startswith(word) else "2"
