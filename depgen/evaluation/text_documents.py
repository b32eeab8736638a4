"""Text files of any form as documents of sentences, each with its place in the file."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from depgen.data.json_documents import JsonDocuments
from depgen.data.tokenization import token_spans, tokenize
from depgen.errors import UserError
from depgen.locations import json_value
from depgen.trees.conllu import TagColumn, read_blocks
from depgen.trees.lines import read_lines
from depgen.trees.sentence import Sentence

InputFormat = Literal["text", "conllu", "jsonl"]
Tokens = Literal["whitespace", "rules"]
Span = tuple[int, int]
"""The first character of a word in its text, and the one after its last."""
_WORD = re.compile(r"\S+")
_JSON_TEXT = ("sentences", "text")
_ENDINGS: dict[str, InputFormat] = {".conllu": "conllu", ".jsonl": "jsonl"}


@dataclass(frozen=True)
class TextDocument:
    """A document of a file.

    Attributes:
        identifier: what the file calls it, or file and line.
        sentences: none is without words.
        places: file and line of each sentence; of JSON, those of the document or its identifier.
        spans: the characters of each word of each sentence, in a string that was given as it is; None in files.
        string: the string that was given; None in files.
        fields: what a JSON line says about the document besides its text, such as item and condition.
        sentence_ids: the `sent_id` of each sentence; empty where the file has none.
    """

    identifier: str
    sentences: tuple[Sentence, ...]
    places: tuple[str, ...]
    spans: tuple[tuple[Span, ...], ...] | None = None
    string: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)
    sentence_ids: tuple[str | None, ...] = ()

    @property
    def text(self) -> str:
        """The string that was given; of files, the words of a sentence in each line."""
        if self.string is not None:
            return self.string
        return "\n".join(" ".join(sentence.words) for sentence in self.sentences)

    @property
    def spans_of_sentences(self) -> Sequence[Sequence[Span | None]]:
        """The span of each word; None for words without one."""
        return [[None] * len(each) for each in self.sentences] if self.spans is None else self.spans


def document_of(text: str, *, name: str = "text", tokens: Tokens = "whitespace") -> TextDocument:
    r"""A string as a document: each line that is not blank is a sentence.

    >>> document_of("the cat\n\n ran .").spans
    (((0, 3), (4, 7)), ((10, 13), (14, 15)))
    """
    found, places, start = [], [], 0
    for number, line in enumerate(text.split("\n"), start=1):
        if spans := tuple((start + first, start + last) for first, last in _spans(line, tokens)):
            found.append(spans)
            places.append(f"{name}:{number}")
        start += len(line) + 1
    sentences = tuple(Sentence(tuple(text[first:last] for first, last in spans)) for spans in found)
    return TextDocument(name, sentences, tuple(places), tuple(found), text)


def _spans(line: str, tokens: Tokens) -> list[Span]:
    if tokens == "rules":
        return token_spans(line)
    return [match.span() for match in _WORD.finditer(line)]


def read_documents(
    path: Path, *, input_format: InputFormat | None = None, tokens: Tokens = "whitespace", tags: TagColumn = "xpos"
) -> list[TextDocument]:
    """The documents of a file.

    Args:
        path: text, one sentence a line and blank lines between documents; CoNLL-U, by `# newdoc`, each sentence before
            the first a document; or JSON lines with the field `sentences` or `text`. `.gz` is unpacked.
        input_format: by default by the name's ending: `.conllu`, `.jsonl`, all others text.
        tokens: (text and JSON) words are separated by white space, or by rules for English.
        tags: (CoNLL-U) the column of tags, which tell punctuation from words.

    Raises:
        UserError: the file is missing, holds no sentence, or does not read as said (line named).
    """
    found = input_format or _ENDINGS.get(Path(path.name.removesuffix(".gz")).suffix, "text")
    if found == "conllu":
        return list(_of_conllu(path, tags))
    if found == "jsonl":
        return list(_of_json(path, tokens))
    documents = list(_of_text(path, tokens))
    if not documents:
        raise UserError(f"{path}: expected a sentence on each line, found only blank lines.")
    return documents


def _of_text(path: Path, tokens: Tokens) -> Iterator[TextDocument]:
    cut = tokenize if tokens == "rules" else str.split
    sentences: list[tuple[str, Sentence]] = []
    for number, line in read_lines(path):
        if line.strip():
            sentences.append((f"{path.name}:{number}", Sentence(tuple(cut(line)))))
        elif sentences:
            yield _document(sentences[0][0], sentences)
            sentences = []
    if sentences:
        yield _document(sentences[0][0], sentences)


def _of_conllu(path: Path, tags: TagColumn) -> Iterator[TextDocument]:
    sentences: list[tuple[str, Sentence]] = []
    ids: list[str | None] = []
    identifier: str | None = None

    def document() -> TextDocument:
        found = _document(identifier or sentences[0][0], sentences)
        return replace(found, sentence_ids=tuple(ids) if any(ids) else ())

    for block in read_blocks(path):
        place, newdoc, sentence_id = (
            f"{path.name}:{block.numbers[0]}",
            block.comment("newdoc"),
            block.comment("sent_id"),
        )
        if sentences and (newdoc or identifier is None):
            yield document()
            sentences, ids = [], []
        if newdoc:
            identifier = newdoc[1] or place
        sentences.append((place, block.bare_sentence(tags)))
        ids.append(sentence_id and sentence_id[1])
    yield document()


def _of_json(path: Path, tokens: Tokens) -> Iterator[TextDocument]:
    """By the project's reader, whose fields the first object names."""
    number, first = next(((number, line) for number, line in read_lines(path) if line.strip()), (1, ""))
    try:
        fields = json_value(first, str(path))
    except UserError:
        fields = None  # named by the reader, with its line
    if isinstance(fields, dict) and not fields.keys() & {*_JSON_TEXT}:
        raise UserError(
            f"{path}:{number}: expected the field 'text' with a string, or 'sentences' with a list of them, found "
            f"{', '.join(map(repr, fields)) or 'none'}: rename the field that holds the text."
        )
    listed = isinstance(fields, dict) and "sentences" in fields
    corpus = JsonDocuments(
        str(path.absolute().parent), test=path.name, sentences_field="sentences" if listed else None, tokens=tokens
    )
    for document, found in corpus.read_with_fields(path, "test"):
        others = {name: value for name, value in found.items() if name not in _JSON_TEXT}
        yield replace(
            _document(document.identifier, [(document.identifier, each) for each in document.sentences]), fields=others
        )


def _document(identifier: str, sentences: list[tuple[str, Sentence]]) -> TextDocument:
    places, read = zip(*sentences, strict=True)
    return TextDocument(identifier, read, places)
