"""Text files of any form as documents of sentences, each with its place in the file."""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from depgen.data.formats import JsonLines
from depgen.data.tokenization import split_sentences, token_spans, tokenize
from depgen.errors import UserError, check_one_of
from depgen.evaluation.file_texts import TEXT, field_of
from depgen.locations import json_value
from depgen.trees.conllu import TagColumn, read_blocks
from depgen.trees.sdp import read_sdp_blocks
from depgen.trees.sentence import Sentence
from depgen.trees.text_files import FileFormat, Separator, format_of, read_columns, read_lines

logger = logging.getLogger(__name__)

Tokens = Literal["whitespace", "rules"]
Span = tuple[int, int]
"""The first character of a word in its text, and the one after its last."""
_WORD = re.compile(r"\S+")
_WITH_PUNCTUATION = re.compile(r"\w[.?!]+[\"']*$")
_JSON_TEXT = ("sentences", "text", "sentence")


@dataclass(frozen=True)
class TextDocument:
    """A document of a file.

    Attributes:
        identifier: what the file calls it, or file and line.
        sentences: none is without words.
        places: file and line of each sentence; of JSON, those of the document or its identifier.
        spans: the characters of each word of each sentence, in a string that was given as it is; None in files.
        string: the string that was given; None in files.
        fields: what a JSON line or a row of a table says about the document besides its text, such as item and
            condition.
        sentence_ids: the `sent_id` of each sentence; empty where the file has none.
        by_spaces: whether its words are what white space separates in a text, and so may hold punctuation.
    """

    identifier: str
    sentences: tuple[Sentence, ...]
    places: tuple[str, ...]
    spans: tuple[tuple[Span, ...], ...] | None = None
    string: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)
    sentence_ids: tuple[str | None, ...] = ()
    by_spaces: bool = False

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


Text = str | TextDocument
"""A string, each line of which that is not blank is a sentence, or a document of a file."""
TextWithFields = Text | Mapping[str, Any]
"""A text, or a string under `text` or `sentence` with other fields, such as item and condition, as a table has it."""


def check_texts(texts: object, name: str = "texts") -> None:
    """Raises UserError for a table such as a `pandas.DataFrame`, which is iterated over by its columns' names."""
    if not callable(getattr(texts, "columns", check_texts)):
        raise UserError(
            f"{name}: expected strings, found a {type(texts).__name__}: give one column, such as table['text'], or "
            "table.to_dict('records') to score."
        )


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
    return TextDocument(name, sentences, tuple(places), tuple(found), text, by_spaces=tokens == "whitespace")


def documents_of(texts: TextWithFields | Iterable[TextWithFields], tokens: Tokens = "whitespace") -> list[TextDocument]:
    """Texts as documents; UserError where one is no text.

    Args:
        texts: a text or a list of texts: strings, mappings with a string under `text` or `sentence`, or documents.
        tokens: how strings are cut into words.
    """
    check_texts(texts)
    every = [texts] if isinstance(texts, str | Mapping | TextDocument) else texts
    return [_text(text, f"text-{number}", tokens) for number, text in enumerate(every, start=1)]


def _text(text: TextWithFields, name: str, tokens: Tokens) -> TextDocument:
    if isinstance(text, TextDocument):
        return text
    if not isinstance(text, Mapping):
        return string_document(text, name, tokens)
    used = next((each for each in TEXT if each in text), None)
    if used is None:
        expected = " or ".join(map(repr, TEXT))
        raise UserError(f"{name}: expected a string under {expected}, found {', '.join(map(repr, text)) or 'nothing'}.")
    fields = {str(key): value for key, value in text.items() if key != used}
    return replace(string_document(text[used], name, tokens), fields=fields)


def string_document(text: Any, name: str, tokens: Tokens) -> TextDocument:  # noqa: ANN401 - whatever a caller gives
    """A string as a document; UserError where it is none."""
    check_one_of(tokens=(tokens, Tokens))
    if not isinstance(text, str):
        raise UserError(f"{name}: expected a string, found {text!r:.40} of type {type(text).__name__}.")
    return document_of(text, name=name, tokens=tokens)


def warn_of_raw_text(last_words: Sequence[tuple[str, bool]]) -> None:
    """Warn where at least half of the sentences end in an unknown word with punctuation, as raw text has it.

    Args:
        last_words: the last word of each sentence of texts whose words are separated by white space, and whether it is
            unknown.
    """
    raw = [word for word, unknown in last_words if unknown and _WITH_PUNCTUATION.search(word)]
    if raw and 2 * len(raw) >= len(last_words):
        logger.warning(
            "%d of %d sentences end in an unknown word with punctuation, such as %r. For raw English text, give "
            "--tokens rules (in Python tokens='rules').",
            len(raw), len(last_words), raw[0],
        )  # fmt: skip


