"""Documents as JSON lines, one object each: articles with raw text or with sentences already cut."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from depgen.data.corpus import Split
from depgen.data.files import SplitFiles, log_left_out
from depgen.data.overlap import Overlap
from depgen.data.tokenization import SentenceSplitter, sentences_of, tokenize
from depgen.errors import UserError
from depgen.locations import json_value
from depgen.trees.lines import read_lines
from depgen.trees.sentence import Document, Sentence


class JsonDocuments(SplitFiles):
    """A corpus of JSON lines (`.jsonl`, `.jsonl.gz`), one document each; by default Wikinews.

    A document's sentences are a list under `sentences_field` (of strings, or of lists of tokens), else its text under
    `text_field` is cut. Documents without a token, and listed sentences without one, are left out and counted.

    Args:
        folder: where the files lie, under `$DEPGEN_DATA` unless absolute.
        train: the training split's file.
        valid: the validation split's file.
        test: the test split's file.
        text_field: the field of the text; read where `sentences_field` is None.
        sentences_field: the field of the list of sentences.
        identifier_field: the field of the identifier; file and line where an object lacks it or has null.
        sentence_splitter: how a text becomes sentences; see `depgen.data.tokenization`.
        tokens: how a string becomes tokens: at white space, or by `depgen.data.tokenization`.
        lowercase: whether words are lower-cased.
        name: what results call the corpus.
        overlap: what becomes of training documents that equal one of validation or test: see `depgen.data.overlap`.
    """

    how_to_get = 'Put one JSON object on each line, such as {"id": "1", "text": "…"}; see the fields\' arguments.'

    def __init__(
        self,
        folder: str = "wikinews",
        *,
        train: str = "train.jsonl.gz",
        valid: str = "valid.jsonl.gz",
        test: str = "test.jsonl.gz",
        text_field: str = "text",
        sentences_field: str | None = None,
        identifier_field: str = "id",
        sentence_splitter: SentenceSplitter = "rules",
        tokens: Literal["whitespace", "rules"] = "whitespace",
        lowercase: bool = False,
        name: str | None = None,
        overlap: Overlap | None = None,
    ) -> None:
        files: dict[Split, str] = {"train": train, "valid": valid, "test": test}
        super().__init__(folder, files, lowercase=lowercase, name=name, overlap=overlap)
        self.text_field, self.sentences_field, self.identifier_field = text_field, sentences_field, identifier_field
        self.sentence_splitter, self.tokens = sentence_splitter, tokens

    def read(self, path: Path, split: Split) -> Iterator[Document]:
        """The documents of a file; identifiers are in a field, or file and line."""
        return (document for document, _ in self.read_with_fields(path, split))

    def read_with_fields(self, path: Path, split: Split) -> Iterator[tuple[Document, dict[str, Any]]]:
        """The documents of a file, each with all fields of its object."""
        kept = empty = blank = 0
        for number, line in read_lines(path):
            if not line.strip():
                continue
            fields = _json_object(line, f"{path}:{number}")
            where = f"{path}:{number}"
            words = [
                words_of(sentence, self.tokens, where=where, column=str(self.sentences_field))
                for sentence in self._sentences(fields, where)
            ]
            if sentences := tuple(Sentence(sentence) for sentence in words if sentence):
                blank += (len(words) - len(sentences)) * (self.sentences_field is not None)
                identifier = fields.get(self.identifier_field)
                yield Document(sentences, f"{path.name}:{number}" if identifier is None else str(identifier)), fields
                kept += 1
            else:
                empty += 1
        if not kept:
            raise UserError(f"{path}: expected documents, found none with a token.")
        log_left_out(blank, "sentences without a token", corpus=self.name, split=split)
        log_left_out(empty, "documents without a token", corpus=self.name, split=split)

    def options(self) -> dict[str, object]:
        """See `SplitFiles`."""
        return {key: value for key, value in vars(self).items() if key not in ("folder", "files", "name", "overlap")}

    def _sentences(self, fields: dict[str, Any], where: str) -> list[Any]:
        name = self.sentences_field or self.text_field
        expected = list if self.sentences_field else str
        if not isinstance(fields.get(name), expected):
            raise UserError(
                f"{where}: expected the field {name!r} with a {'list' if self.sentences_field else 'string'}, "
                f"found the fields {', '.join(f'{key} ({type(value).__name__})' for key, value in fields.items())}."
            )
        value: Any = fields[name]
        if self.sentences_field:
            return list(value)
        return list(sentences_of(value, self.sentence_splitter))


def words_of(
    sentence: Any,  # noqa: ANN401, a JSON value
    tokens: Literal["whitespace", "rules"],
    *,
    where: str,
    column: str,
) -> tuple[str, ...]:
    """The words of a sentence, given as a string or as a list of tokens.

    Args:
        sentence: what a file holds.
        tokens: how a string becomes tokens.
        where: its place, for messages.
        column: the field or column that it is in.

    Raises:
        UserError: it is neither, or a token is blank.
    """
    if isinstance(sentence, str):
        return tuple(tokenize(sentence) if tokens == "rules" else sentence.split())
    if not isinstance(sentence, list) or not all(isinstance(word, str) and word.strip() for word in sentence):
        raise UserError(
            f"{where}: expected each sentence of {column!r} as a string or a list of tokens that are not blank, found "
            f"{json.dumps(sentence)[:80]}."
        )
    return tuple(sentence)


def _json_object(line: str, where: str) -> dict[str, Any]:
    fields = json_value(line, where)
    if not isinstance(fields, dict):
        raise UserError(f"{where}: expected a JSON object, found a {type(fields).__name__}.")
    return fields
