"""Formats of corpora: how a file becomes documents. Text is UTF-8, and `.gz` is unpacked."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import ClassVar, Literal

from depgen.data.corpus import Format, log_left_out
from depgen.data.named_columns import NamedColumns, Row
from depgen.data.tokenization import SentenceSplitter, Tokens, sentences_of, words_of
from depgen.errors import UserError
from depgen.locations import json_value
from depgen.trees.conllu import TagColumn, read_conllu
from depgen.trees.constituency import TRACE_TAGS, read_bracketed, without_tags
from depgen.trees.sdp import read_sdp
from depgen.trees.sentence import Document, Sentence, check_tree
from depgen.trees.text_files import format_of, read_columns, read_lines


@dataclass(frozen=True)
class Lines(Format):
    """A document a line, by default of one sentence; blank lines are left out.

    Args:
        splitter: how a line becomes sentences: it is one, or, where lines are paragraphs, as `depgen.data.tokenization`
            says.
        tokens: how a sentence becomes tokens: at white space, or by `depgen.data.tokenization`.
    """

    splitter: SentenceSplitter = "lines"
    tokens: Tokens = "whitespace"

    def read(self, path: Path, name: str) -> Iterator[Document]:
        """The lines of a file; identifiers are file and line."""
        for number, line in _plain_lines(path):
            if line.strip():
                texts = sentences_of(line, self.splitter)
                yield Document(tuple(Sentence(words_of(text, self.tokens)) for text in texts), f"{name}:{number}")


@dataclass(frozen=True)
class Paragraphs(Format):
    """Documents of a sentence a line, parted by blank lines or lines that begin and end with `=`.

    The latter are headings, such as `= Title =`, and lone equality signs: the form of Ji et al. (2015), into which a
    user of their North American News Text (LDC2008T13) writes it. Their code ends a document at any line that begins
    with `=`; here it must also end with it, so that a sentence such as `= 12 minutes .` is kept.

    Args:
        tokens: as of `Lines`.
    """

    tokens: Tokens = "whitespace"

    def read(self, path: Path, name: str) -> Iterator[Document]:
        """The documents of a file; identifiers are file and first line."""
        first, sentences = 0, list[Sentence]()
        for number, line in chain(_plain_lines(path), [(0, "")]):
            text = line.strip()
            if text and not (text.startswith("=") and text.endswith("=")):
                first = first or number
                sentences.append(Sentence(words_of(text, self.tokens)))
            elif sentences:
                yield Document(tuple(sentences), f"{name}:{first}")
                first, sentences = 0, []


@dataclass(frozen=True)
class SentenceColumns(Format):
    """A CSV file with a document a row and a sentence in each of some columns; other columns are ignored.

    Rows with an empty sentence are left out and counted.

    Args:
        columns: their names, by default those of ROCStories.
        tokens: as of `Lines`.
    """

    columns: Sequence[str] = ("sentence1", "sentence2", "sentence3", "sentence4", "sentence5")
    tokens: Tokens = "whitespace"

    def read(self, path: Path, name: str) -> Iterator[Document]:
        """The documents of a file; identifiers are file and first line."""
        incomplete = 0
        for line, row in read_columns(path, separator="comma"):
            if missing := [column for column in self.columns if column not in row]:
                raise UserError(
                    f"{path}:1: expected the columns {', '.join(self.columns)}, found {', '.join(row)}: add {missing}."
                )
            sentences = [Sentence(words_of(row[column], self.tokens)) for column in self.columns]
            if all(sentence.words for sentence in sentences):
                yield Document(tuple(sentences), f"{name}:{line}")
            else:
                incomplete += 1
        log_left_out(incomplete, "rows with an empty sentence", str(path))


@dataclass(frozen=True)
class JsonLines(NamedColumns, Format):
    """JSON lines, a document each: texts, sentences already cut, or tokens with their trees."""

    def read(self, path: Path, name: str) -> Iterator[Document]:
        """The documents of a file."""
        return (document for document, _ in self.read_with_fields(path, name))

    def read_with_fields(self, path: Path, name: str) -> Iterator[tuple[Document, Row]]:
        """The documents of a file, each with all fields of its object; identifiers are by default file and line."""
        return self.documents_of(_objects(path, name), str(path))


def _objects(path: Path, name: str) -> Iterator[tuple[str, str, Row]]:
    for number, line in read_lines(path):
        if line.strip():
            fields = json_value(line, f"{path}:{number}")
            if not isinstance(fields, dict):
                raise UserError(f"{path}:{number}: expected a JSON object, found a {type(fields).__name__}.")
            yield f"{path}:{number}", f"{name}:{number}", fields


@dataclass(frozen=True)
class WikiText(Format):
    """WikiText (Merity et al., 2017): an article is a document, its paragraphs are lines of tokens.

    A line such as ` = Points ; A = ` between two others is part of a broken formula and no title. Articles of nothing
    but headings are left out and counted.

    Args:
        splitter: how a paragraph becomes sentences; see `depgen.data.tokenization`.
        tokens: as of `Lines`.
    """

    splitter: SentenceSplitter = "rules"
    tokens: Tokens = "whitespace"

    def read(self, path: Path, name: str) -> Iterator[Document]:
        """The articles of a file; identifiers are their titles, with file and line."""
        return self.articles(read_lines(path), where=str(path), name=name)

    def articles(self, lines: Iterable[tuple[int, str]], *, where: str, name: str) -> Iterator[Document]:
        """The articles of numbered lines.

        Args:
            lines: of WikiText.
            where: what messages call them: a file.
            name: what identifiers call them.
        """
        empty, identifier, sentences = 0, "", list[Sentence]()
        end = (0, "", (1, ""))  # as where another title follows
        for number, line, heading in chain(_with_headings(iter(lines)), [end]):
            if heading is not None and heading[0] == 1:
                if sentences:
                    yield Document(tuple(sentences), identifier)
                elif identifier:
                    empty += 1
                identifier, sentences = f"{heading[1]} ({name}:{number})", []
            elif heading is None and line.strip():
                if not identifier:
                    raise UserError(f"{where}:{number}: expected an article's title such as ` = Title = `, found text.")
                sentences += [Sentence(words_of(text, self.tokens)) for text in sentences_of(line, self.splitter)]
        log_left_out(empty, "articles of nothing but headings", where)


_HEADING = re.compile(r" ((?:= )+)([^=\s](?:.*[^=\s])?) \1")
"""` = Title = ` of an article, ` = = Heading = = ` of its sections; a heading has a blank line before and after."""


def _with_headings(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str, tuple[int, str] | None]]:
    """Number and text of each line, and where it is a heading its level, 1 for a title, and words."""
    before = ""
    number, line = next(lines, (0, ""))
    for next_number, after in chain(lines, [(0, "")]):
        match = _HEADING.fullmatch(f" {line.strip()} ") if not before.strip() and not after.strip() else None
        yield number, line, (len(match[1]) // 2, match[2]) if match else None
        before, number, line = line, next_number, after


@dataclass(frozen=True)
class TaggedWords(Format):
    """Words with their tags, `word/tag`, a sentence a line; the file is one document, such as those of Brown."""

    def read(self, path: Path, name: str) -> Iterator[Document]:
        """The document of a file; its identifier is the file's name."""
        lines = ((number, line) for number, line in read_lines(path) if line.strip())
        yield Document(tuple(_tagged_sentence(line, f"{path}:{number}") for number, line in lines), name)


