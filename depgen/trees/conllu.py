"""CoNLL-U, the treebanks' format: ten tab-separated columns a token, a blank line after each sentence.

Multiword ranges (`3-4`) are passed over, for their syntactic words follow. Empty nodes (`8.1`) are no words.

Enhanced graphs (DEPS) are read if wanted, as graphs over words alone. A path through empty nodes becomes one edge, its
labels joined by `>` (`conj>nsubj`), as by the script of the IWPT 2020 shared task. A path visits an empty node at most
once. It may lead back to the word that it began at. An empty node without a head, or one that nothing hangs on, goes
with its edges.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from depgen.errors import UserError
from depgen.locations import write_atomically
from depgen.trees.blocks import Block, check_identifier, format_rows, lines_of_sentences
from depgen.trees.graph import check_graph, contract, sorted_edges
from depgen.trees.sentence import Document, Edge, Sentence, check_tree

TagColumn = Literal["xpos", "upos"]
_TAG_COLUMN = {"upos": 3, "xpos": 4}
_HEAD = re.compile(r"\d{1,9}")
_NO_WORD = re.compile(r"[0-9]{1,9}[-.][0-9]{1,9}")
"""The number of a multiword range or of an empty node."""


# -- sentences ----------------------------------------------------------------------------------------------------


@dataclass
class ConlluBlock(Block):
    """The lines of one sentence.

    Attributes:
        nodes: line number and columns of each word and each empty node.
    """

    nodes: list[tuple[int, list[str]]] = field(default_factory=list)

    def comment(self, key: str) -> tuple[int, str] | None:
        """Line and value of `# key = value` or of a bare `# key`."""
        for number, comment in self.comments:
            name, _, value = comment[1:].partition("=")
            if name.strip() in (key, f"{key} id"):
                return number, value.strip()
        return None

    def bare_sentence(self, tags: TagColumn) -> Sentence:
        """Words and tags alone; the columns of the tree are ignored."""
        return Sentence(self.column(1), tags=self._annotation(_TAG_COLUMN[tags]))

    def sentence(self, tags: TagColumn = "xpos") -> Sentence:
        """Words, tags and the tree."""
        heads = None
        if (column := self._annotation(6)) is not None:
            for token, head in enumerate(column, start=1):
                if not _HEAD.fullmatch(head):
                    raise UserError(
                        f"{self.where(token)}: expected the number of token {token}'s head, found {head[:40]!r}"
                    )
            heads = tuple(map(int, column))
            check_tree(heads, self.where, words=self.column(1))
        return replace(self.bare_sentence(tags), heads=heads, relations=self._annotation(7))

    def _annotation(self, index: int) -> tuple[str, ...] | None:
        """A column; None where nothing is annotated in it."""
        column = self.column(index)
        return None if all(value == "_" for value in column) else column

    def edges(self) -> tuple[Edge, ...] | None:
        """The graph in DEPS over the words; None where there is none."""
        words_first = sorted((columns for _, columns in self.nodes), key=lambda columns: "." in columns[0])
        return read_deps(
            [(columns[0], columns[8]) for _, columns in self.nodes],
            lambda index: f"{self.path}:{self.nodes[index][0]}",
            words=[columns[1] for columns in words_first],
        )

    def with_graph(self, edges: Sequence[Edge]) -> str:
        """The lines with another graph in DEPS, and without empty nodes, which it does not know."""
        lines, deps = [], iter(format_deps(edges, len(self.words)))
        for _, line in self.lines:
            columns = line.split("\t")
            if not line.startswith("#") and "." in columns[0]:
                continue
            if not line.startswith("#") and columns[0].isdecimal():
                columns[8] = next(deps)
            lines.append("\t".join(columns))
        return "".join(f"{line}\n" for line in lines)

    def with_tree(self, heads: Sequence[int], relations: Sequence[str]) -> str:
        """The lines with another tree; `# text` is added where there is none, and DEPS becomes `_` in every line.

        The enhanced graph in DEPS extends the old tree, so it does not fit the new one. Empty nodes, which are of that
        graph alone, go with it: Universal Dependencies allows none without DEPS.
        """
        text = [] if self.comment("text") else [f"# text = {self._text()}"]
        lines, tree = [], zip(heads, relations, strict=True)
        for _, line in self.lines:
            if line.startswith("#"):
                lines.append(line)
                continue
            lines, text = [*lines, *text], []
            columns = line.split("\t")
            if "." in columns[0]:
                continue
            columns[8] = "_"
            if columns[0].isdecimal():
                head, columns[7] = next(tree)
                columns[6] = str(head)
            lines.append("\t".join(columns))
        return "".join(f"{line}\n" for line in lines)

    def _text(self) -> str:
        """The words as they are written: ranges whole, without a space where MISC has `SpaceAfter=No`."""
        parts, covered = [], 0
        for columns in (line.split("\t") for _, line in self.lines if not line.startswith("#")):
            first, _, last = columns[0].partition("-")
            if "." in first or (not last and int(first) <= covered):
                continue
            covered = int(last or first)
            parts += [columns[1], "" if "SpaceAfter=No" in columns[9].split("|") else " "]
        return "".join(parts).strip()


def read_conllu(
    path: Path, name: str = "", *, tags: TagColumn = "xpos", by_document: bool = True, graphs: bool = False
) -> Iterator[Document]:
    """The documents of a CoNLL-U file.

    Args:
        path: the file; `.gz` is unpacked.
        name: what identifiers call the file, by default its name.
        tags: the column that becomes `Sentence.tags`.
        by_document: a document runs from one `# newdoc` to the next; before the first, and everywhere if false, each
            sentence is one document with its `# sent_id` as identifier.
        graphs: whether DEPS become `Sentence.edges`; otherwise they are not read.
    """
    open_document: tuple[str, list[Sentence]] | None = None
    for block in read_blocks(path, name):
        sentence = block.sentence(tags)
        if graphs:
            sentence = replace(sentence, edges=block.edges())
        if by_document and (newdoc := block.comment("newdoc")):
            if open_document:
                yield Document(tuple(open_document[1]), open_document[0])
            open_document = (newdoc[1] or f"{block.name}:{newdoc[0]}", [])
        if open_document:
            open_document[1].append(sentence)
        else:
            sent_id = block.comment("sent_id")
            yield Document((sentence,), sent_id[1] if sent_id else block.place)
    if open_document:
        yield Document(tuple(open_document[1]), open_document[0])


def read_blocks(path: Path, name: str = "") -> Iterator[ConlluBlock]:
    """The sentences of a CoNLL-U file, line by line; their trees are not read."""
    for lines in lines_of_sentences(path, "CoNLL-U"):
        block = ConlluBlock(path, name or path.name, lines)
        for number, line in lines:
            if line.startswith("#"):
                continue
            columns = line.split("\t")
            if len(columns) != 10:
                raise UserError(
                    f"{path}:{number}: expected 10 columns separated by tabs, found {len(columns)}. Mend the line, or "
                    "name a file in CoNLL-U."
                )
            is_word = not _NO_WORD.fullmatch(columns[0])
            if is_word:
                block.add_word(number, columns)
            if is_word or "." in columns[0]:
                block.nodes.append((number, columns))
        yield block


def write_conllu(documents: Iterable[Document], path: Path, *, tags: TagColumn = "xpos") -> None:
    r"""Write documents so that `read_conllu` gives them back; what a sentence lacks becomes `_`.

    A graph without edges looks the same as a sentence without a graph. Lines end in `\n`, also where the file that was
    read has `\r\n`.
    """
    parts = []
    for document in documents:
        check_identifier(document.identifier, "CoNLL-U")
        if not document.sentences:
            raise UserError(f"{document.identifier}: CoNLL-U holds no documents without sentences; leave it out.")
        parts.append(f"# newdoc id = {document.identifier}\n")
        for index, sentence in enumerate(document.sentences, start=1):
            parts.append(f"# sent_id = {document.identifier}-{index}\n# text = {' '.join(sentence.words)}\n")
            parts.append(f"{format_conllu(sentence, tags=tags)}\n")
    write_atomically(path, "".join(parts))


def format_conllu(sentence: Sentence, *, tags: TagColumn = "xpos", text: str | None = None) -> str:
    r"""The token lines of a sentence.

    Args:
        sentence: at least one word.
        tags: the column of its tags.
        text: what its words were cut from; a word that no space follows there has `SpaceAfter=No` in MISC.

    >>> format_conllu(Sentence(("hi",), (0,), ("root",)))
    '1\thi\t_\t_\t_\t_\t0\troot\t_\t_\n'
    """
    if not sentence.words:
        raise UserError("CoNLL-U holds no sentences without words; leave the empty sentence out.")
    rows, end = [], 0
    deps = format_deps(sentence.edges or (), len(sentence))
    for index, word in enumerate(sentence.words):
        row = [str(index + 1), word, *"_" * 6, deps[index], "_"]
        if text is not None:
            end = text.index(word, end) + len(word)
            if text[end : end + 1].strip():
                row[9] = "SpaceAfter=No"
        if sentence.tags:
            row[_TAG_COLUMN[tags]] = sentence.tags[index]
        if sentence.heads:
            row[6] = str(sentence.heads[index])
        if sentence.relations:
            row[7] = sentence.relations[index]
        if row[6] == "-1":
            raise UserError(f"CoNLL-U: expected heads of all words or of none, found -1 (not annotated) in {row}.")
        rows.append(row)
    return format_rows(rows, "CoNLL-U")


# -- enhanced graphs ----------------------------------------------------------------------------------------------


def read_deps(
    rows: Sequence[Sequence[str]],
    where: Callable[[int], str],
    *,
    words: Sequence[str] | None = None,
) -> tuple[Edge, ...] | None:
    """The graph of a sentence's DEPS; None where all of them are `_`.

    Args:
        rows: number and DEPS of each word and each empty node, in the order of the file.
        where: the place of a row, by its 0-based index.
        words: forms to name in messages.
    """
    if all(deps == "_" for _, deps in rows):
        return None
    words_first = sorted((number for number, _ in rows), key=lambda number: not number.isdecimal())
    number_of = {number: index + 1 for index, number in enumerate(words_first)}
    row_of = {number_of[number]: index for index, (number, _) in enumerate(rows)}
    if len(row_of) < len(rows):
        index = next(index for index, (number, _) in enumerate(rows) if row_of[number_of[number]] != index)
        raise UserError(f"{where(index)}: expected one node of each number, found {rows[index][0]} twice")
    length = sum(number.isdecimal() for number in number_of)
    edges = []
    for index, (number, deps) in enumerate(rows):
        for head, label in _cells(deps, f"{where(index)}: node {number}"):
            if head != "0" and head not in number_of:
                raise UserError(f"{where(index)}: node {number} has head {head}, which is no node of the sentence")
            edges.append((number_of.get(head, 0), number_of[number], label))
    check_graph(edges, len(rows), lambda node: where(row_of[node]), words=words)
    return contract(edges, range(length + 1, len(rows) + 1)) if length < len(rows) else sorted_edges(edges)


def _cells(deps: str, where: str) -> list[tuple[str, str]]:
    if deps == "_":
        return []
    found = []
    for cell in deps.split("|"):
        head, colon, label = cell.partition(":")
        if not colon or not head or not label.strip():
            raise UserError(f"{where}: expected DEPS as head:label, separated by |, or _, found {deps!r}")
        found.append((head, label))
    return found


def format_deps(edges: Sequence[Edge], length: int) -> list[str]:
    """The DEPS of each word, `_` for a word without a head.

    >>> format_deps([(2, 1, "nsubj"), (3, 1, "conj>nsubj"), (0, 2, "root")], 3)
    ['2:nsubj|3:conj>nsubj', '0:root', '_']
    """
    cells: list[list[str]] = [[] for _ in range(length)]
    for head, dependent, label in edges:
        if not label.strip() or any(character in label for character in "|\t\n"):
            raise UserError(f"DEPS: expected labels without |, tabs and line ends, found {label!r}.")
        cells[dependent - 1].append(f"{head}:{label}")
    return ["|".join(each) or "_" for each in cells]
