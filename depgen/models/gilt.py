"""GiLT: a Transformer that builds a dependency graph as it writes, and lets the graph steer its attention.

Huang et al. (2026), "GiLT: Augmenting Transformer Language Models with Dependency Graphs". When a word begins, its arcs
to and from earlier words are chosen: first their number, then the likeliest of them. Features of the graph so far
(degree, depth and distance of each word) are embedded and added to the keys of self-attention.

| paper | here |
|---|---|
| x_k, N | token k of `inputs`; `lengths` |
| w_i, M | word i, from 1; 0 is the root; `word_lengths` |
| o_i | `word_vectors` |
| p_ij, pi_i (Eq. 2, 3) | `GraphScorer`: scores of arcs, logits of counts |
| c_i, C | `counts`; `max_count` |
| G_k, g_jk | `tapes[:, word of k, word j]` |
| f_l, e^l_kj (Eq. 4) | `TapeAttention.table` |
| L (Eq. 6) | `graph_losses` |
| p(x, y), p(x) (Eq. 7) | `joint_log_probs`; `log_probs`, over the graphs that a beam holds |

Order of events: the word that token k begins gets its arcs from the states after token k - 1 and the embedding of token
k. Token k and all further tokens of the word are then encoded with a tape that holds these arcs.

Deviations:
D1. The tape passes through the content keys of Transformer-XL with the bias u, as in the authors' code, which is Eq. 4;
    Eq. 5 has it with the relative positions. `tape_through` chooses.
D2. The authors add a bias to each projection of features. It adds the same to the scores of all keys, so it changes
    nothing: it is left out (49,152 parameters at the paper's size).
D3. The middle layer of word vectors is L/2 + 1, as in the code; the paper has L/2. `middle_layer` chooses.
D4. The code weighs the sums of a sentence 1 : 0.4 : 0.4 (tokens, arcs, counts); Eq. 6 has means, and 1 : 0.2 : 0.2.
    `normalization` and the three weights choose. Sums are divided by the tokens of the batch, not by its sentences, so
    that gradients are smaller and a `clip` of the same size acts less often.
D5. Numbers of arcs that a word can't have get no probability. The code cuts the beam to the likeliest numbers before it
    leaves out the impossible ones, which can leave nothing.
D6. The degree counts all arcs. In the code's inference a word's own degree grows by one arc of each direction at most.
D7. Arcs in both directions between two words count with the smaller weight in both directions; the code weighs them
    otherwise in training than in inference.
D8. An arc of a word to itself is left out of graphs, as no search chooses one; it is learnt as absent (`self_loops`).
D9. Each epoch has another order of batches; the code has one order for all.
D10. Pretrained networks (GPT-2) learn from tokens alone at first, by steps in the code, by a share here. Word vectors
    hold embeddings of tokens without positions; the code adds positions in training, and not when it parses.

Several graphs of a sentence (`graphs`), as a tree and a content graph, are the paper's future work (Appendix C). Each
has its own tapes, scorer and counts; attention sees the tapes of all. A word's counts in different graphs do not depend
on one another, given the words and graphs before. Eq. 6 sums over graphs, Eq. 7 has a factor for each count, and
hypotheses differ in the counts of all graphs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn
from torch.nn import Parameter

from depgen.backbones.backbone import BackboneFactory, BackboneOutput, BackboneState, layers_up_to
from depgen.backbones.transformer import Transformer
from depgen.data.batch import ItemBatch, TokenBatch, TokenItem, collate_tokens, only_item, word_numbers
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.beam import Beam, leaders, search_parts
from depgen.decoding.generation import left_padded
from depgen.decoding.graph_state import GraphState
from depgen.errors import UserError, check_at_least
from depgen.language_models.base import SchedulerFactory
from depgen.language_models.structured import StructuredLanguageModel, Writing, in_turn
from depgen.nn.arc_pairs import GraphScorer, GraphScores, ScorerState
from depgen.nn.attention import Keys
from depgen.nn.coded_scores import coded_scores
from depgen.nn.lengths import mask_of
from depgen.nn.precise import precise
from depgen.nn.rows import Rows
from depgen.nn.vocabulary import log_softmax_over_vocabulary, word_log_probs
from depgen.training.clipping import groups_of_parts
from depgen.training.hyper_parameters import factory
from depgen.training.phases import Phase, after
from depgen.trees.feature_tapes import (
    DISCONNECTED,
    FEATURES,
    LARGEST,
    arcs_by_later_word,
    check_tape_options,
    feature_tapes,
)
from depgen.trees.graph import Ends, check_graph_names, ends_of, joined_edges, joined_graphs, parted_graphs
from depgen.trees.sentence import Edge

Feature = Literal["degree", "depth", "distance"]

# -- graphs in batches ----------------------------------------------------------------------------------------------


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

        The numbers of several graphs are one, as `Choices` counts.

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
    words = [word_numbers(item, batch.vocabulary) for item in items]
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
    return [ends_of(each) for each in parted_graphs(edges, graphs)]


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


Arcs = tuple[Bool[Tensor, "kept nodes"], Bool[Tensor, "kept nodes"]]
"""Whether there is an arc from each earlier node to a word, and one to each."""

# -- hypotheses -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArcChoices(Rows):
    """How many arcs a token's word may have in a graph, and which they are.

    Attributes:
        log_probs: of each number; of a token that begins no word 0 for none.
        from_rank: how many arcs are chosen before the one from each node to the word.
        to_rank: how many are chosen before the one to each node.
        memory: the words so far and this one, as the graph's scorer remembers them.
    """

    log_probs: Float[Tensor, "rows counts"]
    from_rank: Int[Tensor, "rows nodes"]
    to_rank: Int[Tensor, "rows nodes"]
    memory: ScorerState

    @classmethod
    def of(cls, scores: GraphScores, memory: ScorerState) -> "ArcChoices":
        """The choices that scores of the word's arcs lead to (Section 3.2): the likeliest arcs, by their number."""
        nodes = scores.from_earlier.size(1)
        order = torch.cat((scores.from_earlier, scores.to_earlier), 1).argsort(dim=1, descending=True, stable=True)
        ranks = torch.empty_like(order).scatter(1, order, torch.arange(2 * nodes, device=order.device).expand_as(order))
        return cls(scores.counts.log_softmax(-1), ranks[:, :nodes], ranks[:, nodes:], memory)

    def among(self, most: int | None) -> Float[Tensor, "rows counts"]:
        """The log-probabilities of the `most` likeliest numbers, -inf for all others; None keeps all."""
        if most is None or most >= self.log_probs.size(1):
            return self.log_probs
        likeliest = self.log_probs.topk(most, 1)
        return torch.full_like(self.log_probs, -torch.inf).scatter(1, likeliest.indices, likeliest.values)

    def arcs(self, rows: Int[Tensor, " kept"], counts: Int[Tensor, " kept"]) -> Arcs:
        """The `counts` likeliest arcs of some rows."""
        most = counts[:, None]
        return self.from_rank[rows] < most, self.to_rank[rows] < most


