"""Parsed texts: trees or graphs of sentences, as CoNLL-U, SDP, spaCy's and NLTK's objects, and as a table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, TypeVar

from depgen.annotation.spacy import parsed_document
from depgen.errors import UserError
from depgen.evaluation.frames import Row, TextResults
from depgen.evaluation.text_documents import Span, TextDocument
from depgen.evaluation.trees.induced_parser import SystemParser
from depgen.progress import progress_bar
from depgen.trees.annotator import Annotator
from depgen.trees.conllu import format_conllu
from depgen.trees.graph import sorted_edges
from depgen.trees.sdp import HEADER, TOP, format_sdp
from depgen.trees.sentence import Edge, Sentence

CHUNK = 512
"""Sentences that are parsed at a time; no tree depends on it."""
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class ParsedSentence:
    """A sentence with its tree or graph.

    Attributes:
        tree: words, heads (1-based, 0 = root) and relations or edges, and the tags where they are known.
        place: text and line that it comes from.
        read: whether the parser reads each word; in a tree, one that it does not read depends on that before.
        unknown: whether each word is unknown to the parser.
        text: the string, in one line; None in files of words.
        spans: the first character of each word in the text, and the one after its last; None in files of words.
    """

    tree: Sentence
    place: str
    read: tuple[bool, ...]
    unknown: tuple[bool, ...]
    text: str | None = None
    spans: tuple[Span, ...] | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The words."""
        return self.tree.words

    @property
    def heads(self) -> tuple[int, ...]:
        """The number of each word's head, from 1; 0 = root.

        Raises:
            UserError: the sentence has a graph.
        """
        if self.tree.heads is None:
            raise UserError(f"{self.place}: expected a tree, found a graph: its arcs are `edges`.")
        return self.tree.heads

    @property
    def edges(self) -> tuple[Edge, ...] | None:
        """Head (0 = root), dependent and label of each arc of a graph; None for a tree."""
        return self.tree.edges

    @property
    def relations(self) -> tuple[str, ...]:
        """The relation of each word to its head."""
        assert self.tree.relations is not None
        return self.tree.relations

    def to_conllu(self) -> str:
        """The sentence in CoNLL-U, with a blank line after it."""
        text = " ".join(self.words) if self.text is None else self.text
        lines = format_conllu(self.tree, text=self.text)
        return f"# sent_id = {self.place}\n# text = {text}\n{lines}\n"

    def to_sdp(self) -> str:
        """The sentence in SDP of 2015, with a blank line after it; edges from the root are tops.

        Raises:
            UserError: it has a tree.
        """
        if self.edges is None:
            raise UserError(f"{self.place}: SDP holds graphs, found a tree: take CoNLL-U.")
        edges = tuple((head, dependent, label if head else TOP) for head, dependent, label in self.edges)
        return f"{format_sdp(replace(self.tree, edges=sorted_edges(edges)), self.place)}\n"


@dataclass(frozen=True)
class ParsedText:
    """A text's sentences with their trees, in the order of the text.

    Attributes:
        identifier: of the text.
        sentences: with their trees.
    """

    identifier: str
    sentences: tuple[ParsedSentence, ...]


