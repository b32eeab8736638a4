"""NLTK's `.dp` files: form, tag and head a token, separated by tabs; a blank line after each sentence."""

import re
from collections.abc import Iterator
from pathlib import Path

from depgen.errors import UserError
from depgen.trees.lines import read_lines
from depgen.trees.sentence import Sentence
from depgen.trees.tree import check_tree

_NUMBER = re.compile(r"\d{1,9}")


def read_dependency_columns(path: Path) -> Iterator[Sentence]:
    """The sentences of a `.dp` file, with tags and heads.

    Raises:
        UserError: a line without three columns, heads that form no tree, an empty file.
    """
    rows: list[tuple[int, list[str]]] = []
    sentences = 0
    for number, line in read_lines(path):
        if line.strip():
            rows.append((number, _columns(line, f"{path}:{number}")))
        elif rows:
            sentences += 1
            yield _sentence(rows, path)
            rows = []
    if rows:
        sentences += 1
        yield _sentence(rows, path)
    if not sentences:
        raise UserError(f"{path}: expected sentences of form, tag and head, found none.")


def _columns(line: str, where: str) -> list[str]:
    columns = line.rstrip().split("\t")
    if len(columns) != 3 or not columns[0].strip() or not _NUMBER.fullmatch(columns[2]):
        raise UserError(f"{where}: expected form, tag and head (a number) separated by tabs, found {line[:80]!r}")
    return columns


def _sentence(rows: list[tuple[int, list[str]]], path: Path) -> Sentence:
    words, tags, column = zip(*(columns for _, columns in rows), strict=True)
    heads = tuple(map(int, column))
    check_tree(heads, lambda token: f"{path}:{rows[token - 1][0]}", words=words)
    return Sentence(words, heads, tags=tags)