@dataclass(frozen=True)
class Choices(Rows):
    """How many arcs a token's word may have in each graph, and which they are.

    A choice is a number of arcs in each graph. Choices are numbered as these numbers are counted up, the last graph's
    first; the only graph's number is the choice's.

    Attributes:
        of_graphs: of each graph.
        opens: whether the token begins a word.
    """

    of_graphs: tuple[ArcChoices, ...]
    opens: Bool[Tensor, " rows"]

    def log_probs(self, most: int | None = None) -> Float[Tensor, "rows choices"]:
        """The log-probability of each choice, -inf unless each number is among its graph's `most` likeliest."""
        log_probs, *others = (graph.among(most) for graph in self.of_graphs)
        for of_graph in others:
            log_probs = (log_probs[:, :, None] + of_graph[:, None]).flatten(1)
        return log_probs

    def arcs(self, rows: Int[Tensor, " kept"], choices: Int[Tensor, " kept"]) -> tuple[Arcs, ...]:
        """The arcs of some rows in each graph, by the number of a choice."""
        counts = torch.unravel_index(choices, [graph.log_probs.size(1) for graph in self.of_graphs])
        return tuple(graph.arcs(rows, count) for graph, count in zip(self.of_graphs, counts, strict=True))


@dataclass(frozen=True)
class HypothesisState(Rows):
    """The state of each hypothesis after its last token.

    Attributes:
        backbone: the key-value cache.
        hidden: the last hidden state.
        states: the middle and the last but one layer of it, which word vectors are made from.
        memories: the words so far, as the scorer of each graph remembers them.
        graphs: the graphs so far.
        word: the word of each column; 0 for what begins the sentence, and at padding.
        tables: of the values of features in each layer, which all rows share.
        pending: in texts that are written, a token that is not yet encoded, and the choices of its arcs.
    """

    shared: ClassVar[frozenset[str]] = frozenset({"tables"})

    backbone: Any
    hidden: Float[Tensor, "rows width"]
    states: Float[Tensor, "rows two_widths"]
    memories: tuple[ScorerState, ...]
    graphs: tuple[GraphState, ...]
    word: Int[Tensor, "rows context"]
    tables: tuple[Tensor, ...]
    pending: tuple[Tensor, Choices] | None = None


# -- features in attention, and losses --------------------------------------------------------------------------------