def _spans(line: str, tokens: Tokens) -> list[Span]:
    if tokens == "rules":
        return token_spans(line)
    return [match.span() for match in _WORD.finditer(line)]


def read_documents(
    path: Path,
    *,
    input_format: FileFormat | None = None,
    tokens: Tokens | None = None,
    tags: TagColumn | None = None,
    trees: bool = False,
) -> list[TextDocument]:
    """The documents of a file.

    Args:
        path: text, one sentence a line and blank lines between documents; CoNLL-U, by `# newdoc`, each sentence before
            the first a document; SDP, each sentence a document; JSON lines with the field `sentences` or `text`; or a
            table (`.csv`, `.tsv`) with a column `text` or `sentence`, each row a document. `.gz` is unpacked.
        input_format: by default by the name's ending (`depgen.trees.text_files`).
        tokens: (text, JSON and tables) words are separated by white space, the default, or by rules for English.
        tags: (CoNLL-U) the column of tags, which tell punctuation from words; by default xpos.
        trees: (CoNLL-U) read sentences with their trees.

    Raises:
        UserError: the file is missing, holds no sentence, or does not read as said (line named); an option that does
            nothing for files of its format.
    """
    found = file_format(path, input_format, tokens=tokens, tags=tags)
    if found == "conllu":
        return list(_of_conllu(path, tags or "xpos", trees=trees))
    if found == "sdp":
        return list(_of_sdp(path))
    cut: Tokens = tokens or "whitespace"
    if found == "jsonl":
        documents, expected = list(_of_json(path, cut)), "a text in each object"
    elif found != "text":
        documents = list(_of_columns(path, "tab" if found == "tsv" else "comma", cut))
        expected = "a sentence in each row"
    else:
        documents, expected = list(_of_text(path, cut)), "a sentence on each line"
    if not documents:
        raise UserError(f"{path}: expected {expected}, found {'none' if found != 'text' else 'only blank lines'}.")
    return [replace(each, by_spaces=cut == "whitespace") for each in documents]


def file_format(
    path: Path, given: FileFormat | None, *, tokens: Tokens | None = None, tags: TagColumn | None = None
) -> FileFormat:
    """The format of a file, by its name unless it is given.

    Raises:
        UserError: an option does nothing for files of this format.
    """
    found = given or format_of(path)
    if tokens is not None and found in ("conllu", "sdp"):
        raise UserError(
            f"tokens: {tokens} is for text, but {path} is read as {found}, which has its words: leave it out."
        )
    if tags is not None and found != "conllu":
        raise UserError(f"tags: {tags} is a column of CoNLL-U, but {path} is read as {found}: leave it out.")
    return found


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


def _of_conllu(path: Path, tags: TagColumn, *, trees: bool) -> Iterator[TextDocument]:
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
        sentences.append((place, block.sentence(tags) if trees else block.bare_sentence(tags)))
        ids.append(sentence_id and sentence_id[1])
    yield document()


def _of_sdp(path: Path) -> Iterator[TextDocument]:
    for block in read_sdp_blocks(path):
        yield TextDocument(block.identifier, (block.bare_sentence(),), (block.identifier,))


def _of_columns(path: Path, separator: Separator, tokens: Tokens) -> Iterator[TextDocument]:
    """Each row as a document: a column `sentence` holds one sentence, a column `text` is cut as that of JSON is."""
    for line, row in read_columns(path, separator=separator):
        place = f"{path.name}:{line}"
        value = field_of(row, TEXT, f"{path}:{line}", kind="column")
        cut = tokenize if tokens == "rules" else str.split
        sentences = [value] if "text" not in row else split_sentences(value)
        read = tuple(Sentence(tuple(cut(each))) for each in sentences)
        if not any(read):
            raise UserError(f"{path}:{line}: expected a sentence, found an empty cell: fill it in, or delete the row.")
        used = next(name for name in TEXT if name in row)
        others = {name: cell for name, cell in row.items() if name != used}
        yield TextDocument(place, read, (place,) * len(read), fields=others)


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
    used = next((name for name in _JSON_TEXT if isinstance(fields, dict) and name in fields), "text")
    listed = isinstance(fields, dict) and isinstance(fields.get(used), list)
    lines = JsonLines(columns={"sentences" if listed or used == "sentences" else "text": used}, tokens=tokens)
    for document, found in lines.read_with_fields(path, path.name):
        others = {name: value for name, value in found.items() if name != used}
        yield replace(
            _document(document.identifier, [(document.identifier, each) for each in document.sentences]), fields=others
        )


def _document(identifier: str, sentences: list[tuple[str, Sentence]]) -> TextDocument:
    places, read = zip(*sentences, strict=True)
    return TextDocument(identifier, read, places)
