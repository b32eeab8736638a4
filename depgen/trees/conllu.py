"""CoNLL-U, the treebanks' format: ten tab-separated columns a token, a blank line after each sentence.

Multiword ranges (`3-4`) are passed over, for their syntactic words follow. Empty nodes (`8.1`) are no words. Enhanced
graphs (DEPS) are read if wanted: see `depgen.trees.enhanced`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from depgen.errors import UserError
from depgen.trees.enhanced import EmptyNodes, format_deps, read_deps
from depgen.trees.lines import read_lines, written_whole
from depgen.trees.sentence import Document, Edge, Sentence
from depgen.trees.tree import check_tree

TagColumn = Literal["xpos", "upos"]
_TAG_COLUMN = {"upos": 3, "xpos": 4}
_NUMBER = re.compile(r"\d{1,9}")
_NO_WORD = re.compile(r"[0-9]{1,9}[-.][0-9]{1,9}")
"""The number of a multiword range or of an empty node."""


@dataclass
class Block:
    """The lines of one sentence: as they are in the file, and by kind.

    Attributes:
        path: the file.
        lines: all lines, without the blank one after them; `text` writes them back.
        comments: line number and text of each.
        numbers: the line number of each word.
        words: the columns of each word.
        nodes: line number and columns of each word and each empty node.
    """

    path: Path
    lines: list[str] = field(default_factory=list)
    comments: list[tuple[int, str]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    words: list[list[str]] = field(default_factory=list)
    nodes: list[tuple[int, list[str]]] = field(default_factory=list)

    def where(self, token: int) -> str:
        """File and line of a token."""
        return f"{self.path}:{self.numbers[token - 1]}"

    def comment(self, key: str) -> tuple[int, str] | None:
        """Line and value of `# key = value` or of a bare `# key`."""
        for number, comment in self.comments:
            name, _, value = comment[1:].partition("=")
            if name.strip() in (key, f"{key} id"):
                return number, value.strip()
        return None

    def bare_sentence(self, tags: TagColumn) -> Sentence:
        """Words and tags alone; the columns of the tree are ignored."""
        return Sentence(_column(self, 1), tags=_annotated(_column(self, _TAG_COLUMN[tags])))

    def sentence(self, tags: TagColumn = "xpos") -> Sentence:
        """Words, tags and the tree.

        Raises:
            UserError: heads form no tree.
        """
        words, tag_column, relations = (_column(self, index) for index in (1, _TAG_COLUMN[tags], 7))
        heads = _heads(self)
        if heads is not None:
            check_tree(heads, self.where, words=words)
        return Sentence(words, heads, _annotated(relations), _annotated(tag_column))

    @property
    def text(self) -> str:
        """The lines as they are in the file, the blank one after them included."""
        return "".join(f"{line}\n" for line in [*self.lines, ""])

    def edges(self, *, empty_nodes: EmptyNodes = "contract") -> tuple[Edge, ...] | None:
        """The graph in DEPS over the words; None where there is none.

        Raises:
            UserError: what `depgen.trees.enhanced.read_deps` refuses.
        """
        rows = [(columns[0], columns[8]) for _, columns in self.nodes]
        return read_deps(
            rows,
            lambda index: f"{self.path}:{self.nodes[index][0]}",
            empty_nodes=empty_nodes,
            words=[columns[1] for _, columns in sorted(self.nodes, key=lambda node: "." in node[1][0])],
        )

    def with_graph(self, edges: Sequence[Edge]) -> str:
        """The lines with another graph in DEPS, and without empty nodes, which it does not know.

        The block's own graph leaves the lines as they are, empty nodes included.

        Raises:
            UserError: a label that DEPS can't hold.
        """
        if tuple(edges) == self.edges():
            return "".join(f"{line}\n" for line in self.lines)
        lines, deps = [], iter(format_deps(edges, len(self.words)))
        for line in self.lines:
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
        for line in self.lines:
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
        for columns in (line.split("\t") for line in self.lines if not line.startswith("#")):
            first, _, last = columns[0].partition("-")
            if "." in first or (not last and int(first) <= covered):
                continue
            covered = int(last or first)
            parts += [columns[1], "" if "SpaceAfter=No" in columns[9].split("|") else " "]
        return "".join(parts).strip()


def read_conllu(
    path: Path,
    *,
    tags: TagColumn = "xpos",
    by_document: bool = True,
    graphs: bool = False,
    empty_nodes: EmptyNodes = "contract",
) -> Iterator[Document]:
    """The documents of a CoNLL-U file.

    Args:
        path: the file; `.gz` is unpacked.
        tags: the column that becomes `Sentence.tags`.
        by_document: a document runs from one `# newdoc` to the next; before the first, and everywhere if false, each
            sentence is one document with its `# sent_id` as identifier.
        graphs: whether DEPS become `Sentence.edges`; otherwise they are not read.
        empty_nodes: whether paths through empty nodes are contracted, or a graph with empty nodes is refused.

    Raises:
        UserError: a line without ten columns or form, tokens out of order, heads that form no tree, DEPS that form no
            graph (if read), an empty file.
    """
    open_document: tuple[str, list[Sentence]] | None = None
    for block in read_blocks(path):
        sentence = block.sentence(tags)
        if graphs:
            sentence = replace(sentence, edges=block.edges(empty_nodes=empty_nodes))
        if by_document and (newdoc := block.comment("newdoc")):
            if open_document:
                yield Document(tuple(open_document[1]), open_document[0])
            open_document = (newdoc[1] or f"{path.name}:{newdoc[0]}", [])
        if open_document:
            open_document[1].append(sentence)
        else:
            sent_id = block.comment("sent_id")
            yield Document((sentence,), sent_id[1] if sent_id else f"{path.name}:{block.numbers[0]}")
    if open_document:
        yield Document(tuple(open_document[1]), open_document[0])


def read_blocks(path: Path) -> Iterator[Block]:
    """The sentences of a CoNLL-U file, line by line; their trees are not read.

    Raises:
        UserError: a line without ten columns or form, tokens out of order, an empty file.
    """
    block, found = Block(path), False
    for number, line in read_lines(path):
        if not line.strip():
            if block.words:
                yield block
                block, found = Block(path), True
            continue
        block.lines.append(line)
        if line.startswith("#"):
            block.comments.append((number, line))
        else:
            _add_row(block, number, line.split("\t"))
    if block.words:
        yield block
    elif not found:
        raise UserError(f"{path}: expected sentences in CoNLL-U, found none.")


def _add_row(block: Block, number: int, columns: list[str]) -> None:
    if len(columns) != 10:
        raise UserError(
            f"{block.path}:{number}: expected 10 columns separated by tabs, found {len(columns)}. Mend the line, or "
            "name a file in CoNLL-U."
        )
    identifier = columns[0]
    if _NUMBER.fullmatch(identifier):
        if int(identifier) != len(block.words) + 1:
            raise UserError(f"{block.path}:{number}: expected token {len(block.words) + 1}, found {identifier}")
        if not columns[1].strip():
            raise UserError(f"{block.path}:{number}: expected a form, found {columns[1]!r} for token {identifier}")
        block.words.append(columns)
        block.numbers.append(number)
        block.nodes.append((number, columns))
    elif _NO_WORD.fullmatch(identifier):
        if "." in identifier:
            block.nodes.append((number, columns))
    else:
        raise UserError(
            f"{block.path}:{number}: expected a token number, a range or an empty node, found {identifier:.40}"
        )


def _column(block: Block, index: int) -> tuple[str, ...]:
    return tuple(row[index] for row in block.words)


def _annotated(column: tuple[str, ...]) -> tuple[str, ...] | None:
    return None if all(value == "_" for value in column) else column


def _heads(block: Block) -> tuple[int, ...] | None:
    column = _annotated(_column(block, 6))
    if column is None:
        return None
    for token, head in enumerate(column, start=1):
        if not _NUMBER.fullmatch(head):
            raise UserError(f"{block.where(token)}: expected the number of token {token}'s head, found {head[:40]!r}")
    return tuple(map(int, column))


def write_conllu(documents: Iterable[Document], path: Path, *, tags: TagColumn = "xpos") -> None:
    r"""Write documents so that `read_conllu` gives them back; what a sentence lacks becomes `_`.

    A graph without edges looks the same as a sentence without a graph. Lines end in `\n`, also where the file that was
    read has `\r\n`.

    The file appears once it is whole: one that is refused half-way leaves what was there before.

    Raises:
        UserError: a document without sentences, an identifier that is blank at an end or holds a line end; a word, tag
            or relation that is empty or holds a tab or a line end, heads that are not annotated (-1).
    """
    with written_whole(path) as stream:
        for document in documents:
            _check_writable(document)
            stream.write(f"# newdoc id = {document.identifier}\n")
            for index, sentence in enumerate(document.sentences, start=1):
                stream.write(f"# sent_id = {document.identifier}-{index}\n# text = {' '.join(sentence.words)}\n")
                stream.write(f"{format_conllu(sentence, tags=tags)}\n")


def _check_writable(document: Document) -> None:
    identifier = document.identifier
    if not identifier or identifier != identifier.strip() or "\n" in identifier:
        raise UserError(f"CoNLL-U: expected an identifier in one line without blanks around it, found {identifier!r}.")
    if not document.sentences:
        raise UserError(f"{identifier}: CoNLL-U holds no documents without sentences; leave the empty document out.")


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
    lines, end = [], 0
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
        if any(not value.strip() or "\t" in value or "\n" in value for value in row):
            raise UserError(
                f"Expected words, tags and relations without tabs and line ends, found {row} in a sentence."
            )
        if row[6] == "-1":
            raise UserError(f"CoNLL-U: expected heads of all words or of none, found -1 (not annotated) in {row}.")
        lines.append("\t".join(row) + "\n")
    return "".join(lines)