class TapeAttention(nn.Module):
    """What features add to the scores of attention (Eq. 4): a key for each value of each feature, in each layer.

    Args:
        features: those that count.
        graphs: whose features there are, those of a graph together.
        layers: number of layers.
        width: size of a hidden state.
        feature_size: of a feature's embedding; the paper's d~.
        codes: values of a feature.
        std: of the projections' initial weights, which are normally distributed around 0.
    """

    def __init__(
        self,
        features: Sequence[str],
        *,
        graphs: int = 1,
        layers: int,
        width: int,
        feature_size: int,
        codes: int,
        std: float,
    ) -> None:
        super().__init__()
        self.places = [len(FEATURES) * graph + FEATURES.index(each) for graph in range(graphs) for each in features]
        self.embeddings = nn.ModuleList(nn.Embedding(codes, feature_size) for _ in self.places)
        self.projections = nn.ModuleList(
            nn.ModuleList(nn.Linear(feature_size, width, bias=False) for _ in self.places) for _ in range(layers)
        )
        for weight in self.projections.parameters():
            nn.init.normal_(weight, std=std)

    def table(self, layer: int, key_weight: Tensor | None) -> Float[Tensor, "features codes width"]:
        """The key of each value of each feature.

        Args:
            layer: 0-based, among those with features.
            key_weight: what the projections pass through, [width width]; None: nothing.
        """
        projections: Any = self.projections[layer]
        of_layer = zip(self.embeddings, projections, strict=True)
        keys = torch.stack([projection(embedding.weight) for embedding, projection in of_layer])
        return keys if key_weight is None else F.linear(keys, key_weight)

    def codes(
        self,
        rows: UInt8[Tensor, "batch features length nodes"],
        word: Int[Tensor, "batch context"],
    ) -> UInt8[Tensor, "batch used length context"]:
        """The value that each query has for each key, of the features that count; 0 for what begins the sentence."""
        shown = torch.stack([rows[:, place] for place in self.places], 1)
        shown[..., 0] = 0  # the root's values are not shown to attention
        return shown.gather(3, word[:, None, None].expand(-1, *shown.shape[1:3], -1))


def graph_losses(
    scores: GraphScores,
    from_earlier: Bool[Tensor, "batch words nodes"],
    to_earlier: Bool[Tensor, "batch words nodes"],
    counts: Int[Tensor, "batch words"],
    lengths: Int[Tensor, " batch"],
    *,
    self_loops: bool = True,
) -> tuple[Float[Tensor, " batch"], Float[Tensor, "batch words"]]:
    """The cross-entropy (nats) of each sentence's arcs, summed over pairs, and of each word's count (Eq. 6).

    Args:
        scores: of all pairs.
        from_earlier: whether word i has an arc from j, at `[i - 1, j]`.
        to_earlier: whether it has one to j.
        counts: of each word's arcs with earlier words.
        lengths: number of words of each sentence.
        self_loops: whether the pair of a word and itself counts.
    """
    words = counts.size(1)
    node = torch.arange(words + 1, device=counts.device)
    word = node[1:, None]
    is_word = (node[1:] <= lengths[:, None].to(counts.device))[..., None]
    before = is_word & (node < word)
    with_itself = is_word & (node <= word) if self_loops else before
    nll = F.binary_cross_entropy_with_logits(
        scores.from_earlier, from_earlier.to(scores.counts.dtype), reduction="none"
    )
    arcs = nll.masked_fill(~before, 0).sum((1, 2))
    nll = F.binary_cross_entropy_with_logits(scores.to_earlier, to_earlier.to(scores.counts.dtype), reduction="none")
    arcs = arcs + nll.masked_fill(~(with_itself & (node > 0)), 0).sum((1, 2))
    chosen = scores.counts.log_softmax(-1).gather(-1, counts[..., None])[..., 0]
    return arcs, -chosen.masked_fill(~is_word[..., 0], 0)


# -- the system -------------------------------------------------------------------------------------------------------


