"""Batches of sentences with the words that their tokens spell, their graphs, and the feature tapes of these."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int, UInt8
from torch import Tensor

from depgen.data.batch import ItemBatch, Stretch, TokenBatch, TokenItem, collate_tokens
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.graph_state import GraphState
from depgen.errors import UserError
from depgen.trees.feature_tapes import FEATURES, LARGEST, arcs_by_later_word, check_tape_options, feature_tapes
from depgen.trees.graph import check_graph_names, parted_graphs
from depgen.trees.sentence import Edge

Ends = tuple[np.ndarray, np.ndarray]
"""Heads and dependents of the edges of a graph."""


@dataclass(frozen=True)
class Tapes:
    """The graphs of a sentence, and how their feature tapes are computed (Section 3.3).

    Attributes:
        degree_weights: of an arc into a word, and of one out of it; m_in and m_out.
        distance_weights: of a step against an arc, and of one along it.
        disconnected: the code of the distance of a word without a path.
        max_count: the most arcs of a word with earlier words.
        graphs: names of the graphs of a sentence, see `depgen.trees.graph.joined_graphs`; none: it has one.
    """

    degree_weights: tuple[int, int] = (1, 10)
    distance_weights: tuple[int, int] = (1, 10)
    disconnected: int = 0
    max_count: int = 29
    graphs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_tape_options(self.degree_weights, self.distance_weights, self.disconnected)
        check_graph_names(self.graphs)

    @property
    def number(self) -> int:
        """How many graphs a sentence has."""
        return max(1, len(self.graphs))

    @property
    def codes(self) -> int:
        """How many values a feature has."""
        return max(LARGEST, self.disconnected) + 1

    def empty_graph(self, rows: int, *, device: torch.device) -> GraphState:
        """Graphs of the root alone, for a search."""
        weights = {"degree_weights": self.degree_weights, "distance_weights": self.distance_weights}
        return GraphState.empty(rows, device=device, **weights, disconnected=self.disconnected)

    def of(self, heads: Int[np.ndarray, " edges"], dependents: Int[np.ndarray, " edges"], words: int) -> np.ndarray:
        """The tapes of a sentence."""
        weights = {"degree_weights": self.degree_weights, "distance_weights": self.distance_weights}
        return feature_tapes(heads, dependents, words, **weights, disconnected=self.disconnected)

    def of_document(
        self, document: Sequence[Sequence[int]], sentences: Sequence[Sequence[Edge]], word: Sequence[int]
    ) -> list[Ends]:
        """`joined_edges` of each graph.

        Raises:
            UserError: the label of an edge does not begin with the name of a graph.
        """
        graphs = zip(*(parted_graphs(edges, self.graphs) for edges in sentences), strict=True)
        return [joined_edges(document, of_sentences, word) for of_sentences in graphs]

    def choices(self, word: Int[np.ndarray, " length"], edges: Sequence[Edge]) -> list[int]:
        """The number of arcs of each token's word with earlier words; 0 at tokens that continue a word.

        The numbers of several graphs are one, as `depgen.decoding.graph_search.Choices` counts.

        >>> Tapes().choices(np.array([1, 2, 2]), [(0, 1, "root"), (2, 1, "dep"), (0, 2, "root")])
        [1, 2, 0]
        >>> Tapes(max_count=9, graphs=("a", "b", "c")).choices(np.array([1]), [(0, 1, "b/root")])
        [10]
        """
        counts = []
        for graph in parted_graphs(edges, self.graphs):
            later = np.bincount([max(head, dependent) for head, dependent, _ in graph], minlength=len(word) + 1)
            counts.append(np.where(np.diff(word, prepend=0), later[word], 0))
        found: list[int] = np.ravel_multi_index(counts, [self.max_count + 1] * len(counts)).tolist()
        return found


@dataclass(frozen=True, kw_only=True)
class GraphBatch(TokenBatch):
    """Sentences, the words that their tokens spell, and their graphs where all have one.

    Attributes:
        word: the number of the word that each input belongs to; 0 for what begins the sentence.
        first: the place of each word's first token among the inputs; 0 at padding.
        word_lengths: number of words of each sentence.
        tapes: feature tapes, those of a graph together; None without graphs.
        from_earlier: whether word i has an arc from j < i (0 = root), at `[i - 1, j]`; None without graphs.
        to_earlier: whether it has one to j < i; None without graphs.
    """

    on_cpu: ClassVar[frozenset[str]] = TokenBatch.on_cpu | {"word_lengths"}

    word: Int[Tensor, "batch length"]
    first: Int[Tensor, "batch words"]
    word_lengths: Int[Tensor, " batch"]
    tapes: UInt8[Tensor, "batch features nodes nodes"] | None = None
    from_earlier: Bool[Tensor, "batch graphs words nodes"] | None = None
    to_earlier: Bool[Tensor, "batch graphs words nodes"] | None = None

    @property
    def opens(self) -> Bool[Tensor, "batch length"]:
        """True at inputs that begin a word."""
        return F.pad(self.word.diff(dim=1) > 0, (1, 0))

    @property
    def counts(self) -> Int[Tensor, "batch graphs words"]:
        """The number of each word's arcs with earlier words and the root."""
        assert self.from_earlier is not None
        assert self.to_earlier is not None
        return self.from_earlier.sum(-1) + self.to_earlier.sum(-1)


