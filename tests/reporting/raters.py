"""Questionnaires about invented texts, and raters who answer them."""

import csv
from collections.abc import Callable, Mapping
from pathlib import Path

from depgen.reporting.human import ANSWERS, RATERS, Questionnaire, pairwise, single

Judge = Callable[[str, Mapping[str, str]], Mapping[str, str]]
"""From a rater's name and a line of the sheet to the answers."""


def compared(pairs: int = 12, **options: int) -> Questionnaire:
    """Texts that say which system wrote them, to us alone."""
    systems = {name: [f"{word} {n} ." for n in range(pairs)] for name, word in (("DM-Net", "alpha"), ("Net", "beta"))}
    return pairwise(systems, [f"context {n} ." for n in range(pairs)], **options)


def mixed(kind: str = "turing", sentences: int = 6, **options: int) -> Questionnaire:
    """Single sentences of three writers."""
    words = {"Net": "beta", "Web": "gamma", "Real data": "human"}
    systems = {name: [f"{word} {n} ." for n in range(sentences)] for name, word in words.items()}
    return single(kind, systems, **options)


def answer(folder: Path, judge: Judge) -> None:
    """Let every rater of a questionnaire's folder fill in their sheet."""
    for sheet in (folder / RATERS).glob("*.csv"):
        with sheet.open(encoding="utf-8-sig", newline="") as stream:
            rows = list(csv.DictReader(stream))
        with (folder / ANSWERS / sheet.name).open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(row | dict(judge(row["rater"], row)) for row in rows)


def side_of(row: Mapping[str, str], word: str) -> str:
    """`1` or `2`: where a pair shows the text that begins with a word."""
    return "1" if row["text_1"].startswith(word) else "2"
