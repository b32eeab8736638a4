"""SDP files, semantic dependency graphs of SemEval 2014 and 2015 (DM, PAS, PSD; Oepen et al., 2014, 2015).

A line a token, columns separated by tabs: id, form, lemma, part of speech, top (`+` or `-`), pred (`+` or `-`), in 2015
the frame, then a column for each predicate of the sentence, in their order. It holds the label of the edge from that
predicate to this token, or `_`. The line before a sentence is `#` and its identifier; a blank line follows it. Files of
2015 begin with `#SDP 2015`; where several were joined, it stands between sentences too. Comments such as `# text = ...`
are no identifiers. A predicate is a token that heads an edge.

A top of the sentence is an edge from 0 with the label `top`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from depgen.errors import UserError
from depgen.trees.blocks import Block, check_identifier, format_rows, lines_of_sentences
from depgen.trees.graph import check_graph, sorted_edges
from depgen.trees.sentence import Document, Edge, Sentence

Release = Literal["2014", "2015"]
"""Whether there is no frame column (2014) or one (2015)."""
_FIXED_COLUMNS = {"2014": 6, "2015": 7}
"""Columns before those of the predicates."""

TOP = "top"
"""The label of the edge from the root to a top."""

HEADER = "#SDP 2015"
_FIELD = re.compile(r"#\s*(\w+)\s*=\s*(.*)")
"""A comment such as `# text = Ada tried .`, as in CoNLL-U."""


@dataclass
class SdpBlock(Block):
    """The lines of one sentence.

    Attributes:
        release: says whether there is a frame column.
    """

    release: Release = "2014"

    @property
    def identifier(self) -> str:
        """That of the sentence: its comment or `sent_id`, or file and line."""
        for _, comment in self.comments:
            field = _FIELD.fullmatch(comment)
            name = comment[1:] if field is None else field[2] if field[1] == "sent_id" else ""
            if name.strip():
                return name.strip()
        return self.place

    def sentence(self) -> Sentence:
        """Words, tags and graph."""
        return Sentence(self.column(1), tags=self.column(3), edges=self._edges())

    def bare_sentence(self) -> Sentence:
        """Words and tags alone; the graph is not read."""
        return Sentence(self.column(1), tags=self.column(3))

    def _edges(self) -> tuple[Edge, ...]:
        fixed = _FIXED_COLUMNS[self.release]
        for token, row in enumerate(self.words, start=1):
            for name, value in (("top", row[4]), ("pred", row[5])):
                if value not in ("+", "-"):
                    raise UserError(f"{self.where(token)}: expected + or - as {name} of token {token}, found {value!r}")
        predicates = [token for token, row in enumerate(self.words, start=1) if row[5] == "+"]
        edges = [(0, token, TOP) for token, row in enumerate(self.words, start=1) if row[4] == "+"]
        for token, row in enumerate(self.words, start=1):
            if len(row) != fixed + len(predicates):
                raise UserError(
                    f"{self.where(token)}: expected {fixed + len(predicates)} columns, {fixed} and one for each of "
                    f"{len(predicates)} predicates (pred +), found {len(row)}. A file with frames begins with {HEADER}."
                )
            arguments = zip(predicates, row[fixed:], strict=True)
            edges += [(predicate, token, label) for predicate, label in arguments if label != "_"]
        check_graph(edges, len(self.words), self.where, words=self.column(1))
        return sorted_edges(edges)


def read_sdp(path: Path, name: str = "") -> Iterator[Document]:
    """The sentences of an SDP file, each a document; every one has a graph, if only one without edges.

    Args:
        path: the file; `.gz` is unpacked.
        name: what identifiers call the file, by default its name.
    """
    return (Document((block.sentence(),), block.identifier) for block in read_sdp_blocks(path, name))


def read_sdp_blocks(path: Path, name: str = "") -> Iterator[SdpBlock]:
    """The sentences of an SDP file, line by line; their graphs are not read."""
    release: Release = "2014"
    for lines in lines_of_sentences(path, "SDP"):
        for number, header in [each for each in lines if each[1].startswith("#SDP")]:
            if header.strip() != HEADER:
                raise UserError(
                    f"{path}:{number}: expected {HEADER}, or an SDP file of 2014 without such a line, found {header}"
                )
            release, lines = "2015", [each for each in lines if each[0] != number]
        block, fixed = SdpBlock(path, name or path.name, lines, release=release), _FIXED_COLUMNS[release]
        for number, line in lines:
            if line.startswith("#"):
                continue
            columns = line.split("\t")
            if len(columns) < fixed:
                raise UserError(
                    f"{path}:{number}: expected at least {fixed} columns separated by tabs, found {len(columns)}. Mend "
                    "the line, or name a file in SDP."
                )
            block.add_word(number, columns)
        yield block


def format_sdp(sentence: Sentence, identifier: str, *, release: Release = "2015") -> str:
    r"""The lines of a sentence, without the blank one after them; lemmas and frames are `_`, as are tags it lacks.

    >>> format_sdp(Sentence(("hi",), edges=((0, 1, "top"),)), "1", release="2014")
    '#1\n1\thi\t_\t_\t+\t-\n'
    """
    check_identifier(identifier, "SDP")
    if not sentence.words or sentence.edges is None:
        raise UserError(f"{identifier}: SDP holds sentences of words with a graph; leave others out.")
    check_graph(sentence.edges, len(sentence), "SDP")
    tags = sentence.tags or ("_",) * len(sentence)
    predicates = sorted({head for head, _, _ in sentence.edges if head})
    fixed = _FIXED_COLUMNS[release]
    rows = [
        [str(token), word, "_", tag, "-", "+" if token in predicates else "-", *"_" * (fixed - 6 + len(predicates))]
        for token, (word, tag) in enumerate(zip(sentence.words, tags, strict=True), start=1)
    ]
    for head, dependent, label in sentence.edges:
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
    return f"#{identifier}\n{format_rows(rows, 'SDP')}"
