"""SDP files, semantic dependency graphs of SemEval 2014 and 2015 (DM, PAS, PSD; Oepen et al., 2014, 2015).

A line a token, columns separated by tabs: id, form, lemma, part of speech, top (`+` or `-`), pred (`+` or `-`), in 2015
the frame, then a column for each predicate of the sentence, in their order. It holds the label of the edge from that
predicate to this token, or `_`. The line before a sentence is `#` and its identifier; a blank line follows it. Files of
2015 begin with `#SDP 2015`. A predicate is a token that heads an edge.

A top of the sentence is an edge from 0 with the label `top`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Literal

from depgen.errors import UserError
from depgen.trees.graph import check_graph, sorted_edges
from depgen.trees.lines import read_lines, written_whole
from depgen.trees.sentence import Document, Edge, Sentence

Release = Literal["2014", "2015"]
"""Whether there is no frame column (2014) or one (2015)."""

TOP = "top"
"""The label of the edge from the root to a top."""

HEADER = "#SDP 2015"
_IDENTIFIER = re.compile(r"[0-9]{8}")
"""Two digits of the section, two of the document in it and three of the sentence, after a 2."""


@dataclass
class SdpBlock:
    """The lines of one sentence.

    Attributes:
        path: the file.
        release: says whether there is a frame column.
        identifier: of the sentence.
        lines: all lines, the identifier's first, without the blank one after them.
        numbers: the line number of each token.
        rows: the columns of each token.
    """

    path: Path
    release: Release
    identifier: str = ""
    lines: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The lines as they are in the file, the blank one after them included."""
        return "".join(f"{line}\n" for line in [*self.lines, ""])

    def sentence(self) -> Sentence:
        """Words, tags and graph.

        Raises:
            UserError: marks other than `+` and `-`, other columns than there are predicates, a graph that is none.
        """
        words, tags = (tuple(row[column] for row in self.rows) for column in (1, 3))
        return Sentence(words, tags=tags, edges=self.edges())

    def bare_sentence(self) -> Sentence:
        """Words and tags alone; the graph is not read."""
        return Sentence(tuple(row[1] for row in self.rows), tags=tuple(row[3] for row in self.rows))

    def edges(self) -> tuple[Edge, ...]:
        """The graph; see `sentence`."""
        fixed = _fixed_columns(self.release)
        for token, row in enumerate(self.rows, start=1):
            for name, value in (("top", row[4]), ("pred", row[5])):
                if value not in ("+", "-"):
                    raise UserError(f"{self.where(token)}: expected + or - as {name} of token {token}, found {value!r}")
        predicates = [token for token, row in enumerate(self.rows, start=1) if row[5] == "+"]
        edges = [(0, token, TOP) for token, row in enumerate(self.rows, start=1) if row[4] == "+"]
        for token, row in enumerate(self.rows, start=1):
            if len(row) != fixed + len(predicates):
                raise UserError(
                    f"{self.where(token)}: expected {fixed + len(predicates)} columns, {fixed} and one for each of "
                    f"{len(predicates)} predicates (pred +), found {len(row)}. A file with frames begins with {HEADER}."
                )
            arguments = zip(predicates, row[fixed:], strict=True)
            edges += [(predicate, token, label) for predicate, label in arguments if label != "_"]
        check_graph(edges, len(self.rows), self.where, words=[row[1] for row in self.rows])
        return sorted_edges(edges)

    def where(self, token: int) -> str:
        """File and line of a token."""
        return f"{self.path}:{self.numbers[token - 1]}"

    def with_graph(self, edges: Sequence[Edge]) -> str:
        """The lines with another graph, lemmas and frames as they are; the block's own graph changes nothing.

        Raises:
            UserError: a graph that the format can't hold.
        """
        if tuple(edges) == self.edges():
            return "".join(f"{line}\n" for line in self.lines)
        rows, fixed = _graph_columns(edges, len(self.rows), self.release), _fixed_columns(self.release)
        for row, own in zip(rows, self.rows, strict=True):
            row[1:4], row[6:fixed] = own[1:4], own[6:fixed]
        return _lines(self.lines[: -len(self.rows)], rows)


def _fixed_columns(release: Release) -> int:
    return 6 if release == "2014" else 7


def read_sdp(path: Path, *, by_document: bool = False) -> Iterator[Document]:
    """The documents of an SDP file; every sentence has a graph, if only one without edges.

    Args:
        path: the file; `.gz` is unpacked.
        by_document: whether sentences are one document whose identifiers, of eight digits, differ in the last three
            alone; otherwise each sentence is a document with its own identifier.

    Raises:
        UserError: a line that is no token, tokens out of order, marks other than `+` and `-`, other columns than there
            are predicates, a graph that is none, an empty file.
    """
    if not by_document:
        yield from (Document((block.sentence(),), block.identifier) for block in read_sdp_blocks(path))
        return
    for identifier, blocks in groupby(read_sdp_blocks(path), key=lambda block: _document_of(block.identifier)):
        yield Document(tuple(block.sentence() for block in blocks), identifier)


def _document_of(identifier: str) -> str:
    return identifier[:-3] if _IDENTIFIER.fullmatch(identifier) else identifier