def _tagged_sentence(line: str, where: str) -> Sentence:
    """Words and tags, which follow the last slash of each; `//.` is a slash tagged as a stop."""
    words, tags = [], []
    for token in line.split():
        word, slash, tag = token.rpartition("/")
        if not (word and slash and tag):
            raise UserError(f"{where}: expected word/tag, found {token!r}.")
        words.append(word)
        tags.append(tag)
    return Sentence(tuple(words), tags=tuple(tags))


@dataclass(frozen=True)
class Conllu(Format):
    """CoNLL-U with its trees and tags.

    Args:
        tags: the column of part-of-speech tags.
        documents_by: whether a document is what `# newdoc` begins or each sentence.
        graphs: whether sentences get the enhanced graphs in DEPS too.
    """

    version: ClassVar[int] = 2
    tags: TagColumn = "xpos"
    documents_by: Literal["newdoc", "sentence"] = "newdoc"
    graphs: bool = False

    def read(self, path: Path, name: str) -> Iterator[Document]:
        """The documents of a file; identifiers are those of the treebank."""
        return read_conllu(path, name, tags=self.tags, by_document=self.documents_by == "newdoc", graphs=self.graphs)


@dataclass(frozen=True)
class Sdp(Format):
    """Semantic dependency graphs in SDP files of SemEval 2014 or 2015, one representation (DM, PAS or PSD) a file.

    Each sentence is a document.
    """

    version: ClassVar[int] = 3

    def read(self, path: Path, name: str) -> Iterator[Document]:
        """The documents of a file; identifiers are the file's."""
        return read_sdp(path, name)


@dataclass(frozen=True)
class DependencyColumns(Format):
    """Form, tag and head of each word, separated by tabs, as in NLTK's `.dp` files; a file is a document."""

    version: ClassVar[int] = 2

    def read(self, path: Path, name: str) -> Iterator[Document]:
        """The document of a file; its identifier is the file's path below the corpus's folder."""
        blocks = groupby(read_lines(path), key=lambda numbered: not numbered[1].strip())
        yield Document(tuple(_dependency_tree(list(lines), path) for is_blank, lines in blocks if not is_blank), name)


_DEPENDENCY_ROW = re.compile(r"(?P<form>[^\t]*\S[^\t]*)\t(?P<tag>[^\t]*)\t(?P<head>\d{1,9})\s*")


def _dependency_tree(lines: Sequence[tuple[int, str]], path: Path) -> Sentence:
    rows = []
    for number, line in lines:
        row = _DEPENDENCY_ROW.fullmatch(line)
        if row is None:
            raise UserError(
                f"{path}:{number}: expected form, tag and head (a number) separated by tabs, found {line[:80]!r}"
            )
        rows.append(row.groups())
    words, tags, column = zip(*rows, strict=True)
    heads = tuple(map(int, column))
    check_tree(heads, lambda token: f"{path}:{lines[token - 1][0]}", words=words)
    return Sentence(words, heads, tags=tags)


@dataclass(frozen=True)
class Brackets(Format):
    """Words, tags and constituents of trees such as those of the Penn Treebank's `.mrg` files; a file is a document.

    Traces are left out, and labels are categories alone (`NP` of `NP-SBJ-1`). Sentences of nothing but traces, and
    failed parses (`(())`), are left out and counted. There are no heads: constituents have none.
    """

    def read(self, path: Path, name: str) -> Iterator[Document]:
        """The document of a file; its identifier is the file's path below the corpus's folder."""
        read = [without_tags(sentence, TRACE_TAGS) for sentence in read_bracketed(path)]
        if sentences := tuple(sentence for sentence in read if sentence.words):
            yield Document(sentences, name)
        log_left_out(len(read) - len(sentences), "sentences without words", str(path))


def _plain_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file of plain text, as far as the ending of its name says no other format."""
    kind = format_of(path)
    if kind != "text":
        raise UserError(f"{path}: expected plain text, found the ending .{kind}: take a format of depgen.data.formats.")
    return read_lines(path)
