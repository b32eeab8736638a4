"""Rows of named columns as documents: objects of JSON lines, and rows of datasets."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from depgen.data.corpus import Versioned, log_left_out
from depgen.data.tokenization import SentenceSplitter, Tokens, sentences_of, words_of
from depgen.errors import UserError, did_you_mean
from depgen.trees.sentence import Document, Sentence, check_tree

Kind = Literal["tokens", "sentences", "text", "heads", "relations", "tags", "identifier"]
Row = Mapping[str, Any]
"""The values of a row by the names of their columns."""
USUAL_COLUMNS: Mapping[Kind, Sequence[str]] = {
    "tokens": ("tokens", "words", "forms", "form"),
    "sentences": ("sentences",),
    "text": ("text", "sentence", "document", "article", "content", "story"),
    "heads": ("heads", "head"),
    "relations": ("relations", "deprel", "deprels"),
    "tags": ("xpos", "tags", "pos", "upos"),
    "identifier": ("identifier", "sent_id", "id", "idx"),
}
"""Names by which columns are found that nobody names, the first of those that are there."""
_CONTENTS: Sequence[Kind] = ("tokens", "sentences", "text")
_OF_TOKENS: Sequence[Kind] = ("tokens", "heads", "relations", "tags")
_NUMBER = re.compile(r"\d{1,9}")
_NONE = (None, "None", "_", "")


@dataclass(frozen=True, kw_only=True)
class NamedColumns(Versioned):
    """Reads rows as documents, each from a column of one of three kinds, the first of these that is named, or found.

    - `tokens`: a list of words (a sentence) or of lists of words (a document). Their `heads`, `relations` and `tags`
      are lists of the same length.
    - `sentences`: a list of strings or of lists of words.
    - `text`: a string.

    Heads are numbers or strings and count words from 1; 0 is a root. A token without one ("None", "_", null), such as
    a range of words or an empty node of Universal Dependencies, is left out and counted; a sentence whose tokens all
    lack one has no tree. Rows and listed sentences without a token are left out and counted.

    Args:
        columns: the name of each kind of column that has no usual one (`USUAL_COLUMNS`). Besides the kinds above:
            `identifier`, of the document, by default its place.
        splitter: how a text becomes sentences; see `depgen.data.tokenization`.
        tokens: how a string becomes tokens: at white space, or by `depgen.data.tokenization`.
    """

    columns: Mapping[Kind, str] = field(default_factory=dict)
    splitter: SentenceSplitter = "rules"
    tokens: Tokens = "whitespace"

    def documents_of(self, rows: Iterable[tuple[str, str, Row]], where: str) -> Iterator[tuple[Document, Row]]:
        """The document of each row, and the row.

        Args:
            rows: the place of each for messages, the identifier where the row has none, and the row.
            where: what messages call all of them.
        """
        names, columns = list[str](), dict[Kind, str]()
        left_out, any_document = Counter[str](), False
        for place, name, row in rows:
            if list(row) != names:
                names = list(row)
                columns = self._columns_of(names, place)
            values: dict[Kind, Any] = {kind: row[column] for kind, column in columns.items()}
            sentences = tuple(sentence for sentence in self._sentences(values, place, left_out) if sentence.words)
            if sentences:
                any_document = True
                identifier = "" if values.get("identifier") is None else str(values["identifier"]).strip()
                yield Document(sentences, identifier or name), row
            else:
                left_out["rows without a token"] += 1
        if not any_document:
            raise UserError(f"{where}: expected documents, found no row with a token.")
        for what, count in left_out.items():
            log_left_out(count, what, where)

    def _columns_of(self, names: Sequence[str], where: str) -> dict[Kind, str]:
        """The columns that are read of all that rows have."""
        for kind, name in self.columns.items():
            if name not in names:
                raise UserError(
                    f"{where}: expected the column {name!r} (of {kind}), found the columns {', '.join(names)}."
                    f"{did_you_mean(name, names)}"
                )
        usual = {kind: name for kind, known in USUAL_COLUMNS.items() for name in reversed(known) if name in names}
        contents = [kind for columns in (self.columns, usual) for kind in _CONTENTS if kind in columns]
        if not contents:
            raise UserError(
                f"{where}: expected a column of tokens, sentences or text, found the columns {', '.join(names)}. Name "
                "one by `columns`, such as columns: {text: COLUMN}."
            )
        read = ("identifier", *(_OF_TOKENS if contents[0] == "tokens" else contents[:1]))
        return {kind: name for kind, name in {**usual, **self.columns}.items() if kind in read}

    def _sentences(self, values: Mapping[Kind, Any], where: str, left_out: Counter[str]) -> Iterator[Sentence]:
        """The sentences of a row, maybe without words."""
        if "text" in values:
            text = values["text"] or ""
            if not isinstance(text, str):
                raise UserError(f"{where}: expected a string in the column of text, found {str(text)[:60]!r}.")
            yield from (Sentence(words_of(sentence, self.tokens)) for sentence in sentences_of(text, self.splitter))
        elif "sentences" in values:
            listed = [self._words(sentence, where) for sentence in _list_of(values, "sentences", where)]
            left_out["sentences without a token"] += listed.count(()) if any(listed) else 0
            yield from map(Sentence, listed)
        elif any(isinstance(value, list) for value in _list_of(values, "tokens", where)):
            for number, sentence in enumerate(_transposed(values, where), start=1):
                yield self._sentence(sentence, f"{where}, sentence {number}", left_out)
        else:
            yield self._sentence(values, where, left_out)

    def _sentence(self, values: Mapping[Kind, Any], where: str, left_out: Counter[str]) -> Sentence:
        """A sentence, without the tokens that have no head."""
        tokens = _transposed(values, where)
        with_head = [token for token in tokens if token.get("heads") not in _NONE]
        heads = None
        if with_head:
            left_out["tokens without a head"] += len(tokens) - len(with_head)
            tokens = with_head
            for token in tokens:
                if not _NUMBER.fullmatch(str(token["heads"])):
                    raise UserError(f"{where}: expected the number of a head or 0, found {str(token['heads'])[:40]!r}.")
            heads = tuple(int(token["heads"]) for token in tokens)
        words = self._words([token["tokens"] for token in tokens], where)
        if heads is not None:
            check_tree(heads, where, words=words)
        return Sentence(words, heads, _names(tokens, "relations"), _names(tokens, "tags"))

    def _words(self, value: object, where: str) -> tuple[str, ...]:
        """The words of a sentence that is a string or a list of tokens."""
        if isinstance(value, str):
            return words_of(value, self.tokens)
        if not isinstance(value, list) or not all(isinstance(word, str) and word.strip() for word in value):
            raise UserError(
                f"{where}: expected each sentence as a string or a list of tokens that are not blank, found "
                f"{str(value)[:80]}."
            )
        return tuple(value)


def _names(tokens: Sequence[Mapping[Kind, Any]], kind: Kind) -> tuple[str, ...] | None:
    """Relations or tags, `_` for none; None where there is none."""
    names = tuple("_" if token.get(kind) in _NONE else str(token[kind]) for token in tokens)
    return None if set(names) <= {"_"} else names


def _list_of(values: Mapping[Kind, Any], kind: Kind, where: str) -> list[Any]:
    value = values.get(kind)
    if value is not None and not isinstance(value, list):
        raise UserError(f"{where}: expected a list in the column of {kind}, found {str(value)[:60]!r}.")
    return value or []


def _transposed(values: Mapping[Kind, Any], where: str) -> list[dict[Kind, Any]]:
    """The values of each token, or each sentence, from lists of the same length; others than tokens may be absent."""
    lists = {kind: _list_of(values, kind, where) for kind in _OF_TOKENS if kind == "tokens" or values.get(kind)}
    if len({len(column) for column in lists.values()}) > 1:
        lengths = ", ".join(f"{len(column)} {kind}" for kind, column in lists.items())
        raise UserError(f"{where}: expected as many values in each column, found {lengths}.")
    return [dict(zip(lists, place, strict=True)) for place in zip(*lists.values(), strict=True)]