class GiLT(StructuredLanguageModel):
    """A Transformer that predicts tokens and, word by word, a dependency graph that steers its attention.

    Validation scores tokens, arcs and counts with the graphs given, as the authors select by. Scores of texts, and of
    the test split, are lower bounds: sums over the graphs that a beam holds.

    Args:
        backbone: makes the Transformer from the vocabulary size; in YAML a class path with all its other arguments.
        vocabulary_size: number of token types; linked from the data.
        features: those that attention and scorer see; none: graphs are predicted and change nothing, so that scores of
            texts are exact.
        graphs: names of the graphs of a sentence, which `depgen.annotation.joined_graphs` gives; none: it has one.
        tape_layers: the last layers that see features; None: all.
        tape_through: features are added to the `content` keys, to the relative `position`s, or to the projected `key`
            as in the authors' GPT-2; None: `content` where the backbone has relative positions, else `key` (D1).
        feature_size: of a feature's embedding; the paper's d~.
        degree_weights: of an arc into a word, and of one out of it: m_in and m_out.
        distance_weights: of a step against an arc, and of one along it.
        distance_codes: `shared`: words without a path have the distance of a word to itself, as in the authors' code;
            `separate`: another code.
        max_count: the most arcs of a word with earlier ones; the paper's C.
        middle_layer: the lower layer of word vectors, 1 = the first; None: half of the layers and one more (D3).
        bilinear: `diagonal`, as the authors' code computes, or the `full` matrices of Eq. 2 and 3.
        self_loops: a word's arc to itself is learnt as absent; it is never chosen.
        count_scale: what the sum of Eq. 3 is divided by: the root of 2i (`code`) or of 2i - 1 (`paper`).
        normalization: losses are `sums` over a sentence, or `means` as in Eq. 6 (D4).
        token_weight: of the tokens' cross-entropy; alpha.
        arc_weight: of the arcs'; beta.
        count_weight: of the counts'; gamma.
        beam_size: hypotheses about the graph of a text that is scored.
        counts_per_hypothesis: the likeliest numbers of arcs by which each is continued, in each graph; None: all.
        scorer_learning_rate: of the scorers of arcs; None: the optimiser's.
        tape_learning_rate: of the parameters that features add to a pretrained network; None: the optimiser's.
        tape_rate: what has that rate: `all` of them, as in the paper; or their `projections` while tokens alone are
            learnt, as in the code.
        language_modeling_share: the part of `trainer.max_epochs`, at the beginning, in which tokens alone are learnt,
            with graphs given.
        language_modeling_scheduler: the schedule of these; None: the same.
        clip: the largest norm of the gradients of language model and scorers, each by itself; None: the trainer's.
        kwargs: see `LeftToRight`.
    """

    def __init__(
        self,
        backbone: BackboneFactory,
        vocabulary_size: int,
        *,
        features: Sequence[Feature] = ("degree", "depth", "distance"),
        graphs: Sequence[str] = (),
        tape_layers: int | None = None,
        tape_through: Literal["content", "position", "key"] | None = None,
        feature_size: int = 256,
        degree_weights: tuple[int, int] = (1, 10),
        distance_weights: tuple[int, int] = (1, 10),
        distance_codes: Literal["shared", "separate"] = "shared",
        max_count: int = 29,
        middle_layer: int | None = None,
        bilinear: Literal["diagonal", "full"] = "diagonal",
        self_loops: bool = True,
        count_scale: Literal["code", "paper"] = "code",
        normalization: Literal["sums", "means"] = "sums",
        token_weight: float = 1.0,
        arc_weight: float = 0.4,
        count_weight: float = 0.4,
        beam_size: int = 300,
        counts_per_hypothesis: int | None = 5,
        scorer_learning_rate: float | None = None,
        tape_learning_rate: float | None = None,
        tape_rate: Literal["all", "projections"] = "all",
        language_modeling_share: float = 0.0,
        language_modeling_scheduler: SchedulerFactory | None = None,
        clip: float | None = None,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        self.save_hyperparameters()
        check_at_least(1, beam_size=beam_size, counts_per_hypothesis=counts_per_hypothesis, max_count=max_count)
        check_at_least(1, feature_size=feature_size)
        self.use_backbone(factory(backbone, BackboneFactory)(vocabulary_size))
        layers, width = self.backbone.attention_layers, self.backbone.width
        disconnected = 0 if distance_codes == "shared" else DISCONNECTED
        self.tapes = Tapes(degree_weights, distance_weights, disconnected, max_count, tuple(graphs))
        self.first_tape_layer = layers - layers_up_to(layers, tape_layers=tape_layers)
        middle_layer = layers // 2 + 1 if middle_layer is None else middle_layer
        self.middle_layer = layers_up_to(layers, middle_layer=middle_layer)
        relative = isinstance(self.backbone, Transformer) and self.backbone.relative is not None
        self.tape_through = tape_through or ("content" if relative else "key")
        if self.tape_through != "key" and not relative:
            raise UserError(
                f"tape_through: {self.tape_through} needs a backbone with positions: relative; take key, or such a one."
            )
        make_scorer = partial(
            GraphScorer, width, features=features, bilinear=bilinear, self_loops=self_loops, count_scale=count_scale,
            max_count=max_count, feature_size=feature_size, codes=self.tapes.codes,
        )  # fmt: skip
        self.scorer = make_scorer()
        self.further_scorers = nn.ModuleList(make_scorer() for _ in range(1, self.tapes.number))
        self.tape_attention = TapeAttention(
            features, graphs=self.tapes.number, layers=layers - self.first_tape_layer, width=width,
            feature_size=feature_size, codes=self.tapes.codes,
            std=math.sqrt(2 / (layers * feature_size)) if relative else 0.02,  # theirs: Transformer-XL's, GPT-2's
        )  # fmt: skip
        if not features:
            self.likelihood = "exact"  # tokens do not depend on graphs
        self.self_loops, self.normalization = self_loops, normalization
        self.weights = token_weight, arc_weight, count_weight
        self.vocabulary_size = vocabulary_size
        self.beam_size, self.counts_per_hypothesis = beam_size, counts_per_hypothesis
        self.rates, self.clip = {"scorer": scorer_learning_rate, "tape": tape_learning_rate}, clip
        self.tape_rate, self._schedulers = tape_rate, [self._scheduler]
        self.phases = after(Phase("language_modeling", language_modeling_share), Phase("joint_modeling"))
        if language_modeling_share:
            own = language_modeling_scheduler
            self._schedulers.insert(0, factory(own, SchedulerFactory) if own else self._scheduler)

    @property
    def collate(self) -> Callable[[ItemBatch], GraphBatch]:
        """Padded sentences with their words and graphs."""
        return partial(collate_graphs, tapes=self.tapes)

    @property
    def scorers(self) -> list[GraphScorer]:
        """The scorer of each graph."""
        return [self.scorer, *self.further_scorers]

    # -- phases and optimisers ----------------------------------------------------------------------------------------

    @property
    def tokens_alone(self) -> bool:
        """Whether the present phase learns from tokens alone, not from arcs and their numbers."""
        return self.phase < len(self.phases) - 1

    def configure_optimizers(self) -> Any:  # noqa: ANN401
        """A fresh optimiser and the phase's schedule."""
        self._scheduler = self._schedulers[self.phase]
        return super().configure_optimizers()

    def trained_parameters(self) -> list[Parameter]:
        """All parameters; those of scorers would only decay where tokens alone are learnt."""
        spared = {id(each) for each in nn.ModuleList(self.scorers).parameters()} if self.tokens_alone else set()
        return [each for each in super().trained_parameters() if id(each) not in spared]

    def parameter_groups(self) -> list[Parameter] | list[dict[str, Any]]:
        """The language model's parameters, those for features and the scorers', by their rates; two clips."""
        parts: dict[str, nn.Module] = {"scorer": nn.ModuleList(self.scorers)}
        if self.rates["tape"] is not None and (self.tape_rate == "all" or self.tokens_alone):
            parts["tape"] = self.tape_attention if self.tape_rate == "all" else self.tape_attention.projections
        return groups_of_parts(self.trained_parameters(), parts, self.rates, clip=self.clip, clipped_apart="scorer")

    # -- the network --------------------------------------------------------------------------------------------------

    def encode_tokens(
        self,
        tokens: Int[Tensor, "batch length"],
        rows: UInt8[Tensor, "batch features length nodes"],
        word: Int[Tensor, "batch context"],
        *,
        tables: Sequence[Tensor] | None = None,
        **options: Any,  # noqa: ANN401, of the backbone
    ) -> BackboneOutput:
        """The backbone's output with all layers, its attention steered by features (Eq. 4).

        Args:
            tokens: after those of a state, if that is among the options.
            rows: the features of each token's tape.
            word: the word of each token, those of the state included.
            tables: of the layers, what `_table` gives; None computes them.
            options: of the backbone.
        """
        codes = self.tape_attention.codes(rows, word) if self.tape_attention.places else None
        scores = None if codes is None else partial(self._scores, codes, tables)
        found: BackboneOutput = self.backbone(tokens, all_layers=True, score_function=scores, **options)
        return found

    def _scores(
        self,
        codes: UInt8[Tensor, "batch used length context"],
        tables: Sequence[Tensor] | None,
        layer: int,
        queries: Tensor,
        keys: Keys,
    ) -> Tensor | None:
        """What features add to the scores of a layer's attention."""
        if layer < self.first_tape_layer:
            return None
        table = self._table(layer) if tables is None else tables[layer - self.first_tape_layer]
        if self.tape_through == "position":
            assert isinstance(self.backbone, Transformer)
            assert self.backbone.relative is not None
            relative = self.backbone.relative
            queries = queries + (relative.position_bias - relative.content_bias)[:, None]
        of_heads = table.view(*table.shape[:2], *queries.shape[1::2])
        scaled: Tensor = coded_scores(queries, of_heads, codes) * queries.size(-1) ** -0.5
        return scaled

    def _table(self, layer: int) -> Float[Tensor, "features codes width"]:
        """The key of each value of each feature in a layer."""
        place = layer - self.first_tape_layer
        if self.tape_through == "key":
            return self.tape_attention.table(place, None)
        assert isinstance(self.backbone, Transformer)
        weight_of = self.backbone.key_weight if self.tape_through == "content" else self.backbone.position_weight
        return self.tape_attention.table(place, weight_of(layer))

    def _states(self, layers: Sequence[Tensor]) -> Float[Tensor, "batch length two_widths"]:
        """The middle and the last but one layer, one after the other."""
        return torch.cat((layers[self.middle_layer], layers[-2]), -1)

    def word_vectors(
        self, states: Float[Tensor, "*batch two_widths"], tokens: Int[Tensor, "*batch"]
    ) -> Float[Tensor, "*batch three_widths"]:
        """o_i: of the states before a word and its first token."""
        embedding: Any = self.backbone.embedding
        return torch.cat((states, F.embedding(tokens, embedding.weight)), -1)

    def encode(self, batch: TokenBatch, *, attention_layer: int | None = None) -> BackboneOutput:
        """The backbone's output with the graphs given.

        Raises:
            UserError: a sentence has no graph.
        """
        assert isinstance(batch, GraphBatch)
        if batch.tapes is None:
            raise UserError(
                "GiLT learns from graphs, and at least one sentence of a batch has none: set data.init_args.annotator "
                "to one that gives every sentence a graph or a tree."
            )
        _, features, _, nodes = batch.tapes.shape
        rows = batch.tapes.gather(2, batch.word[:, None, :, None].expand(-1, features, -1, nodes))
        return self.encode_tokens(batch.inputs, rows, batch.word, attention_layer=attention_layer)

    def teacher_forced(self, batch: GraphBatch) -> tuple[Float[Tensor, "batch length"], list[GraphScores]]:
        """Log-probabilities (nats) of the targets and, by graph, scores of all arcs and counts, with graphs given."""
        output = self.encode(batch)
        assert batch.tapes is not None
        assert output.layers is not None
        tokens = word_log_probs(output.hidden, *self._output, batch.targets)
        before = (batch.first - 1).clamp_min(0)
        states = self._states(output.layers)
        states = states.gather(1, before[..., None].expand(-1, -1, states.size(-1)))
        vectors = self.word_vectors(states, batch.inputs.gather(1, batch.first))
        pairs = zip(self.scorers, batch.tapes.chunk(self.tapes.number, 1), strict=True)
        return tokens, [scorer(vectors, tapes, batch.word_lengths) for scorer, tapes in pairs]

    @property
    def _output(self) -> tuple[Tensor, Tensor | None]:
        return self.backbone.output_weight, self.backbone.output_bias

    # -- losses -------------------------------------------------------------------------------------------------------

    def training_step(self, batch: GraphBatch, batch_idx: int) -> Float[Tensor, ""]:
        """Eq. 6, per token of the global batch."""
        tokens, arcs, counts = self._sentence_losses(batch)
        names = ("token_loss", "arc_loss", "count_loss")
        for name, each in zip(names, (tokens, arcs, counts), strict=True):
            self.log_train(each.detach().sum(), batch.global_tokens, name=name)
        if self.normalization == "means":
            words, lengths = (each.to(tokens.device) for each in (batch.word_lengths, batch.lengths))
            words = words.clamp_min(1)
            pairs = words * (words + 1 if self.self_loops else words)
            # a mean over sentences, in the form that `log_train` divides by the tokens of the batch
            scale = lengths.sum() / lengths.size(0)
            tokens, arcs, counts = (scale * each for each in (tokens / lengths, arcs / pairs, counts / words))
        token_weight, arc_weight, count_weight = (self.weights[0], 0.0, 0.0) if self.tokens_alone else self.weights
        loss = (token_weight * tokens + arc_weight * arcs + count_weight * counts).sum()
        return self.log_train(loss, batch.global_tokens)

    def _sentence_losses(self, batch: GraphBatch) -> tuple[Tensor, Tensor, Tensor]:
        """The cross-entropies (nats) of each sentence's tokens, arcs and counts, sums."""
        log_probs, scores = self.teacher_forced(batch)
        assert batch.from_earlier is not None
        assert batch.to_earlier is not None
        learnt = (each.unbind(1) for each in (batch.from_earlier, batch.to_earlier, batch.counts))
        losses = [
            graph_losses(found, earlier, later, number, batch.word_lengths, self_loops=self.self_loops)
            for found, earlier, later, number in zip(scores, *learnt, strict=True)
        ]
        arcs, counts = (torch.stack(each).sum(0) for each in zip(*losses, strict=True))
        return -log_probs.masked_fill(~batch.is_word, 0).sum(1), arcs, counts.sum(1)

    def joint_nll(self, batch: GraphBatch) -> Float[Tensor, " batch"]:
        """The nats of what the phase learns of each item."""
        nll = sum(map(precise, self._sentence_losses(batch)[: 1 if self.tokens_alone else 3]))
        assert isinstance(nll, Tensor)
        return nll

    # -- scores -------------------------------------------------------------------------------------------------------

    def log_probs(self, batch: TokenBatch) -> Float[Tensor, "batch length"]:
        """What each target adds to the log-probability (nats) of its sentence, over the graphs that a beam holds.

        Their sums are lower bounds of log-probabilities; exact ones without features. The arcs of a word are counted at
        the target after its first token.
        """
        assert isinstance(batch, GraphBatch)
        if not self.tape_attention.places:
            return word_log_probs(self.backbone(batch.inputs).hidden, *self._output, batch.targets)
        return super().log_probs(batch)

    def joint_log_probs(
        self,
        batch: TokenBatch,
        documents: Sequence[Sequence[Sequence[int]]],
        structure: Sequence[Sequence[Any]],
    ) -> Float[Tensor, "batch length"]:
        """Log-probabilities (nats) of the targets and the counts, given edges `(head, dependent, label)` over words.

        A count is added to the target that is its word's first token. Which arcs they are adds no probability
        in Eq. 7: the system takes the likeliest.
        """
        assert isinstance(batch, GraphBatch)
        texts = zip(documents, structure, batch.word.tolist(), strict=True)
        edges = [self.tapes.of_document(*text) for text in texts]
        whole = with_graphs(batch.to("cpu"), edges, self.tapes, lambda row: f"document {row + 1}").to(self.device)
        tokens, scores = self.teacher_forced(whole)
        log_probs = torch.stack([each.counts.log_softmax(-1) for each in scores], 1)
        counts = log_probs.gather(-1, whole.counts[..., None])[..., 0].sum(1)
        is_word = mask_of(whole.word_lengths, counts.size(1), device=counts.device)
        return tokens.scatter_add(1, (whole.first - 1).clamp_min(0), counts.masked_fill(~is_word, 0))

    # -- search over graphs -------------------------------------------------------------------------------------------

    def leaders(self, batch: GraphBatch) -> Int[Tensor, "batch length_and_one"]:
        """See `StructuredLanguageModel`."""
        return leaders(batch.targets, batch.opens, batch.lengths)

    def beginning_of(self, batch: GraphBatch) -> HypothesisState:
        """See `StructuredLanguageModel`."""
        return self.beginning(batch.inputs[:, 0], words=int(batch.opens.sum(1).max()))

    def with_input(
        self, beam: Beam[HypothesisState], batch: GraphBatch, k: int, *, beam_size: int
    ) -> Beam[HypothesisState]:
        """The hypotheses after token k and, where that begins a word, the word's arcs: the likeliest of each number."""
        tokens, opens = batch.inputs[beam.items, k], (batch.word[:, k] > batch.word[:, k - 1])[beam.items]
        choices = self.choices(beam.state, tokens, opens)

        def build(state: HypothesisState, rows: Tensor, chosen: Tensor) -> HypothesisState:
            return self.step(state, tokens, choices, rows, choices.arcs(rows, chosen))

        return beam.expanded(choices.log_probs(self.counts_per_hypothesis), build, beam_size=beam_size)

    def structure_of(self, state: HypothesisState, row: int) -> tuple[Edge, ...]:
        """The graphs of a hypothesis as one; labels are `root` and `dep`, behind names of graphs."""
        graphs = [[(head, word, "dep" if head else "root") for head, word in graph.arcs(row)] for graph in state.graphs]
        return joined_graphs(graphs, self.tapes.graphs)

    def beginning(
        self, tokens: Int[Tensor, " rows"], *, words: int, is_token: Bool[Tensor, " rows"] | None = None
    ) -> HypothesisState:
        """The state after the tokens that begin sentences.

        Args:
            tokens: one a row.
            words: the most words that a sentence will have.
            is_token: False at padding.
        """
        rows = tokens.size(0)
        graphs = (self.tapes.empty_graph(rows, device=self.device),) * self.tapes.number
        memories = tuple(each.root_state(rows, words=words) for each in self.scorers)
        word = torch.zeros(rows, 0, dtype=torch.long, device=self.device)
        layers = range(self.first_tape_layer, self.backbone.attention_layers)
        tables = tuple(map(self._table, layers)) if self.tape_attention.places else ()
        return self._stepped(None, tokens, memories, graphs, word, tables, is_token)

    def choices(self, prefix: HypothesisState, tokens: Int[Tensor, " rows"], opens: Bool[Tensor, " rows"]) -> Choices:
        """The arcs that the words may have that tokens begin (Section 3.2)."""
        vectors = self.word_vectors(prefix.states, tokens)
        of_graphs = (
            ArcChoices.of(*scorer.step(memory, vectors, graph.features, opens=opens))
            for scorer, memory, graph in zip(self.scorers, prefix.memories, prefix.graphs, strict=True)
        )
        return Choices(tuple(of_graphs), opens)

    def step(
        self,
        prefix: HypothesisState,
        tokens: Int[Tensor, " rows"],
        choices: Choices,
        rows: Int[Tensor, " kept"],
        arcs: Sequence[Arcs],
        is_token: Bool[Tensor, " kept"] | None = None,
    ) -> HypothesisState:
        """The state of some rows after their tokens, encoded with these arcs of their words.

        Args:
            prefix: the state before.
            tokens: of all rows.
            choices: what their words may have.
            rows: those kept, in the order given.
            arcs: of the words in each graph.
            is_token: False at padding.
        """
        opens, pairs = choices.opens[rows], zip(prefix.graphs, arcs, strict=True)
        graphs = tuple(graph.select(rows).inserted(*of_graph, inserts=opens) for graph, of_graph in pairs)
        memories = tuple(each.memory.select(rows) for each in choices.of_graphs)
        backbone, word = prefix.backbone.select(rows), prefix.word[rows]
        return self._stepped(backbone, tokens[rows], memories, graphs, word, prefix.tables, is_token)

    def _stepped(
        self,
        state: BackboneState | None,
        tokens: Tensor,
        memories: tuple[ScorerState, ...],
        graphs: tuple[GraphState, ...],
        word: Tensor,
        tables: tuple[Tensor, ...],
        is_token: Tensor | None,
    ) -> HypothesisState:
        """The state after one more token a row, whose tapes are those of the graphs."""
        word = torch.cat((word, graphs[0].lengths[:, None]), 1)
        rows = torch.cat([each.features for each in graphs]).transpose(0, 1)[:, :, None]
        padding = None if is_token is None else ~is_token[:, None]
        output = self.encode_tokens(
            tokens[:, None], rows, word, tables=tables, state=state, carry=True, padding=padding
        )
        assert output.layers is not None
        assert output.state is not None
        states = self._states(output.layers)[:, -1]
        return HypothesisState(output.state, output.hidden[:, -1], states, memories, graphs, word, tables)

    def next_log_probs(self, state: HypothesisState, tokens: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        """The log-probability (nats) of the next token of each row."""
        return word_log_probs(state.hidden, *self._output, tokens)

    def parse(
        self, sentences: Sequence[Sequence[int]], *, vocabulary: Vocabulary, beam_size: int = 20
    ) -> list[tuple[Edge, ...]]:
        """The likeliest graph of each sentence; see `depgen.language_models.left_to_right.GraphNetwork`."""
        graphs = self.best_structures(sentences, vocabulary=vocabulary, beam_size=beam_size)
        return [tuple(edges) for edges in graphs]

    # -- generation ---------------------------------------------------------------------------------------------------

    def choices_of(self, ids: Sequence[int], structure: Sequence[Edge], vocabulary: Vocabulary) -> list[int]:
        """Tokens and choices of arcs in turn; the ids of choices follow those of tokens."""
        word = vocabulary.word_of_token(np.asarray(ids, np.int64))
        return in_turn(ids, self.tapes.choices(word, structure), self.vocabulary_size)

    def writing_step(
        self,
        writing: Writing,
        tokens: Int[Tensor, "batch length"],
        padding: Bool[Tensor, "batch length"] | None,
        state: HypothesisState | None,
    ) -> tuple[Float[Tensor, "batch choices"], HypothesisState]:
        """Log-probabilities of what is next: of tokens, or of choices of arcs."""
        size = self.vocabulary_size
        if state is not None and state.pending is None:
            choices = self.choices(state, tokens[:, 0], self._opens(writing, state, tokens[:, 0]))
            log_probs = F.pad(choices.log_probs(), (size, 0), value=-torch.inf)
            return log_probs, replace(state, pending=(tokens[:, 0], choices))
        if state is None:
            state = self._after_choices(writing, tokens, padding)
        else:
            assert state.pending is not None
            state = self._with_choices(state, *state.pending, tokens[:, 0] - size)
        return log_softmax_over_vocabulary(state.hidden, *self._output), state

    def _after_choices(self, writing: Writing, tokens: Tensor, padding: Tensor | None) -> HypothesisState:
        """The state after tokens and choices of arcs in turn, padded at the left."""
        is_token = torch.ones_like(tokens, dtype=torch.bool) if padding is None else ~padding
        ids, chosen, is_token = tokens[:, ::2], tokens[:, 1::2] - self.vocabulary_size, is_token[:, ::2]
        state = self.beginning(ids[:, 0], words=writing.longest, is_token=is_token[:, 0])
        for k in range(1, ids.size(1)):
            opens = self._opens(writing, state, ids[:, k]) & is_token[:, k - 1]
            choices = self.choices(state, ids[:, k], opens)
            state = self._with_choices(state, ids[:, k], choices, chosen[:, k].clamp_min(0), is_token[:, k])
        return state

    def _with_choices(
        self, state: HypothesisState, tokens: Tensor, choices: Choices, chosen: Tensor, is_token: Tensor | None = None
    ) -> HypothesisState:
        rows = torch.arange(tokens.size(0), device=tokens.device)
        return self.step(state, tokens, choices, rows, choices.arcs(rows, chosen), is_token)

    def _opens(self, writing: Writing, state: HypothesisState, tokens: Int[Tensor, " rows"]) -> Bool[Tensor, " rows"]:
        """Whether tokens begin words; the first of a text always does."""
        return writing.opens_word[tokens] | (state.graphs[0].lengths == 0)

    @torch.inference_mode()
    def written_structures(self, choices: Sequence[Sequence[int]], writing: Writing) -> list[tuple[Edge, ...]]:
        """The graphs of texts, which are read once more: a choice is a number of arcs, and scores say which."""
        graphs, eos = list[tuple[Edge, ...]](), writing.vocabulary.eos
        for texts in search_parts(len(choices), length=writing.longest, beam_size=1, device=self.device):
            begun = [[eos, *of_text] for of_text in choices[texts]]
            state = self._after_choices(writing, *left_padded(begun, filler=eos, device=self.device))
            graphs += [self.structure_of(state, row) for row in range(len(begun))]
        return graphs
