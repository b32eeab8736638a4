"""Rows of a dataset as documents: which columns hold what, and how a row's values become sentences."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import groupby
from typing import Any, Literal

from depgen.data.json_documents import words_of
from depgen.data.tokenization import SentenceSplitter, sentences_of
from depgen.errors import UserError, did_you_mean
from depgen.trees.sentence import Document, Sentence
from depgen.trees.tree import check_tree

Root = Literal[0, -1]
Content = Literal["tokens", "sentences", "text"]

KNOWN: Mapping[str, Sequence[str]] = {
    "tokens": ("tokens", "words", "forms", "form"),
    "sentences": ("sentences",),
    "text": ("text", "sentence", "document", "article", "content", "story"),
    "heads": ("heads", "head"),
    "relations": ("relations", "deprel", "deprels"),
    "tags": ("xpos", "tags", "pos", "upos"),
    "identifier": ("identifier", "sent_id", "id", "idx"),
}
"""Names by which columns are found that nobody names."""
_NUMBER = re.compile(r"-?\d{1,9}")
_NONE = (None, "None", "_", "")


@dataclass(frozen=True)
class Columns:
    """The names of the columns that rows are read by; None where it is not named or not there."""

    text: str | None = None
    sentences: str | None = None
    tokens: str | None = None
    heads: str | None = None
    relations: str | None = None
    tags: str | None = None
    identifier: str | None = None
    document: str | None = None

    def __post_init__(self) -> None:
        named = [name for name in ("text", "sentences", "tokens") if getattr(self, name) is not None]
        trees = [name for name in ("heads", "relations", "tags") if getattr(self, name) is not None]
        if len(named) > 1 or (trees and named not in ([], ["tokens"])):
            raise UserError(
                "Expected one of text_column, sentences_column and tokens_column (only this one with heads_column, "
                f"relations_column, tags_column), found {', '.join(f'{each}_column' for each in named + trees)}."
            )

    @property
    def content(self) -> Content:
        """Which column the words are in."""
        return "tokens" if self.tokens else "sentences" if self.sentences else "text"

    def found_in(self, names: Sequence[str], where: str) -> "Columns":
        """These columns and, for each that is not named, the one of a usual name.

        Raises:
            UserError: a named column is not there, or none holds words.
        """
        for each in fields(self):
            name = getattr(self, each.name)
            if name is not None and name not in names:
                raise UserError(
                    f"{where}: expected the column {name!r} ({each.name}_column), found the columns "
                    f"{', '.join(names)}.{did_you_mean(name, names)}"
                )
        usual = {kind: next((name for name in known if name in names), None) for kind, known in KNOWN.items()}
        trees = any(getattr(self, name) for name in ("heads", "relations", "tags"))
        contents = [name for name in ("text", "sentences", "tokens") if getattr(self, name)]
        contents = contents or [name for name in ("tokens", "sentences", "text") if usual[name]][:1]
        if not contents or (trees and contents != ["tokens"]):
            raise UserError(
                f"{where}: expected a column of tokens, sentences or text, found the columns {', '.join(names)}. Name "
                "one by tokens_column, sentences_column or text_column."
            )
        wanted = [*contents, "identifier", *(("heads", "relations", "tags") if contents == ["tokens"] else ())]
        return replace(self, **{name: getattr(self, name) or usual[name] for name in wanted})


@dataclass(frozen=True)
class RowReader:
    """Makes documents of rows.

    Attributes:
        columns: those that are read, as `Columns.found_in` gives them.
        labels: of columns whose values are numbers of classes, the names of these classes.
        root: what the head of a root is: 0 where heads count words from 1, -1 where they count from 0.
        splitter: how a text becomes sentences.
        tokens: how a string becomes tokens.
        where: what messages call the split.
        left_out: how many of what was left out so far.
    """

    columns: Columns
    labels: Mapping[str, Sequence[str]]
    root: Root
    splitter: SentenceSplitter
    tokens: Literal["whitespace", "rules"]
    where: str
    left_out: Counter[str] = field(default_factory=Counter)

    def documents(self, rows: Iterable[tuple[int, Mapping[str, Any]]]) -> Iterator[Document]:
        """A document a row, or, where a column of documents is named, one a series of rows with one value in it."""
        if self.columns.document is None:
            groups = ((self._identifier(number, row), [(number, row)]) for number, row in rows)
        else:
            column = self.columns.document
            groups = ((str(value), list(part)) for value, part in groupby(rows, key=lambda pair: pair[1][column]))
        for identifier, part in groups:
            sentences = [each for number, row in part for each in self._sentences(row, f"{self.where}, row {number}")]
            if sentences:
                yield Document(tuple(sentences), identifier)

    def lines(self, rows: Iterable[tuple[int, Mapping[str, Any]]]) -> Iterator[tuple[int, str]]:
        """The number and the text of each row, as lines of a file."""
        for number, row in rows:
            yield number, self._text(row, f"{self.where}, row {number}")

    def words(self, text: str) -> tuple[str, ...]:
        """The tokens of a string."""
        return words_of(text, self.tokens, where=self.where, column=str(self.columns.text))

    def _identifier(self, number: int, row: Mapping[str, Any]) -> str:
        found = row.get(self.columns.identifier) if self.columns.identifier else None
        return f"{self.where}, row {number}" if found is None or not str(found).strip() else str(found).strip()

    def _sentences(self, row: Mapping[str, Any], where: str) -> list[Sentence]:
        """The sentences of a row; where there is none, it is counted."""
        if self.columns.content == "tokens":
            found = list(self._annotated(row, where))
        else:
            name = getattr(self.columns, self.columns.content)
            texts = (
                self._listed(row, name, where)
                if self.columns.content == "sentences"
                else (sentences_of(self._text(row, where), self.splitter))
            )
            found = [Sentence(words_of(each, self.tokens, where=where, column=name)) for each in texts]
        kept = [sentence for sentence in found if sentence.words]
        if self.columns.content == "sentences" and kept:
            self.left_out["sentences without a token"] += len(found) - len(kept)
        self.left_out["rows without a token"] += not kept
        return kept

    def _text(self, row: Mapping[str, Any], where: str) -> str:
        value = row[str(self.columns.text)]
        if value is not None and not isinstance(value, str):
            raise UserError(_expected("a string", str(self.columns.text), value, where))
        return value or ""

    def _listed(self, row: Mapping[str, Any], name: str, where: str) -> list[Any]:
        value = row[name]
        if value is not None and not isinstance(value, list):
            raise UserError(_expected("a list", name, value, where))
        return value or []

    # -- tokens with trees ----------------------------------------------------------------------------------------

    def _annotated(self, row: Mapping[str, Any], where: str) -> Iterator[Sentence]:
        """The sentence of a row, or its sentences where the columns hold lists of lists."""
        names = {kind: getattr(self.columns, kind) for kind in ("tokens", "heads", "relations", "tags")}
        values = {kind: self._listed(row, name, where) for kind, name in names.items() if name is not None}
        if not any(isinstance(each, list) for each in values["tokens"]):
            yield self._sentence(values, where)
            return
        for place in range(len(values["tokens"])):
            part = {}
            for kind, value in values.items():
                if value and (place >= len(value) or not isinstance(value[place], list)):
                    raise UserError(_expected("a list for each sentence", str(names[kind]), value, where))
                part[kind] = value[place] if value else []
            yield self._sentence(part, f"{where}, sentence {place + 1}")

    def _sentence(self, values: Mapping[str, list[Any]], where: str) -> Sentence:
        """A sentence, without the tokens that have no head: ranges of several words, and empty nodes.

        Raises:
            UserError: columns of unequal length, a blank token, heads that form no tree, a relation without a name.
        """
        filled = {kind: value for kind, value in values.items() if value or kind == "tokens"}
        lengths = {str(getattr(self.columns, kind)): len(value) for kind, value in filled.items()}
        if len(set(lengths.values())) > 1:
            found = ", ".join(f"{size} in {name!r}" for name, size in lengths.items())
            raise UserError(f"{where}: expected as many values in each column, found {found}.")
        headless = [head in _NONE for head in filled.get("heads", ())]
        if headless and all(headless):
            filled.pop("heads")
        elif any(headless):
            self._check_numbering(where)
            self.left_out["tokens without a head"] += sum(headless)
            filled = {k: [e for e, left in zip(v, headless, strict=True) if not left] for k, v in filled.items()}
        words = words_of(filled["tokens"], self.tokens, where=where, column=str(self.columns.tokens))
        heads = self._heads(filled["heads"], words, where) if "heads" in filled else None
        relations, tags = (self._names(filled.get(kind), kind, where) for kind in ("relations", "tags"))
        return Sentence(words, heads, relations, tags)

    def _check_numbering(self, where: str) -> None:
        if self.root == -1:
            raise UserError(
                f"{where}: expected a head for each token, found tokens without one. It is unclear whether heads "
                "that count from 0 count those: write rows without them."
            )

    def _heads(self, values: list[Any], words: Sequence[str], where: str) -> tuple[int, ...]:
        for token, value in enumerate(values, start=1):
            if isinstance(value, bool) or not _NUMBER.fullmatch(str(value)):
                raise UserError(f"{where}: expected the number of token {token}'s head, found {str(value)[:40]!r}.")
        heads = [int(value) for value in values]
        if self.root == 0 and -1 in heads:
            raise UserError(
                f"{where}: expected heads that count words from 1, 0 for a root, found -1. Where they count from 0 "
                "and a root has -1, set root: -1."
            )
        if self.root == -1 and -1 not in heads:
            raise UserError(
                f"{where}: expected heads that count words from 0, -1 for a root, found no -1. Where they count from 1 "
                "and a root has 0, set root: 0."
            )
        counted = tuple(head - self.root for head in heads)
        check_tree(counted, where, words=words)
        return counted

    def _names(self, values: list[Any] | None, kind: str, where: str) -> tuple[str, ...] | None:
        """Relations or tags by name; None where there is none."""
        column = str(getattr(self.columns, kind))
        names = self.labels.get(column)
        found = []
        for value in values or ():
            if isinstance(value, int) and names is not None and -1 <= value < len(names):
                found.append(names[value] if value >= 0 else "_")
            elif isinstance(value, str) or value is None:
                found.append(value if value not in _NONE else "_")
            else:
                raise UserError(_expected("names, or numbers of a ClassLabel", column, value, where))
        return None if all(name == "_" for name in found) else tuple(found)


def labels_of(features: Mapping[str, Any] | None) -> dict[str, list[str]]:
    """The names of classes of each column that holds their numbers, in lists of any depth."""
    found = {name: _labels(feature) for name, feature in (features or {}).items()}
    return {name: labels for name, labels in found.items() if labels is not None}


def _labels(feature: Any) -> list[str] | None:  # noqa: ANN401
    while not hasattr(feature, "names"):
        inner = feature[0] if isinstance(feature, list) and feature else getattr(feature, "feature", None)
        if inner is None:
            return None
        feature = inner
    return list(feature.names)


def _expected(what: str, column: str, value: object, where: str) -> str:
    return f"{where}: expected {what} in the column {column!r}, found {type(value).__name__} {str(value)[:60]!r}."
