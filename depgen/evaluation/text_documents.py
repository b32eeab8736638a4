"""Texts as documents of sentences, whatever they come from: strings, dictionaries, or files of any format."""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from depgen.data.formats import JsonLines
from depgen.data.named_columns import Kind
from depgen.data.tokenization import SentenceSplitter, Span, Tokens, sentence_spans, sentences_of, word_spans, words_of
from depgen.errors import UserError, check_one_of
from depgen.evaluation.reading import Reading
from depgen.locations import json_value
from depgen.trees.conllu import ConlluBlock, TagColumn, read_blocks
from depgen.trees.sdp import read_sdp_blocks
from depgen.trees.sentence import Sentence
from depgen.trees.text_files import FileFormat, format_of, read_columns, read_lines

logger = logging.getLogger(__name__)

TEXT = ("text", "sentence")
"""What the column or field of texts is called."""
PROMPT = ("prompt", *TEXT)
"""The same of prompts; `depgen generate --json` writes both."""
_WITH_PUNCTUATION = re.compile(r"\w[.?!]+[\"']*$")


@dataclass(frozen=True)
class TextDocument:
    """A text: a string, or a document of a file.

    Attributes:
        identifier: what the file calls it, or file and line.
        sentences: none is without words.
        places: file and line of each sentence; of JSON, those of the document or its identifier.
        spans: the characters of each word of each sentence in the string; None in files.
        string: the string that was given; None in files.
        fields: what a dictionary, a JSON line or a row of a table says besides its text, such as item and condition.
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
        return [[None] * len(sentence) for sentence in self.sentences] if self.spans is None else self.spans


Text = str | TextDocument
"""A string, whose lines are sentences or, in raw text, paragraphs of sentences; or a document of a file."""
TextWithFields = Text | Mapping[str, Any]
"""A text, or a string with other fields, such as item and condition, as a table has it; under `sentence`, its lines
are sentences in raw text too.
"""

# -- strings ----------------------------------------------------------------------------------------------------------


def documents_of(
    texts: TextWithFields | Iterable[TextWithFields], reading: Reading, tokens: Tokens | None = None
) -> list[TextDocument]:
    """Texts as documents, in sentences and words as a run's corpus unless `tokens` says otherwise."""
    check_texts(texts)
    if tokens is not None:
        check_one_of(tokens=(tokens, Tokens))
    listed = [texts] if isinstance(texts, str | Mapping | TextDocument) else texts
    rules = reading.rules(tokens)
    return [_as_document(text, f"text-{number}", *rules) for number, text in enumerate(listed, start=1)]


def check_texts(texts: object, name: str = "texts") -> None:
    """Raises UserError for a table such as a `pandas.DataFrame`, which is iterated over by its columns' names."""
    if not callable(getattr(texts, "columns", check_texts)):
        raise UserError(
            f"{name}: expected strings, found a {type(texts).__name__}: give one column, such as table['text'], or "
            "table.to_dict('records') to score."
        )


def _as_document(
    text: Any,  # noqa: ANN401 - whatever a caller gives
    name: str,
    splitter: SentenceSplitter,
    tokens: Tokens,
) -> TextDocument:
    if isinstance(text, TextDocument):
        return text
    fields: dict[str, Any] = {}
    if isinstance(text, Mapping):
        fields = {str(key): value for key, value in text.items()}
        column = _name_of_text(fields, TEXT, name)
        text, splitter = fields.pop(column), splitter if column == "text" else "lines"
    if not isinstance(text, str):
        raise UserError(f"{name}: expected a string, found {text!r:.40} of type {type(text).__name__}.")
    return replace(document_of(text, name=name, splitter=splitter, tokens=tokens), fields=fields)


def document_of(
    text: str, *, name: str = "text", splitter: SentenceSplitter = "lines", tokens: Tokens = "whitespace"
) -> TextDocument:
    r"""A string as a document: by default each line that is not blank is a sentence.

    >>> document_of("the cat\n\n ran .").spans
    (((0, 3), (4, 7)), ((10, 13), (14, 15)))
    """
    sentences, spans, places, start = list[Sentence](), list[tuple[Span, ...]](), list[str](), 0
    for number, line in enumerate(text.split("\n"), start=1):
        for begin, end in sentence_spans(line, splitter):
            own = word_spans(line[begin:end], tokens)
            spans.append(tuple((start + begin + first, start + begin + last) for first, last in own))
            sentences.append(Sentence(words_of(line[begin:end], tokens)))
            places.append(f"{name}:{number}")
        start += len(line) + 1
    return TextDocument(name, tuple(sentences), tuple(places), tuple(spans), text, by_spaces=tokens == "whitespace")


