"""Parsed texts: the trees, graphs or constituents of their sentences, as a table and in files' formats."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from depgen.annotation.spacy import parsed_document
from depgen.errors import UserError
from depgen.evaluation.parsing import SystemParser
from depgen.evaluation.text_documents import TextDocument
from depgen.progress import progress_bar
from depgen.trees.annotator import Annotator, Structure
from depgen.trees.conllu import format_conllu
from depgen.trees.constituency import format_constituents
from depgen.trees.graph import sorted_edges
from depgen.trees.sdp import HEADER, TOP, format_sdp
from depgen.trees.sentence import Sentence

if TYPE_CHECKING:
    from pandas import DataFrame

CHUNK = 512
"""Sentences that are parsed at a time; no tree depends on it."""
Format = Literal["conllu", "sdp", "brackets"]
_HOLDS: Mapping[Format, Sequence[Structure]] = {
    "conllu": ("tree", "graph"), "sdp": ("graph",), "brackets": ("constituency",),
}  # fmt: skip


def check_format(format: Format, structure: Structure) -> None:
    """Raises UserError unless a format holds such structures."""
    if structure not in _HOLDS[format]:
        raise UserError(
            f"format: {format} holds {' or '.join(_HOLDS[format])}, found {structure}: take "
            f"{' or '.join(name for name, held in _HOLDS.items() if structure in held)}."
        )


@dataclass(frozen=True, repr=False)
class Parses:
    """Texts whose sentences have trees, graphs or constituents.

    Attributes:
        structure: which of these.
        documents: the texts.
        sentences: those of all texts, with heads (1-based, 0 = root) and relations, edges, or spans.
        read: whether the parser reads each word of each sentence.
        unknown: whether each word is unknown to the parser.
    """

    structure: Structure
    documents: tuple[TextDocument, ...]
    sentences: tuple[Sentence, ...]
    read: tuple[tuple[bool, ...], ...]
    unknown: tuple[tuple[bool, ...], ...]

    def __repr__(self) -> str:
        return f"{self.structure} of {len(self.sentences)} sentences (to_frame() gives the table)"

    def _repr_html_(self) -> str:
        return str(self.to_frame()._repr_html_())

    @property
    def texts(self) -> list[tuple[Sentence, ...]]:
        """The sentences of each text."""
        sentences = iter(self.sentences)
        return [tuple(next(sentences) for _ in document.sentences) for document in self.documents]

    def to_frame(self) -> "DataFrame":
        """A row for each word; documents (texts), sentences and positions count from 1.

        A word of a tree has its `head` and `relation`, one of a graph lists: its `heads` and their `labels`. `start`
        and `end` are its characters in a string.
        """
        from pandas import DataFrame

        rows, marks = list[dict[str, Any]](), zip(self.read, self.unknown, strict=True)
        for document, (text, sentences) in enumerate(zip(self.documents, self.texts, strict=True), start=1):
            spans = text.spans_of_sentences
            for number, (sentence, own) in enumerate(zip(sentences, spans, strict=True), start=1):
                read, unknown = next(marks)
                for position, (word, span) in enumerate(zip(sentence.words, own, strict=True), start=1):
                    row = {"document": document, "sentence": number, "position": position, "word": word}
                    row |= self._arcs_of(sentence, position)
                    row |= {"read": read[position - 1], "unknown": unknown[position - 1]}
                    rows.append(row if span is None else {**row, "start": span[0], "end": span[1]})
        return DataFrame(rows)

    def _arcs_of(self, sentence: Sentence, position: int) -> dict[str, Any]:
        """The columns that say what a word depends on."""
        if self.structure == "constituency":
            return {}
        if self.structure == "tree":
            assert sentence.heads is not None
            assert sentence.relations is not None
            return {"head": sentence.heads[position - 1], "relation": sentence.relations[position - 1]}
        own = [(head, label) for head, dependent, label in sentence.edges or () if dependent == position]
        return {"heads": [head for head, _ in own], "labels": [label for _, label in own]}

    def to_conllu(self) -> str:
        """All sentences with their trees, or with their graphs in DEPS; UserError of constituents."""
        check_format("conllu", self.structure)
        return "".join(
            f"# sent_id = {name}\n# text = {text}\n{format_conllu(sentence, text=text)}\n"
            for sentence, (name, text) in zip(self.sentences, self._names_and_texts(), strict=True)
        )

    def to_sdp(self) -> str:
        """All sentences in SDP of 2015, where edges from the root are tops; UserError but of graphs."""
        check_format("sdp", self.structure)
        blocks = [f"{HEADER}\n"]
        for sentence, (name, _) in zip(self.sentences, self._names_and_texts(), strict=True):
            edges = ((head, dependent, label if head else TOP) for head, dependent, label in sentence.edges or ())
            blocks.append(f"{format_sdp(replace(sentence, edges=sorted_edges(edges)), name)}\n")
        return "".join(blocks)

    def to_brackets(self) -> str:
        """A line a sentence: `(S (NP the dog) (VP barks) .)`, without labels around two words or more."""
        check_format("brackets", self.structure)
        return "".join(f"{format_constituents(each.words, each.spans or ())}\n" for each in self.sentences)

    def to_spacy(self, vocab: Any = None) -> list[Any]:  # noqa: ANN401 - spaCy is imported where it is used
        """A spaCy `Doc` for each text, with heads, relations (`dep_`) and sentence boundaries.

        A space follows a word where white space does in the text. `spacy.displacy` draws them.

        Args:
            vocab: a pipeline's `Vocab`; None: a new one.
        """
        from spacy.vocab import Vocab

        if self.structure != "tree":
            raise UserError(f"spaCy holds trees, found {self.structure}.")
        vocab = Vocab() if vocab is None else vocab
        return [
            parsed_document(
                vocab, sentences, spaces=[space for each in text.spans_of_sentences for space in _spaces(each)]
            )
            for text, sentences in zip(self.documents, self.texts, strict=True)
        ]

    def _names_and_texts(self) -> Iterator[tuple[str, str]]:
        """The place of each sentence, numbered where several of a text have the same, and its string in one line."""
        for document in self.documents:
            several = len(document.sentences) > len({*document.places})
            places = zip(document.sentences, document.places, document.spans_of_sentences, strict=True)
            for number, (sentence, place, spans) in enumerate(places, start=1):
                text = " ".join(sentence.words)
                if document.string is not None and spans[0] is not None and spans[-1] is not None:
                    text = " ".join(document.string[spans[0][0] : spans[-1][1]].split())
                yield f"{place}-{number}" if several else place, text


def _spaces(spans: Sequence[tuple[int, int] | None]) -> list[bool]:
    """Whether white space follows each word of a sentence; after the last one it does."""
    return [
        one is None or other is None or one[1] < other[0] for one, other in zip(spans, (*spans[1:], None), strict=True)
    ]


def parse_documents(
    parser: Annotator | SystemParser, documents: Sequence[TextDocument], *, progress: bool = False
) -> Parses:
    """The sentences of documents with what a parser gives them."""
    sentences, found = [each for document in documents for each in document.sentences], list[Sentence]()
    with progress_bar("parsing", total=len(sentences), unit="sentences", shown=progress) as advance:
        for start in range(0, len(sentences), CHUNK):
            chunk = sentences[start : start + CHUNK]
            found += parser.annotate(chunk)
            advance(len(chunk))
    if isinstance(parser, SystemParser):
        marks = [parser.marks(each) for each in sentences]
    else:
        marks = [((True,) * len(each), (False,) * len(each)) for each in sentences]
    read, unknown = zip(*marks, strict=True) if marks else ((), ())
    return Parses(parser.structure, tuple(documents), tuple(found), tuple(read), tuple(unknown))
