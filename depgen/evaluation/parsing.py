"""Sentences with the trees, graphs or constituents that a trained system, or another parser, finds in them."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Int

from depgen.annotation.spacy import parsed_document
from depgen.data.vocabulary import is_unknown
from depgen.decoding.heads import Decoding
from depgen.errors import UserError, check_at_least
from depgen.evaluation.encoded_text import EncodedSentence, encode_documents
from depgen.evaluation.text_documents import TextDocument
from depgen.evaluation.trained import Trained
from depgen.evaluation.trees.bracketing import Bracketer, constituents_over_words
from depgen.evaluation.trees.head_networks import network_of, parser_of
from depgen.evaluation.trees.parsing import likely_heads, predicted_heads
from depgen.evaluation.unit_scores import batches_of
from depgen.language_models.left_to_right import GraphNetwork
from depgen.language_models.masked import HeadNetwork
from depgen.models.causal_lm import CausalLM
from depgen.models.masked_transformer import MaskedTransformer
from depgen.progress import progress_bar
from depgen.trees.annotator import Annotator, Structure, check_words, structure_of
from depgen.trees.conllu import format_conllu
from depgen.trees.constituency import UNNAMED, format_constituents
from depgen.trees.graph import sorted_edges
from depgen.trees.removal import put_words_back
from depgen.trees.sdp import HEADER, TOP, format_sdp
from depgen.trees.sentence import Constituent, Edge, Sentence
from depgen.trees.text_form import FORMS

if TYPE_CHECKING:
    from pandas import DataFrame

BEAM_SIZE = 20
"""Hypotheses about the graph of a sentence, where no number is named: that of the GiLT paper."""
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


# -- parsers ----------------------------------------------------------------------------------------------------------


def structure_found_by(trained: Trained) -> Structure:
    """What a system finds in a sentence: a tree, a graph or constituents.

    Raises:
        UserError: it finds nothing.
    """
    model: object = trained.model
    if isinstance(model, GraphNetwork):
        return "graph"
    if isinstance(model, Bracketer) and not (isinstance(model, CausalLM) and model.tree_regularization is None):
        return "constituency"
    if not isinstance(model, HeadNetwork):
        raise UserError(
            f"{trained.checkpoint} holds a {type(model).__name__}, which does not parse: take a run of UDGN, "
            "StructFormer or a masked Transformer, which give trees, of GiLT or DTG, which give graphs, or of Pushdown "
            "or TG, which give brackets."
        )
    return "tree"


@dataclass(frozen=True)
class SystemParser:
    """Gives each sentence what a system finds in it; relations and labels of edges are `root` and `dep`.

    Words that the system does not read, such as punctuation, depend in a tree on the word before them. They have no
    arcs in a graph, and begin and end no constituent; but where constituents have labels, the outermost has all words.

    Attributes:
        systems: one; or several that give trees by the mean of their probabilities of heads.
        decoding: (trees) `tree`, the best tree with a single root, or `argmax`, each word's likeliest head, where one
            head in each cycle is changed to make a tree.
        attention_head: (masked Transformer) layer and attention head that it parses by, both 0-based; None: its own.
        likely_heads: (trees) give edges too: the tree's, and all that are at least this likely.
        beam_size: (graphs, constituents) hypotheses about those of a sentence; None: 20 graphs, or as in the run.
        tokens_per_batch: parsed at once, padding included.
        batch_size: the most sentences at once; None: any number.
    """

    systems: Sequence[Trained]
    decoding: Decoding = "tree"
    attention_head: tuple[int, int] | None = None
    likely_heads: float | None = None
    beam_size: int | None = None
    tokens_per_batch: int = 8192
    batch_size: int | None = None

    def __post_init__(self) -> None:
        check_at_least(1, beam_size=self.beam_size)
        searched = self.structure != "tree"
        of_trees = {
            "decoding": self.decoding != "tree", "attention_head": self.attention_head is not None,
            "a consensus of several runs": len(self.systems) > 1,
        }  # fmt: skip
        given = of_trees if searched else {"beam_size": self.beam_size is not None}
        if wrong := [name for name, is_given in given.items() if is_given]:
            raise UserError(
                f"{' and '.join(wrong)}: leave out, for {type(self.trained.model).__name__} gives a {self.structure}."
            )

    @property
    def trained(self) -> Trained:
        """The first system, by whose vocabulary and form all read."""
        return self.systems[0]

    @property
    def structure(self) -> Structure:
        """What sentences are given.

        Raises:
            UserError: the system does not parse.
        """
        return structure_found_by(self.trained)

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with heads and relations, edges, or spans.

        Raises:
            UserError: a sentence or a word is empty, or longer than the system reads; there is no consensus; the
                system's form of text is unknown, or it has no such attention head.
        """
        check_words(sentences)
        find = {"tree": self._trees, "graph": self._graphs, "constituency": self._constituents}[self.structure]
        return find(sentences)

    def _trees(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        trained = self.trained
        network = network_of([_by_attention_head(each, self.attention_head) for each in self.systems])
        if trained.reading.form is None:
            raise UserError(
                f"The corpus of {trained.run} does not say in which form its text is: name it by `form`, one of "
                f"{', '.join(FORMS)} (depgen.trees.text_form)."
            )
        words = list(map(trained.reading.words, sentences))
        sizes: dict[str, Any] = {"tokens_per_batch": self.tokens_per_batch, "batch_size": self.batch_size}
        heads = predicted_heads(network, trained.vocabulary, words, decoding=self.decoding, as_trees=True, **sizes)
        trees = [
            sentence.with_heads(put_words_back(own, trained.reading.kept(sentence)))
            for sentence, own in zip(sentences, heads, strict=True)
        ]
        if self.likely_heads is None:
            return trees
        pairs = likely_heads(network, trained.vocabulary, words, least=self.likely_heads, **sizes)
        return [
            replace(tree, edges=_with_likely(tree, own, trained.reading.kept(tree)))
            for tree, own in zip(trees, pairs, strict=True)
        ]

    def _graphs(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        model: Any = self.trained.model
        vocabulary, graphs = self.trained.vocabulary, [tuple[Edge, ...]()] * len(sentences)
        for batch in self._batches(sentences):
            ids = [each.encoding.ids.tolist() for each in batch.values()]
            found = model.parse(ids, vocabulary=vocabulary, beam_size=self.beam_size or BEAM_SIZE)
            for (place, each), edges in zip(batch.items(), found, strict=True):
                owner = np.flatnonzero(each.kept)[each.encoding.word_of_piece] + 1
                graphs[place] = edges_over_words(edges, vocabulary.word_of_token(each.encoding.ids), owner)
        return [replace(sentence, edges=edges) for sentence, edges in zip(sentences, graphs, strict=True)]

    def _constituents(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        model: Any = self.trained.model
        trees: list[list[Constituent]] = [[] for _ in sentences]
        for batch in self._batches(sentences):
            found = model.bracketings(
                [each.encoding.ids.tolist() for each in batch.values()],
                vocabulary=self.trained.vocabulary,
                word_starts=[np.diff(each.encoding.word_of_piece, prepend=-1) > 0 for each in batch.values()],
                beam_size=self.beam_size,
            )
            for (place, each), of_tokens in zip(batch.items(), found, strict=True):
                owner = np.flatnonzero(each.kept).tolist()
                over_words = constituents_over_words(of_tokens, each.encoding.word_of_piece)
                trees[place] = [(owner[start], owner[end - 1] + 1, label) for start, end, label in over_words]
        if any(label for tree in trees for *_, label in tree):
            trees = [
                [(0, len(sentence), tree[0][2] if tree else UNNAMED), *tree[1:]]
                for sentence, tree in zip(sentences, trees, strict=True)
            ]
        return [
            replace(sentence, spans=tuple(sorted(tree, key=lambda span: (span[0], -span[1]))))
            for sentence, tree in zip(sentences, trees, strict=True)
        ]

    def _batches(self, sentences: Sequence[Sentence]) -> Iterator[dict[int, EncodedSentence]]:
        """The sentences in which the system reads a word, by their places."""
        document = TextDocument("", tuple(sentences), tuple(f"sentence {n}" for n in range(1, len(sentences) + 1)))
        (encoded,), units = encode_documents(self.trained, [document], as_one=False)
        filled = [place for place, each in enumerate(encoded) if len(each.encoding.ids)]
        for batch in batches_of(units, tokens_per_batch=self.tokens_per_batch, batch_size=self.batch_size):
            yield {filled[unit]: encoded[filled[unit]] for unit in batch}

    def marks(self, sentence: Sentence) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
        """Whether the system reads each word, and whether it reads it as unknown."""
        kept = self.trained.reading.kept(sentence)
        words = iter(self.trained.reading.spelt(sentence, kept))
        return tuple(kept), tuple(keep and is_unknown(self.trained.vocabulary, next(words)) for keep in kept)


def _by_attention_head(trained: Trained, attention_head: tuple[int, int] | None) -> Trained:
    """A system that parses by an attention head; the one that is given stays as it is."""
    if attention_head is None:
        return trained
    network = copy(parser_of(trained))
    if not isinstance(network, MaskedTransformer):
        raise UserError(f"attention_head is of masked Transformers: {trained.checkpoint} holds none.")
    network.parse_by(attention_head)
    return replace(trained, model=network)


def _with_likely(tree: Sentence, pairs: Sequence[tuple[int, int]], kept: Sequence[bool]) -> tuple[Edge, ...]:
    """The arcs of a tree with those between the words that were read."""
    places = [place for place, keep in enumerate(kept, start=1) if keep]
    arcs = {(head, word) for word, head in enumerate(tree.heads or (), start=1)}
    arcs |= {(places[head - 1], places[word - 1]) for head, word in pairs}
    return sorted_edges((head, word, "root" if head == 0 else "dep") for head, word in arcs)


def edges_over_words(
    edges: Sequence[Edge], word: Int[np.ndarray, " tokens"], owner: Int[np.ndarray, " tokens"]
) -> tuple[Edge, ...]:
    """A graph over the words that tokens seem to spell, as one over the words that they belong to.

    Edges within a word go; of equal ones, one stays.

    Args:
        edges: between words as `word` numbers them.
        word: of each token, by its spelling, from 1.
        owner: of each token, the number of the text's word.

    >>> edges_over_words([(0, 2, "root"), (2, 1, "dep")], np.array([1, 2, 2]), np.array([1, 3, 3]))
    ((3, 1, 'dep'), (0, 3, 'root'))
    """
    numbers = [0, *owner[np.flatnonzero(np.diff(word, prepend=0))].tolist()]
    moved = {(numbers[head], numbers[dependent], label) for head, dependent, label in edges}
    return sorted_edges(edge for edge in moved if edge[0] != edge[1])


# -- parsed texts -----------------------------------------------------------------------------------------------------


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
        """A line a sentence: `(S (NP the dog) (VP barks) .)`, without labels around two words or more.

        Raises:
            UserError: they have no constituents.
        """
        check_format("brackets", self.structure)
        return "".join(f"{format_constituents(each.words, each.spans or ())}\n" for each in self.sentences)

    def to_spacy(self, vocab: Any = None) -> list[Any]:  # noqa: ANN401 - spaCy is imported where it is used
        """A spaCy `Doc` for each text, with heads, relations (`dep_`) and sentence boundaries.

        A space follows a word where white space does in the text. `spacy.displacy` draws them.

        Args:
            vocab: a pipeline's `Vocab`; None: a new one.

        Raises:
            UserError: the sentences have no trees.
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
    """The sentences of documents with what a parser gives them.

    Raises:
        UserError: the parser can't parse them.
    """
    sentences, found = [each for document in documents for each in document.sentences], list[Sentence]()
    with progress_bar("parsing", total=len(sentences), unit="sentences", shown=progress) as advance:
        for start in range(0, len(sentences), CHUNK):
            chunk = sentences[start : start + CHUNK]
            found += parser.annotate(chunk)
            advance(len(chunk))
    if isinstance(parser, SystemParser):
        structure, marks = parser.structure, [parser.marks(each) for each in sentences]
    else:
        structure = structure_of(parser)
        marks = [((True,) * len(each), (False,) * len(each)) for each in sentences]
    read, unknown = zip(*marks, strict=True) if marks else ((), ())
    return Parses(structure, tuple(documents), tuple(found), tuple(read), tuple(unknown))