def warn_of_raw_text(last_words: Sequence[tuple[str, bool]]) -> None:
    """Warn where at least half of the sentences end in an unknown word with punctuation, as raw text has it; of texts
    whose words are separated by white space, the last word of each sentence and whether it is unknown are given.
    """
    raw = [word for word, unknown in last_words if unknown and _WITH_PUNCTUATION.search(word)]
    if raw and 2 * len(raw) >= len(last_words):
        logger.warning(
            "%d of %d sentences end in an unknown word with punctuation, such as %r. For raw English text, give "
            "--tokens rules (in Python tokens='rules').",
            len(raw), len(last_words), raw[0],
        )  # fmt: skip


# -- files ------------------------------------------------------------------------------------------------------------


def read_documents(
    path: Path,
    *,
    reading: Reading = Reading(),  # noqa: B008 - frozen
    input_format: FileFormat | None = None,
    tokens: Tokens | None = None,
    tags: TagColumn | None = None,
    trees: bool = False,
    with_blanks: bool = False,
) -> list[TextDocument]:
    """The documents of a file.

    Args:
        path: text, one sentence a line (of raw text, a paragraph) and blank lines between documents; CoNLL-U, by
            `# newdoc`, each sentence before the first a document; SDP, each sentence a document; JSON lines with the
            field `sentences` or `text`; or a table (`.csv`, `.tsv`) with a column `text` or `sentence`, each row a
            document. A text is cut into sentences; what is called a sentence is one. `.gz` is unpacked.
        reading: how a run's corpus was cut into sentences and words, which text is cut by too.
        input_format: by default by the name's ending (`depgen.trees.text_files`).
        tokens: (text, JSON and tables) words are separated by white space, or by rules for English.
        tags: (CoNLL-U) the column of tags, which tell punctuation from words; by default xpos.
        trees: (CoNLL-U) read sentences with their trees.
        with_blanks: of words that rules cut, keep where blanks were in each sentence.
    """
    kind = input_format or format_of(path)
    if kind == "conllu":
        return list(_of_conllu(path, tags or "xpos", trees=trees))
    if kind == "sdp":
        blocks = read_sdp_blocks(path)
        return [TextDocument(block.identifier, (block.bare_sentence(),), (block.identifier,)) for block in blocks]
    splitter, tokens = reading.rules(tokens)
    cut: Tokens = "whitespace" if with_blanks else tokens
    of_texts: SentenceSplitter = "rules" if splitter == "lines" else splitter  # a cell or field has no lines
    if kind == "text":
        documents = list(_of_text(path, splitter, cut))
    elif kind == "jsonl":
        documents = list(_of_json(path, of_texts, cut))
    else:
        documents = list(_of_columns(path, kind, of_texts, cut))
    if not documents:
        raise UserError(f"{path}: expected at least one sentence, found none.")
    if with_blanks and tokens == "rules":
        return [_cut_by_rules(document) for document in documents]
    return [replace(document, by_spaces=tokens == "whitespace") for document in documents]


def _cut_by_rules(document: TextDocument) -> TextDocument:
    """A document of words between blanks with its words cut by rules; its sentences stay the same."""
    cut = document_of(document.text, name=document.identifier, tokens="rules")
    return replace(document, sentences=cut.sentences, spans=cut.spans)


def _of_text(path: Path, splitter: SentenceSplitter, tokens: Tokens) -> Iterator[TextDocument]:
    sentences, places = list[Sentence](), list[str]()
    for number, line in read_lines(path):
        if line.strip():
            own = [Sentence(words_of(sentence, tokens)) for sentence in sentences_of(line, splitter)]
            sentences += own
            places += [f"{path.name}:{number}"] * len(own)
        elif sentences:
            yield TextDocument(places[0], tuple(sentences), tuple(places))
            sentences, places = [], []
    if sentences:
        yield TextDocument(places[0], tuple(sentences), tuple(places))


