"""Trees, graphs and constituents that trained systems find in sentences, as tables and in files' formats."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from depgen.annotation.spacy import parsed_document
from depgen.data.batch import WordBatch
from depgen.data.vocabulary import Vocabulary, is_unknown
from depgen.decoding.heads import DECODINGS, Decoding, decoded_heads
from depgen.errors import UserError, check_at_least
from depgen.evaluation.text_documents import TextDocument
from depgen.evaluation.trained import Trained
from depgen.evaluation.unit_scores import EncodedSentence, batches_of, encode_documents, sentence_batches
from depgen.language_models.left_to_right import GraphNetwork
from depgen.language_models.masked import HeadNetwork
from depgen.locations import lines_sha256
from depgen.models.causal_lm import CausalLM
from depgen.models.masked_transformer import MaskedTransformer
from depgen.nn.precise import precise
from depgen.progress import progress_bar
from depgen.trees.annotator import Annotator, Structure, check_words
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
OWN_RULE: Literal["own rule"] = "own rule"
"""How a network's own paper decodes heads, where it has a rule for that."""


# -- probabilities of heads -------------------------------------------------------------------------------------------


class Consensus(nn.Module):
    """A network in evaluation mode whose probabilities of heads are the means of its members'.

    Args:
        networks: the members, which read the same token ids.
    """

    def __init__(self, networks: Sequence[HeadNetwork]) -> None:
        super().__init__()
        self.networks = tuple(networks)
        self.members = nn.ModuleList(cast(Sequence[nn.Module], networks))  # gives the device
        self.eval()

    def head_probabilities(
        self, tokens: Int[Tensor, "batch length"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch dependents heads"]:
        """The means in float64, which leave no room for the order of the members."""
        return torch.stack([precise(each.head_probabilities(tokens, lengths)) for each in self.networks]).mean(0)


def network_of(systems: Sequence[Trained]) -> HeadNetwork:
    """The network of a system that parses, or the consensus of several."""
    first, *others = systems
    network, *members = map(parser_of, systems)
    if not others:
        return network
    for each in others:
        for expected, found in zip(_kinds(first), _kinds(each), strict=True):
            if expected != found:
                raise UserError(
                    f"{each.checkpoint}: expected {expected}, as in {first.checkpoint}, found {found}. A consensus is "
                    "of runs that differ in their seed alone: leave out one of the two."
                )
    return Consensus([network, *members])


def _kinds(trained: Trained) -> Iterator[str]:
    """What all members of a consensus share."""
    yield f"a {type(trained.model).__name__}"
    yield f"heads that were learnt {'from' if trained.model.learns_from_trees else 'without'} trees"
    vocabulary = trained.vocabulary
    yield f"vocabulary {lines_sha256([vocabulary.to_json()])[:12]} of {vocabulary.size:,} types"


def parser_of(trained: Trained) -> HeadNetwork:
    """A run's system as a network that parses."""
    network: object = trained.model
    if not isinstance(network, HeadNetwork):
        raise UserError(
            f"{trained.checkpoint} holds a {type(network).__name__}, which does not parse by probabilities of heads: "
            "take a run of UDGN, StructFormer or a masked Transformer."
        )
    return network


def predicted_heads(
    network: HeadNetwork,
    vocabulary: Vocabulary,
    sentences: Sequence[Sequence[str]],
    *,
    decodings: Sequence[Decoding | Literal["own rule"]] = DECODINGS,
    tokens_per_batch: int = 8192,
    batch_size: int | None = None,
) -> dict[str, list[list[int]]]:
    """By decoding, a network's heads of each sentence's words: 1-based, 0 = root.

    `tree` is the best tree with a single root, non-projective ones among them; `argmax` each word's best head by
    itself, which is no tree and has no root in sentences of more than one word, unless the network has been taught
    roots; and the `own rule` that of a network's paper, if it has one. Sentences are of words in the form of the text
    that the network has learnt from.
    """
    heads: dict[str, list[list[int]]] = {decoding: [[] for _ in sentences] for decoding in decodings}
    assert not network.training  # type: ignore[attr-defined]
    read = [Sentence(tuple(words)) for words in sentences]
    for batch in sentence_batches(vocabulary, read, tokens_per_batch=tokens_per_batch, batch_size=batch_size):
        probabilities, lengths = _answer(network, network.head_probabilities, batch), batch.lengths.numpy()
        for decoding in decodings:
            if decoding == OWN_RULE:
                decoded = _answer(network, network.own_heads, batch)  # type: ignore[attr-defined]
            else:
                decoded = decoded_heads(probabilities, lengths, decoding)
            for place, own, length in zip(batch.items.tolist(), decoded, lengths, strict=True):
                heads[decoding][place] = own[:length].tolist()
    return heads


def _answer(network: HeadNetwork, ask: Callable[[Tensor, Tensor], Tensor], batch: WordBatch) -> np.ndarray:
    """What a method of a network says of a batch, in the precision of its weights."""
    assert isinstance(network, nn.Module)
    device = next(network.parameters()).device
    with torch.inference_mode(), torch.autocast(device.type, enabled=False):
        return ask(batch.tokens.to(device), batch.lengths.to(device)).cpu().numpy()


# -- constituents -----------------------------------------------------------------------------------------------------


@runtime_checkable
class Bracketer(Protocol):
    """A system that brackets sentences itself."""

    def bracketings(
        self,
        sentences: Sequence[Sequence[int]],
        *,
        vocabulary: Vocabulary,
        word_starts: Sequence[Bool[np.ndarray, " _"]],
        beam_size: int | None = None,
    ) -> list[list[Constituent]]:
        """The constituents of each sentence's tree, over its tokens; their labels are "" where the system has none.

        Args:
            sentences: token ids, without beginning and end.
            vocabulary: that the system was trained with.
            word_starts: whether each token is the first of a word.
            beam_size: the most trees of a sentence that are compared; None: as the system was made.
        """
        ...


def constituents_over_words(
    constituents: Sequence[Constituent], word_of_piece: Int[np.ndarray, " pieces"]
) -> list[Constituent]:
    """Constituents over tokens as those over words; without those that cut a word, and single words without a label.

    >>> constituents_over_words([(0, 3, "S"), (0, 2, "NP"), (1, 3, "X")], np.array([0, 0, 1]))
    [(0, 2, 'S'), (0, 1, 'NP')]
    """
    word = np.append(word_of_piece, word_of_piece[-1:] + 1)
    first = {int(place) for place in np.flatnonzero(np.diff(word, prepend=-1))}
    moved = ((int(word[start]), int(word[end]), label) for start, end, label in constituents if {start, end} <= first)
    return [(start, end, label) for start, end, label in moved if end - start > (0 if label else 1)]


# -- parsers ----------------------------------------------------------------------------------------------------------


def structure_found_by(trained: Trained) -> Structure:
    """What a system finds in a sentence: a tree, a graph or constituents."""
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
        attention_head: (masked Transformer) layer and attention head that it parses by, both 0-based; None: its own.
        beam_size: (graphs, constituents) hypotheses about those of a sentence; None: 20 graphs, or as in the run.
        tokens_per_batch: parsed at once, padding included.
        batch_size: the most sentences at once; None: any number.
    """

    systems: Sequence[Trained]
    attention_head: tuple[int, int] | None = None
    beam_size: int | None = None
    tokens_per_batch: int = 8192
    batch_size: int | None = None

    def __post_init__(self) -> None:
        check_at_least(1, beam_size=self.beam_size)
        of_trees = {
            "attention_head": self.attention_head is not None, "a consensus of several runs": len(self.systems) > 1,
        }  # fmt: skip
        given = {"beam_size": self.beam_size is not None} if self.structure == "tree" else of_trees
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
        """What sentences are given."""
        return structure_found_by(self.trained)

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with heads and relations, edges, or spans."""
        check_words(sentences)
        find = {"tree": self._trees, "graph": self._graphs, "constituency": self._constituents}[self.structure]
        return find(sentences)

    def _trees(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        vocabulary, reading = self.trained.vocabulary, self.trained.reading
        network = network_of([_by_attention_head(each, self.attention_head) for each in self.systems])
        if reading.form is None:
            raise UserError(
                f"The corpus of {self.trained.run} does not say in which form its text is: name it by `form`, one of "
                f"{', '.join(FORMS)} (depgen.trees.text_form)."
            )
        heads = predicted_heads(
            network, vocabulary, list(map(reading.words, sentences)), decodings=["tree"],
            tokens_per_batch=self.tokens_per_batch, batch_size=self.batch_size,
        )["tree"]  # fmt: skip
        return [
            sentence.with_heads(put_words_back(own, reading.kept(sentence)))
            for sentence, own in zip(sentences, heads, strict=True)
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