def collate_graphs(batch: ItemBatch, *, tapes: Tapes) -> GraphBatch:
    """A padded batch of sentences, with their graphs where all of them have one; a tree is a graph too.

    Raises:
        UserError: rows of a stream, a word with more arcs than `tapes.max_count`, or an edge of no graph of a name.
    """
    tokens = collate_tokens(batch)
    items = [only_item(stretch) for stretch in batch.stretches]
    words = [words_of(item, batch.vocabulary) for item in items]
    edges = [_edges_of(item, word, tapes.graphs) for item, word in zip(items, words, strict=True)]
    word, first, word_lengths = _aligned(words, tokens.inputs.shape)
    whole = GraphBatch(**vars(tokens), word=word, first=first, word_lengths=word_lengths)
    known = [each for each in edges if each is not None]
    if len(known) < len(edges):
        return whole
    return with_graphs(whole, known, tapes, lambda row: batch.vocabulary.decode(items[row].ids.tolist()))


def with_graphs(
    batch: GraphBatch, edges: Sequence[Sequence[Ends]], tapes: Tapes, text: Callable[[int], str]
) -> GraphBatch:
    """The batch with graphs.

    Args:
        batch: of sentences.
        edges: of each graph of each.
        tapes: how their tapes are computed.
        text: the sentence of a row, for messages.

    Raises:
        UserError: a word with more arcs than `tapes.max_count`, or an edge to a word that there is not.
    """
    (rows, words), number = batch.first.shape, tapes.number
    found = torch.zeros(rows, number, len(FEATURES), words + 1, words + 1, dtype=torch.uint8)
    from_earlier, to_earlier = torch.zeros(2, rows, number, words, words + 1, dtype=torch.bool)
    for row, (of_row, size) in enumerate(zip(edges, batch.word_lengths.tolist(), strict=True)):
        for graph, (heads, dependents) in enumerate(of_row):
            others = heads != dependents  # no search chooses an arc of a word to itself
            heads, dependents = heads[others], dependents[others]
            arcs = arcs_by_later_word(heads, dependents, size)
            found[row, graph, :, : size + 1, : size + 1] = torch.from_numpy(tapes.of(heads, dependents, size))
            for whole, each in zip((from_earlier, to_earlier), arcs, strict=True):
                whole[row, graph, :size, : size + 1] = torch.from_numpy(each)
    graphs = replace(batch, tapes=found.flatten(1, 2), from_earlier=from_earlier, to_earlier=to_earlier)
    too_many = (graphs.counts > tapes.max_count).nonzero().tolist()
    if too_many:
        row, graph, word = too_many[0]
        most = int(graphs.counts[row, graph, word])
        raise UserError(
            f"{text(row)!r}: expected at most {tapes.max_count} arcs between a word and earlier ones, found {most} at "
            f"word {word + 1}. Raise model.init_args.max_count, or leave the sentence out."
        )
    return graphs


