"""NLTK's `.dp` files: form, tag and head a token, separated by tabs; a blank line after each sentence."""

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from depgen.errors import UserError
from depgen.trees.lines import read_lines
from depgen.trees.sentence import Sentence
from depgen.trees.tree import check_tree

_ROW = re.compile(r"(?P<form>[^\t]*\S[^\t]*)\t(?P<tag>[^\t]*)\t(?P<head>\d{1,9})\s*")


def read_dependency_columns(path: Path) -> Iterator[Sentence]:
    """The sentences of a `.dp` file, with tags and heads."""
    any_sentence = False
    for is_blank, lines in groupby(read_lines(path), key=lambda numbered: not numbered[1].strip()):
        if not is_blank:
            any_sentence = True
            yield _sentence(list(lines), path)
    if not any_sentence:
        raise UserError(f"{path}: expected sentences of form, tag and head, found none.")


def _sentence(lines: list[tuple[int, str]], path: Path) -> Sentence:
    rows = []
    for number, line in lines:
        row = _ROW.fullmatch(line)
        if row is None:
            raise UserError(
                f"{path}:{number}: expected form, tag and head (a number) separated by tabs, found {line[:80]!r}"
            )
        rows.append(row.groups())
    words, tags, column = zip(*rows, strict=True)
    heads = tuple(map(int, column))
    check_tree(heads, lambda token: f"{path}:{lines[token - 1][0]}", words=words)
    return Sentence(words, heads, tags=tags)