def read_sdp_blocks(path: Path) -> Iterator[SdpBlock]:
    """The sentences of an SDP file, line by line; their graphs are not read.

    Raises:
        UserError: a line that is no token, tokens out of order, an empty file.
    """
    release: Release = "2014"
    block, found = SdpBlock(path, release), False
    for number, line in read_lines(path):
        if number == 1 and line.startswith("#SDP"):
            if line != HEADER:
                raise UserError(
                    f"{path}:1: expected {HEADER}, or an SDP file of 2014 without such a line, found {line}"
                )
            release = "2015"
            block = SdpBlock(path, release)
        elif line.startswith("#") and not block.rows:
            block.lines.append(line)
            block.identifier = block.identifier or line[1:].strip()
        elif line.strip():
            _add_row(block, number, line)
        elif block.rows:
            yield _complete(block)
            block, found = SdpBlock(path, release), True
    if block.rows:
        yield _complete(block)
    elif not found:
        raise UserError(f"{path}: expected sentences in SDP, found none.")


def _complete(block: SdpBlock) -> SdpBlock:
    block.identifier = block.identifier or f"{block.path.name}:{block.numbers[0]}"
    return block


def _add_row(block: SdpBlock, number: int, line: str) -> None:
    columns, fixed = line.split("\t"), _fixed_columns(block.release)
    if len(columns) < fixed:
        raise UserError(
            f"{block.path}:{number}: expected at least {fixed} columns separated by tabs, found {len(columns)}. Mend "
            "the line, or name a file in SDP."
        )
    if columns[0] != str(len(block.rows) + 1):
        raise UserError(f"{block.path}:{number}: expected token {len(block.rows) + 1}, found {columns[0]!r}")
    if not columns[1].strip():
        raise UserError(f"{block.path}:{number}: expected a form, found {columns[1]!r} for token {columns[0]}")
    block.lines.append(line)
    block.numbers.append(number)
    block.rows.append(columns)


def write_sdp(documents: Iterable[Document], path: Path, *, release: Release = "2015") -> None:
    r"""Write documents so that `read_sdp` gives them back; lemmas and frames become `_`, as do tags that are not there.

    Lines end in `\n`, also where the file that was read has `\r\n`.

    The sentences of a document of several are numbered by three digits after its identifier. The file appears once it
    is whole: one that is refused half-way leaves what was there before.

    Raises:
        UserError: a document without sentences or with more than 999, a sentence without words or graph, values that
            are empty or hold a tab or a line end, a graph that the format can't hold.
    """
    with written_whole(path) as stream:
        stream.write(f"{HEADER}\n" if release == "2015" else "")
        for document in documents:
            several = len(document.sentences) > 1
            if not 0 < len(document.sentences) < 1000:
                raise UserError(
                    f"{document.identifier}: SDP holds documents of 1 to 999 sentences, found "
                    f"{len(document.sentences)}: leave the document out or divide it."
                )
            for number, sentence in enumerate(document.sentences, start=1):
                identifier = f"{document.identifier}{number:03d}" if several else document.identifier
                stream.write(f"{format_sdp(sentence, identifier, release=release)}\n")


def format_sdp(sentence: Sentence, identifier: str, *, release: Release = "2015") -> str:
    r"""The lines of a sentence, without the blank one after them.

    Raises:
        UserError: see `write_sdp`.

    >>> format_sdp(Sentence(("hi",), edges=((0, 1, "top"),)), "1", release="2014")
    '#1\n1\thi\t_\t_\t+\t-\n'
    """
    if not identifier or identifier != identifier.strip() or "\n" in identifier:
        raise UserError(f"SDP: expected an identifier in one line without blanks around it, found {identifier!r}.")
    if not sentence.words or sentence.edges is None:
        raise UserError(f"{identifier}: SDP holds sentences of words with a graph; leave others out.")
    tags = sentence.tags or ("_",) * len(sentence)
    rows = _graph_columns(sentence.edges, len(sentence), release)
    for row, word, tag in zip(rows, sentence.words, tags, strict=True):
        row[1], row[3] = word, tag
    return _lines([f"#{identifier}"], rows)


def _graph_columns(edges: Sequence[Edge], length: int, release: Release) -> list[list[str]]:
    """The rows of a sentence, in which forms, lemmas, tags and frames are `_`."""
    check_graph(edges, length, "SDP")
    predicates = sorted({head for head, _, _ in edges if head})
    fixed = _fixed_columns(release)
    rows = [
        [str(token), "_", "_", "_", "-", "+" if token in predicates else "-", *"_" * (fixed - 6 + len(predicates))]
        for token in range(1, length + 1)
    ]
    for head, dependent, label in edges:
        if (head == 0) != (label == TOP):
            raise UserError(
                f"SDP: expected the label {TOP} at edges from 0 and there alone, found {label!r} from {head}."
            )
        if label == "_":
            raise UserError("SDP: expected labels other than _, which says that there is no edge.")
        column = 4 if head == 0 else fixed + predicates.index(head)
        if rows[dependent - 1][column] not in ("-", "_"):
            raise UserError(f"SDP holds one label for a head and a dependent, found two from {head} to {dependent}.")
        rows[dependent - 1][column] = "+" if head == 0 else label
    return rows


def _lines(comments: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    for row in rows:
        if any(not value.strip() or "\t" in value or "\n" in value for value in row):
            raise UserError(f"SDP: expected words, tags and labels without tabs and line ends, found {row}.")
    return "".join(f"{line}\n" for line in [*comments, *map("\t".join, rows)])