@dataclass(frozen=True, repr=False)
class ParsedTexts(TextResults[ParsedText]):
    """Parsed texts, in the order in which they were given."""

    @property
    def sentences(self) -> tuple[ParsedSentence, ...]:
        """The sentences of all texts."""
        return tuple(chain.from_iterable(text.sentences for text in self.texts))

    def to_conllu(self) -> str:
        """All sentences in CoNLL-U."""
        return "".join(sentence.to_conllu() for sentence in self.sentences)

    def to_sdp(self) -> str:
        """All sentences in SDP of 2015.

        Raises:
            UserError: they have trees.
        """
        return "".join([f"{HEADER}\n", *(sentence.to_sdp() for sentence in self.sentences)])

    def to_spacy(self, vocab: Any = None) -> list[Any]:  # noqa: ANN401 - spaCy is imported where it is used
        """A spaCy `Doc` for each text, with heads, relations (`dep_`) and sentence boundaries.

        A space follows a word where white space does in the text.

        Args:
            vocab: a pipeline's `Vocab`; None: a new one.

        Raises:
            UserError: a sentence has a graph.
        """
        if vocab is None:
            from spacy.vocab import Vocab

            vocab = Vocab()
        return [
            parsed_document(
                vocab,
                [replace(sentence.tree, heads=sentence.heads) for sentence in text.sentences],
                spaces=[space for sentence in text.sentences for space in _spaces(sentence)],
            )
            for text in self.texts
        ]

    def to_nltk(self) -> list[Any]:
        """An `nltk.parse.DependencyGraph` for each sentence.

        Raises:
            UserError: NLTK is not installed, or a sentence has a graph.
        """
        try:
            from nltk.parse import DependencyGraph
        except ImportError as error:
            raise UserError("to_nltk needs NLTK: pip install nltk.") from error
        return [
            DependencyGraph(
                format_conllu(replace(each.tree, heads=each.heads)), cell_separator="\t", top_relation_label="root"
            )
            for each in self.sentences
        ]

    def rows(self) -> list[Row]:
        """A row for each word; documents (texts), sentences and positions count from 1.

        A word of a graph has lists: its `heads` and their `labels`.
        """
        return [
            {"document": document, "sentence": number, **row}
            for document, text in enumerate(self.texts, start=1)
            for number, sentence in enumerate(text.sentences, start=1)
            for row in _rows(sentence)
        ]


def _rows(sentence: ParsedSentence) -> Iterator[Row]:
    edges = sentence.edges
    for position, word in enumerate(sentence.words, start=1):
        row: Row = {"position": position, "word": word}
        if edges is None:
            row |= {"head": sentence.heads[position - 1], "relation": sentence.relations[position - 1]}
        else:
            own = [(head, label) for head, dependent, label in edges if dependent == position]
            row |= {"heads": [head for head, _ in own], "labels": [label for _, label in own]}
        row |= {"read": sentence.read[position - 1], "unknown": sentence.unknown[position - 1]}
        if sentence.spans is not None:
            row["start"], row["end"] = sentence.spans[position - 1]
        yield row


def _spaces(sentence: ParsedSentence) -> list[bool]:
    """Whether white space follows each word; after the last one it does."""
    if sentence.spans is None:
        return [True] * len(sentence.words)
    starts = [start for start, _ in sentence.spans[1:]]
    return [*(end < start for (_, end), start in zip(sentence.spans, starts, strict=False)), True]


def parse_documents(
    parser: Annotator | SystemParser, documents: Sequence[TextDocument], *, progress: bool = False
) -> ParsedTexts:
    """The trees or graphs that a parser gives the sentences of documents.

    Raises:
        UserError: the parser can't parse them.
    """
    sentences = [sentence for document in documents for sentence in document.sentences]
    trees: list[Sentence] = []
    with progress_bar("parsing", total=len(sentences), unit="sentences", shown=progress) as advance:
        for chunk in chunks(iter(sentences)):
            trees += parser.annotate(chunk)
            advance(len(chunk))
    found = iter(trees)
    return ParsedTexts(
        tuple(
            ParsedText(
                document.identifier,
                tuple(_parsed(parser, document, place, next(found)) for place in range(len(document.sentences))),
            )
            for document in documents
        )
    )


def _parsed(parser: Annotator | SystemParser, document: TextDocument, place: int, tree: Sentence) -> ParsedSentence:
    words, spans, text = len(tree.words), None, None
    if document.spans is not None and document.string is not None:
        spans = document.spans[place]
        text = " ".join(document.string[spans[0][0] : spans[-1][1]].split())
    read, unknown = [True] * words, [False] * words
    if isinstance(parser, SystemParser):
        read, unknown = parser.kept(tree), parser.unknown(tree)
    return ParsedSentence(tree, document.places[place], tuple(read), tuple(unknown), text, spans)


def chunks(items: Iterator[_Item]) -> Iterator[list[_Item]]:
    """The items in lists of `CHUNK`.

    >>> [len(chunk) for chunk in chunks(iter(range(600)))]
    [512, 88]
    """
    return iter(lambda: list(islice(items, CHUNK)), [])