def _of_conllu(path: Path, tags: TagColumn, *, trees: bool) -> Iterator[TextDocument]:
    documents, any_newdoc = list[tuple[str, list[ConlluBlock]]](), False
    for block in read_blocks(path):
        newdoc = block.comment("newdoc")
        any_newdoc = any_newdoc or newdoc is not None
        if newdoc or not any_newdoc:
            identifier = newdoc[1] if newdoc else ""
            documents.append((identifier or f"{path.name}:{block.numbers[0]}", []))
        documents[-1][1].append(block)
    for identifier, blocks in documents:
        sentences = tuple(block.sentence(tags) if trees else block.bare_sentence(tags) for block in blocks)
        places = tuple(f"{path.name}:{block.numbers[0]}" for block in blocks)
        ids = tuple(comment and comment[1] for comment in (block.comment("sent_id") for block in blocks))
        yield TextDocument(identifier, sentences, places, sentence_ids=ids if any(ids) else ())


def _of_columns(path: Path, kind: FileFormat, splitter: SentenceSplitter, tokens: Tokens) -> Iterator[TextDocument]:
    """Each row as a document: a column `sentence` holds one sentence, a column `text` is cut as that of JSON is."""
    for line, row in rows_of(path, kind):
        name, place = _name_of_text(row, TEXT, f"{path}:{line}"), f"{path.name}:{line}"
        sentences = sentences_of(row[name], splitter) if name == "text" else [row[name]]
        read = tuple(Sentence(words_of(sentence, tokens)) for sentence in sentences)
        if not any(read):
            raise UserError(f"{path}:{line}: expected a sentence, found an empty cell: fill it in, or delete the row.")
        yield TextDocument(place, read, (place,) * len(read), fields=_without(row, name))


def _of_json(path: Path, splitter: SentenceSplitter, tokens: Tokens) -> Iterator[TextDocument]:
    """By the format of corpora; the first object says which field holds the text, and whether it is a list."""
    number, first = next(rows_of(path, "jsonl"), (1, {}))
    name = _name_of_text(first, ("sentences", *TEXT), f"{path}:{number}")
    kind: Kind = "sentences" if name == "sentences" or isinstance(first[name], list) else "text"
    own = JsonLines(columns={kind: name}, splitter="lines" if name == "sentence" else splitter, tokens=tokens)
    for document, row in own.read_with_fields(path, path.name):
        places = (document.identifier,) * len(document.sentences)
        yield TextDocument(document.identifier, document.sentences, places, fields=_without(row, name))


def rows_of(path: Path, kind: FileFormat) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Line number and named values of each row of a table, or of each object of JSON lines."""
    if kind != "jsonl":
        yield from read_columns(path, separator="tab" if kind == "tsv" else "comma")
        return
    for number, line in read_lines(path):
        if line.strip():
            row = json_value(line, f"{path}:{number}")
            if not isinstance(row, Mapping):
                raise UserError(f"{path}:{number}: expected a JSON object, found a {type(row).__name__}.")
            yield number, row


def _without(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {column: value for column, value in row.items() if column != name}


def _name_of_text(row: Mapping[str, Any], names: Sequence[str], where: str) -> str:
    """The first of the names that a row has."""
    name = next((name for name in names if name in row), None)
    if name is None:
        raise UserError(
            f"{where}: expected a text under {' or '.join(names)}, found {', '.join(map(str, row)) or 'nothing'}: "
            "rename what holds the texts, or write plain text, one a line, into a .txt file."
        )
    return name


def read_file_texts(path: Path, names: Sequence[str] = TEXT) -> list[str]:
    """The texts of a file of generated texts, references or prompts, empty ones included.

    A line is a text; in JSON lines a field, of which a list of sentences is one text; in tables (`.csv`, `.tsv`) a
    cell; in CoNLL-U and SDP the words of a sentence.

    Args:
        path: its format is that of its name: see `depgen.trees.text_files`. `.gz` is unpacked.
        names: of the field or column; the first that is there is read.
    """
    kind, texts = format_of(path), list[str]()
    if kind == "text":
        return [line for _, line in read_lines(path)]
    if kind in ("conllu", "sdp"):
        return [" ".join(sentence.words) for document in read_documents(path) for sentence in document.sentences]
    for line, row in rows_of(path, kind):
        text = row[_name_of_text(row, names, f"{path}:{line}")]
        sentences = text if isinstance(text, list) else [text]
        if not all(isinstance(sentence, str) for sentence in sentences):
            raise UserError(f"{path}:{line}: expected a text or a list of sentences, found {text!r:.40}.")
        texts.append(" ".join(sentences))
    return texts