def only_item(stretch: Stretch) -> TokenItem:
    """The sentence that a row is.

    Raises:
        UserError: it is part of a stream.
    """
    if len(stretch.items) > 1 or stretch.start or stretch.stop != len(stretch.items[0].ids) + 1:
        raise UserError(
            "Graphs and trees are read sentence by sentence, found rows of a stream: take depgen.data.text.TextData "
            "instead of depgen.data.stream.StreamData."
        )
    return stretch.items[0]


def words_of(item: TokenItem, vocabulary: Vocabulary) -> Int[np.ndarray, " length"]:
    """The number of the word that each token belongs to, from 1."""
    if item.word_ends is not None:
        return np.concatenate([[0], np.cumsum(item.word_ends)[:-1]]).astype(np.int64)[: len(item.ids)] + 1
    return vocabulary.word_of_token(item.ids)


def _edges_of(item: TokenItem, word: Int[np.ndarray, " length"], graphs: Sequence[str]) -> list[Ends] | None:
    """The edges between words of each graph of the names; None for a sentence without a graph."""
    opens, labels = np.diff(word, prepend=0) > 0, item.relations
    if item.edges is not None:
        counts, heads, labels = np.diff(item.edges.offsets), item.edges.heads, item.edges.labels
    elif item.heads is not None:
        counts, heads = np.ones(len(word), np.int64), item.heads
    else:
        return None
    kept = np.repeat(opens, counts)  # a later piece of a word has the piece before as its head
    heads = heads[kept].astype(np.int64)
    if (heads < 0).any():
        return None
    ends = np.append(0, word)[heads], np.repeat(word, counts)[kept]
    if not graphs:
        return [ends]
    named = ["_"] * int(kept.sum()) if labels is None else labels[kept].tolist()
    edges = zip(*(each.tolist() for each in ends), named, strict=True)
    return [_ends(each) for each in parted_graphs(edges, graphs)]


def _ends(edges: Sequence[Sequence[Any]]) -> Ends:
    heads, dependents = np.array([edge[:2] for edge in edges], np.int64).reshape(-1, 2).T
    return heads, dependents


def _aligned(words: Sequence[np.ndarray], shape: torch.Size) -> tuple[Tensor, Tensor, Tensor]:
    """The word of each input, the first input of each word, and the numbers of words; padded."""
    sizes = [int(each[-1]) if len(each) else 0 for each in words]
    word = np.zeros(tuple(shape), np.int64)
    first = np.zeros((len(words), max(sizes)), np.int64)
    for row, (each, size) in enumerate(zip(words, sizes, strict=True)):
        word[row, 1 : len(each) + 1] = each
        word[row, len(each) + 1 :] = size
        first[row, :size] = np.flatnonzero(np.diff(each, prepend=0)) + 1
    return torch.from_numpy(word), torch.from_numpy(first), torch.tensor(sizes)


def joined_edges(document: Sequence[Sequence[int]], graphs: Sequence[Sequence[Edge]], word: Sequence[int]) -> Ends:
    """Heads and dependents of the edges of a document's sentences, which are one sequence of words."""
    found, tokens, before = [], 0, 0
    for ids, edges in zip(document, graphs, strict=True):
        found += [(head + before if head else 0, dependent + before, *label) for head, dependent, *label in edges]
        tokens += len(ids)
        before = word[tokens]
    return _ends(found)
