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

Order of events, as in the authors' code: the word that token k begins gets its arcs from the states after token k - 1
and the embedding of token k. Token k and all further tokens of the word are then encoded with a tape that holds these
arcs. Eq. 7 has the count after the word's last token.

Deviations:
D1. The tape passes through the content keys of Transformer-XL with the bias u, as in the authors' code, which is Eq. 4;
    Eq. 5 has it with the relative positions. In a network without relative positions, as GPT-2, it is added to the
    projected key, as in the code.
D2. The authors add a bias to each projection of features. It adds the same to the scores of all keys, so it changes
    nothing: it is left out (49,152 parameters at the paper's size).
D3. The middle layer of word vectors is L/2 + 1, as in the code; the paper has L/2.
D4. The code weighs the sums of a sentence 1 : 0.4 : 0.4 (tokens, arcs, counts), as here; Eq. 6 has means, and
    1 : 0.2 : 0.2. Sums are divided by the tokens of the batch, not by its sentences, so that gradients are smaller and
    a `clip` of the same size acts less often.
D5. Numbers of arcs that a word can't have get no probability. The code cuts the beam to the likeliest numbers before it
    leaves out the impossible ones, which can leave nothing.
D6. The degree counts all arcs. In the code's inference a word's own degree grows by one arc of each direction at most.
D7. Arcs in both directions between two words count with the smaller weight in both directions; the code weighs them
    otherwise in training than in inference.
D8. An arc of a word to itself is left out of graphs, as no search chooses one; it is learnt as absent. Words without a
    path have the distance of a word to itself, 0, as in the code. `depgen.nn.arc_pairs` has the scorer's deviations.
D9. Each epoch has another order of batches; the code has one order for all.
D10. Pretrained networks (GPT-2) learn from tokens alone at first, by steps in the code, by a share here. Word vectors
    hold embeddings of tokens without positions; the code adds positions in training, and not when it parses.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn
from torch.nn import Parameter

from depgen.backbones.backbone import BackboneFactory, BackboneOutput
from depgen.backbones.transformer import Transformer
from depgen.data.batch import ItemBatch, TokenBatch, TokenItem, collate_tokens, word_numbers
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.beam import Beam, Survivors, representatives
from depgen.errors import UserError, check_at_least
from depgen.language_models.base import SchedulerFactory
from depgen.language_models.structured import StructuredLanguageModel, Writing, in_turn
from depgen.nn.arc_pairs import GraphScorer, GraphScores, ScorerState
from depgen.nn.attention import KeyValues, coded_scores
from depgen.nn.feature_tapes import FEATURES, LARGEST, GraphState, TapeOptions, arcs_by_later_word, feature_tapes
from depgen.nn.lengths import mask_of
from depgen.nn.precise import precise
from depgen.nn.rows import Rows
from depgen.nn.vocabulary import log_softmax_over_vocabulary, word_log_probs
from depgen.training.hyper_parameters import factory
from depgen.training.phases import Phase, after
from depgen.trees.graph import Ends, joined_edges
from depgen.trees.sentence import Edge

Feature = Literal["degree", "depth", "distance"]

# -- graphs in batches ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class GraphBatch(TokenBatch):
    """Sentences, the words that their tokens spell, and their graphs where all have one.

    Attributes:
        word: the number of the word that each input belongs to; 0 for what begins the sentence.
        first: the place of each word's first token among the inputs; 0 at padding.
        word_lengths: number of words of each sentence.
        tapes: feature tapes; None without graphs.
        from_earlier: whether word i has an arc from j < i (0 = root), at `[i - 1, j]`; None without graphs.
        to_earlier: whether it has one to j < i; None without graphs.
    """

    on_cpu: ClassVar[frozenset[str]] = TokenBatch.on_cpu | {"word_lengths"}

    word: Int[Tensor, "batch length"]
    first: Int[Tensor, "batch words"]
    word_lengths: Int[Tensor, " batch"]
    tapes: UInt8[Tensor, "batch features nodes nodes"] | None = None
    from_earlier: Bool[Tensor, "batch words nodes"] | None = None
    to_earlier: Bool[Tensor, "batch words nodes"] | None = None

    @cached_property
    def word_on_cpu(self) -> Int[Tensor, "batch length"]:
        """`word`, on the CPU."""
        return self.word.cpu()

    @property
    def opens(self) -> Bool[Tensor, "batch length"]:
        """True at inputs that begin a word."""
        return F.pad(self.word.diff(dim=1) > 0, (1, 0))

    @property
    def counts(self) -> Int[Tensor, "batch words"]:
        """The number of each word's arcs with earlier words and the root."""
        assert self.from_earlier is not None
        assert self.to_earlier is not None
        return self.from_earlier.sum(-1) + self.to_earlier.sum(-1)


def collate_graphs(batch: ItemBatch, *, tapes: TapeOptions, max_count: int) -> GraphBatch:
    """A padded batch of sentences, with their graphs where all of them have one; a tree is a graph too.

    Raises:
        UserError: rows of a stream, or a word with more than `max_count` arcs.
    """
    tokens = collate_tokens(batch)
    items = batch.sentences
    words = [word_numbers(item, batch.vocabulary) for item in items]
    edges = [_edges_of(item, word) for item, word in zip(items, words, strict=True)]
    word, first, word_lengths = _aligned(words, tokens.inputs.shape)
    sentences = GraphBatch(**vars(tokens), word=word, first=first, word_lengths=word_lengths)
    known = [of_item for of_item in edges if of_item is not None]
    if len(known) < len(edges):
        return sentences
    return with_graphs(sentences, known, tapes, max_count, lambda row: batch.vocabulary.decode(items[row].ids.tolist()))


def with_graphs(
    batch: GraphBatch,
    edges: Sequence[Ends],
    options: TapeOptions,
    max_count: int,
    text: Callable[[int], str],
) -> GraphBatch:
    """The batch with the edges of each sentence's graph; `text` names the sentence of a row in messages.

    Raises:
        UserError: a word with more than `max_count` arcs, or an edge to a word that there is not.
    """
    rows, words = batch.first.shape
    tapes = torch.zeros(rows, len(FEATURES), words + 1, words + 1, dtype=torch.uint8)
    from_earlier, to_earlier = torch.zeros(2, rows, words, words + 1, dtype=torch.bool)
    for row, ((heads, dependents), size) in enumerate(zip(edges, batch.word_lengths.tolist(), strict=True)):
        others = heads != dependents  # no search chooses an arc of a word to itself
        heads, dependents = heads[others], dependents[others]
        tape = feature_tapes(heads, dependents, size, options)
        tapes[row, :, : size + 1, : size + 1] = torch.from_numpy(tape)
        before, after = arcs_by_later_word(heads, dependents, size)
        from_earlier[row, :size, : size + 1] = torch.from_numpy(before)
        to_earlier[row, :size, : size + 1] = torch.from_numpy(after)
    with_tapes = replace(batch, tapes=tapes, from_earlier=from_earlier, to_earlier=to_earlier)
    too_many = (with_tapes.counts > max_count).nonzero().tolist()
    if too_many:
        row, word = too_many[0]
        raise UserError(
            f"{text(row)!r}: expected at most {max_count} arcs between a word and earlier ones, found "
            f"{int(with_tapes.counts[row, word])} at word {word + 1}. Raise model.init_args.max_count, or leave "
            "the sentence out."
        )
    return with_tapes


def _edges_of(item: TokenItem, word: Int[np.ndarray, " length"]) -> Ends | None:
    """The edges between words; None for a sentence without a graph."""
    opens = np.diff(word, prepend=0) > 0
    if item.edges is not None:
        counts, heads = np.diff(item.edges.offsets), item.edges.heads
    elif item.heads is not None:
        counts, heads = np.ones(len(word), np.int64), item.heads
    else:
        return None
    between_words = np.repeat(opens, counts)  # a later piece of a word has the piece before as its head
    heads = heads[between_words].astype(np.int64)
    if (heads < 0).any():
        return None
    return np.append(0, word)[heads], np.repeat(word, counts)[between_words]


def _aligned(words: Sequence[np.ndarray], shape: torch.Size) -> tuple[Tensor, Tensor, Tensor]:
    """The word of each input, the first input of each word, and the numbers of words; padded."""
    sizes = [int(numbers[-1]) if len(numbers) else 0 for numbers in words]
    word = np.zeros(tuple(shape), np.int64)
    first = np.zeros((len(words), max(sizes)), np.int64)
    for row, (numbers, size) in enumerate(zip(words, sizes, strict=True)):
        word[row, 1 : len(numbers) + 1] = numbers
        word[row, len(numbers) + 1 :] = size
        first[row, :size] = np.flatnonzero(np.diff(numbers, prepend=0)) + 1
    return torch.from_numpy(word), torch.from_numpy(first), torch.tensor(sizes)


# -- features in attention (Section 3.4) ------------------------------------------------------------------------------


class TapeAttention(nn.Module):
    """What features add to the scores of attention (Eq. 4): a key for each value of each feature, in each layer.

    The paper's d~ is `feature_size`; the projections begin as normally distributed around 0, with the deviation `std`.
    """

    def __init__(self, features: Sequence[str], *, layers: int, width: int, feature_size: int, std: float) -> None:
        super().__init__()
        self.places = [FEATURES.index(name) for name in features]
        self.embeddings = nn.ModuleList(nn.Embedding(LARGEST + 1, feature_size) for _ in self.places)
        self.projections = nn.ModuleList(
            nn.ModuleList(nn.Linear(feature_size, width, bias=False) for _ in self.places) for _ in range(layers)
        )
        for weight in self.projections.parameters():
            nn.init.normal_(weight, std=std)

    def table(self, layer: int, key_weight: Tensor | None) -> Float[Tensor, "features codes width"]:
        """The key of each value of each feature: f_l of its embedding, and W_k of that, if `key_weight` gives it.

        `layer` is 0-based, among those with features.
        """
        projections: Any = self.projections[layer]
        of_layer = zip(self.embeddings, projections, strict=True)
        keys = torch.stack([projection(embedding.weight) for embedding, projection in of_layer])
        return keys if key_weight is None else F.linear(keys, key_weight)

    def codes(
        self, rows: UInt8[Tensor, "batch features length nodes"], word: Int[Tensor, "batch context"]
    ) -> UInt8[Tensor, "batch used length context"]:
        """The value that each query has for each key, of the features that count; 0 for what begins the sentence."""
        shown = torch.stack([rows[:, place] for place in self.places], 1)
        shown[..., 0] = 0  # the root's values are not shown to attention
        return shown.gather(3, word[:, None, None].expand(-1, *shown.shape[1:3], -1))


# -- losses -----------------------------------------------------------------------------------------------------------


def graph_losses(scores: GraphScores, batch: GraphBatch) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
    """The cross-entropies (nats) of each sentence's arcs and of its words' counts, summed (Eq. 6)."""
    assert batch.from_earlier is not None
    assert batch.to_earlier is not None
    counts = batch.counts
    node = torch.arange(counts.size(1) + 1, device=counts.device)
    word = node[1:, None]
    is_word = mask_of(batch.word_lengths, counts.size(1), device=counts.device)[..., None]
    before = is_word & (node < word)
    before_or_itself = is_word & (node > 0) & (node <= word)
    arcs = scores.counts.new_zeros(len(counts))
    for logits, is_arc, is_pair in (
        (scores.from_earlier, batch.from_earlier, before), (scores.to_earlier, batch.to_earlier, before_or_itself)
    ):  # fmt: skip
        nll = F.binary_cross_entropy_with_logits(logits, is_arc.to(logits.dtype), reduction="none")
        arcs = arcs + nll.masked_fill(~is_pair, 0).sum((1, 2))
    of_counts = scores.counts.log_softmax(-1).gather(-1, counts[..., None])
    return arcs, -of_counts.masked_fill(~is_word, 0).sum((1, 2))


# -- hypotheses -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WordArcs(Rows):
    """The arcs that a token's word may have, from the likeliest on, and how many of them it may have (Section 3.2).

    Attributes:
        opens: whether the token begins a word.
        log_probs: of each number of arcs; of a token that begins no word 0 for none.
        from_rank: how many arcs are likelier than the one from each node to the word.
        to_rank: how many are likelier than the one to each node.
        memory: the words so far and this one, as the scorer remembers them.
        words: the largest number of these words; 0 without any.
    """

    shared: ClassVar[frozenset[str]] = frozenset({"words"})

    opens: Bool[Tensor, " rows"]
    log_probs: Float[Tensor, "rows counts"]
    from_rank: Int[Tensor, "rows nodes"]
    to_rank: Int[Tensor, "rows nodes"]
    memory: ScorerState
    words: int

    @classmethod
    def of(cls, numbers: Int[Tensor, " rows"], scores: GraphScores, memory: ScorerState) -> "WordArcs":
        """The arcs by the scores of the word; `numbers` as in `GraphScorer.step`."""
        nodes = scores.from_earlier.size(1)
        order = torch.cat((scores.from_earlier, scores.to_earlier), 1).argsort(dim=1, descending=True, stable=True)
        ranks = torch.empty_like(order).scatter(1, order, torch.arange(2 * nodes, device=order.device).expand_as(order))
        opens = (numbers > 0).to(order.device, non_blocking=True)
        log_probs = scores.counts.log_softmax(-1)
        return cls(opens, log_probs, ranks[:, :nodes], ranks[:, nodes:], memory, int(numbers.max()))

    def likeliest_log_probs(self, most: int | None) -> Float[Tensor, "rows counts"]:
        """The log-probabilities of the `most` likeliest numbers of arcs, -inf for all others; None: of all."""
        if most is None or most >= self.log_probs.size(1):
            return self.log_probs
        likeliest = self.log_probs.topk(most, 1)
        return torch.full_like(self.log_probs, -torch.inf).scatter(1, likeliest.indices, likeliest.values)

    def graph(self, before: GraphState, counts: Int[Tensor, " rows"]) -> GraphState:
        """The graphs with the word and its `counts` likeliest arcs, from those before it."""
        most = counts[:, None]
        return before.inserted(self.from_rank < most, self.to_rank < most, inserts=self.opens, words=self.words)


@dataclass(frozen=True)
class HypothesisState(Rows):
    """The state of each hypothesis after its last token.

    Attributes:
        backbone: the key-value cache.
        hidden: the last hidden state.
        states: the middle and the last but one layer of it, which word vectors are made from.
        memory: the words so far, as the scorer remembers them.
        graph: the graphs so far.
        word: the word of each column; 0 for what begins the sentence, and at padding.
        tables: of the values of features in each layer, which all rows share.
        pending: in texts that are written, a token that is not yet encoded, and the arcs that its word may have.
    """

    shared: ClassVar[frozenset[str]] = frozenset({"tables"})

    backbone: Any
    hidden: Float[Tensor, "rows width"]
    states: Float[Tensor, "rows two_widths"]
    memory: ScorerState
    graph: GraphState
    word: Int[Tensor, "rows context"]
    tables: tuple[Tensor, ...]
    pending: tuple[Tensor, WordArcs] | None = None


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
        tape_layers: the last layers that see features; None: all.
        feature_size: of a feature's embedding; the paper's d~.
        degree_weights: of an arc into a word, and of one out of it: m_in and m_out.
        distance_weights: of a step against an arc, and of one along it.
        max_count: the most arcs of a word with earlier ones; the paper's C.
        arc_weight: of the arcs' cross-entropy, beside the tokens'; beta / alpha (D4).
        count_weight: of the counts'; gamma / alpha.
        beam_size: hypotheses about the graph of a text that is scored.
        counts_per_hypothesis: the likeliest numbers of arcs by which each is continued; None: all.
        scorer_learning_rate: of the scorer of arcs; None: the optimiser's.
        tape_learning_rate: of the parameters that features add to a pretrained network; None: the optimiser's.
        tape_rate: what has that rate: `all` of them, as in the paper; or their `projections` while tokens alone are
            learnt, as in the code.
        language_modeling_share: the part of `trainer.max_epochs`, at the beginning, in which tokens alone are learnt,
            with graphs given.
        language_modeling_scheduler: the schedule of these; None: the same.
        clip: the largest norm of the gradients of language model and scorer, each by itself; None: the trainer's.
        kwargs: see `LeftToRight`.
    """

    def __init__(
        self,
        backbone: BackboneFactory,
        vocabulary_size: int,
        *,
        features: Sequence[Feature] = ("degree", "depth", "distance"),
        tape_layers: int | None = None,
        feature_size: int = 256,
        degree_weights: tuple[int, int] = (1, 10),
        distance_weights: tuple[int, int] = (1, 10),
        max_count: int = 29,
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
        if clip is not None and not clip > 0:
            raise UserError(f"clip: expected a norm above 0, found {clip}.")
        self.use_backbone(factory(backbone, BackboneFactory)(vocabulary_size))
        layers, width = self.backbone.attention_layers, self.backbone.width
        self.tapes, self.max_count = TapeOptions(degree_weights, distance_weights), max_count
        if tape_layers is not None and not 1 <= tape_layers <= layers:
            raise UserError(f"tape_layers: expected 1 to {layers}, the layers of the backbone, found {tape_layers}.")
        self.first_tape_layer = 0 if tape_layers is None else layers - tape_layers
        self.middle_layer = layers // 2 + 1  # D3
        self.scorer = GraphScorer(width, features=features, max_count=max_count, feature_size=feature_size)
        relative = isinstance(self.backbone, Transformer) and self.backbone.relative is not None
        self.tape_attention = TapeAttention(
            features, layers=layers - self.first_tape_layer, width=width, feature_size=feature_size,
            std=math.sqrt(2 / (layers * feature_size)) if relative else 0.02,  # theirs: Transformer-XL's, GPT-2's
        )  # fmt: skip
        if not features:
            self.likelihood = "exact"  # tokens do not depend on graphs
        self.arc_weight, self.count_weight = arc_weight, count_weight
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
        return partial(collate_graphs, tapes=self.tapes, max_count=self.max_count)

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
        """All parameters; the scorer's would only decay where tokens alone are learnt."""
        left_out = {id(parameter) for parameter in self.scorer.parameters()} if self.tokens_alone else set()
        return [parameter for parameter in super().trained_parameters() if id(parameter) not in left_out]

    def parameter_groups(self) -> list[Parameter] | list[dict[str, Any]]:
        """The language model's parameters, those for features and the scorer's, by their rates; two clips."""
        parts: dict[str, nn.Module] = {"scorer": self.scorer}
        if self.rates["tape"] is not None and (self.tape_rate == "all" or self.tokens_alone):
            parts["tape"] = self.tape_attention if self.tape_rate == "all" else self.tape_attention.projections
        part_of = {id(parameter): name for name, part in parts.items() for parameter in part.parameters()}
        groups = []
        for name in ("others", *parts):
            members = [each for each in self.trained_parameters() if part_of.get(id(each), "others") == name]
            group: dict[str, Any] = {"params": members}
            if self.clip is not None:
                group |= {"clip": self.clip, "clip_name": "scorer" if name == "scorer" else "others"}
            if self.rates.get(name) is not None:
                group["lr"] = self.rates[name]
            groups.append(group)
        return [group for group in groups if group["params"]]

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
            tokens: after those of a state, if that is among the backbone's options.
            rows: the features of each token's tape.
            word: the word of each token, those of the state included.
            tables: what `_tables` gives; None computes them.
            options: of the backbone.
        """
        if self.tape_attention.places:
            codes = self.tape_attention.codes(rows, word)
            tables = self._tables() if tables is None else tables
            options["score_function"] = partial(self._tape_scores, codes, tables)
        output: BackboneOutput = self.backbone(tokens, all_layers=True, **options)
        return output

    def _tables(self) -> tuple[Float[Tensor, "features codes width"], ...]:
        """The key of each value of each feature in each layer that sees features."""
        layers = range(self.first_tape_layer, self.backbone.attention_layers)
        weights: list[Tensor | None] = [None] * len(layers)
        if isinstance(self.backbone, Transformer) and self.backbone.relative is not None:
            weights = [self.backbone.key_weight(layer) for layer in layers]
        return tuple(map(self.tape_attention.table, range(len(layers)), weights))

    def _tape_scores(
        self,
        codes: UInt8[Tensor, "batch used length context"],
        tables: Sequence[Tensor],
        layer: int,
        queries: Tensor,
        keys: KeyValues,
    ) -> Tensor | None:
        """What features add to the scores of a layer's attention: q·e_kj / √size, where q has the bias u."""
        if layer < self.first_tape_layer:
            return None
        table = tables[layer - self.first_tape_layer]
        of_heads = table.view(*table.shape[:2], *queries.shape[1::2])
        scaled: Tensor = coded_scores(queries, of_heads, codes) * queries.size(-1) ** -0.5
        return scaled

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
        self.refuse_without_structures(batch)
        assert batch.tapes is not None
        _, features, _, nodes = batch.tapes.shape
        rows = batch.tapes.gather(2, batch.word[:, None, :, None].expand(-1, features, -1, nodes))
        return self.encode_tokens(batch.inputs, rows, batch.word, attention_layer=attention_layer)

    def teacher_forced(self, batch: GraphBatch) -> tuple[Float[Tensor, "batch length"], GraphScores]:
        """Log-probabilities (nats) of the targets and scores of all arcs and counts, with graphs given."""
        output = self.encode(batch)
        return word_log_probs(output.hidden, *self._output, batch.targets), self._graph_scores(batch, output)

    def _graph_scores(self, batch: GraphBatch, output: BackboneOutput) -> GraphScores:
        """The scores of all arcs and counts."""
        assert output.layers is not None
        before = (batch.first - 1).clamp_min(0)
        states = self._states(output.layers)
        states = states.gather(1, before[..., None].expand(-1, -1, states.size(-1)))
        vectors = self.word_vectors(states, batch.inputs.gather(1, batch.first))
        scores: GraphScores = self.scorer(vectors, batch.tapes, batch.word_lengths)
        return scores

    @property
    def _output(self) -> tuple[Tensor, Tensor | None]:
        return self.backbone.output_weight, self.backbone.output_bias

    # -- losses -------------------------------------------------------------------------------------------------------

    def training_step(self, batch: GraphBatch, batch_idx: int) -> Float[Tensor, ""]:
        """Eq. 6, per token of the global batch."""
        losses = self._sentence_losses(batch)
        for name, of_sentences in zip(("token_loss", "arc_loss", "count_loss"), losses, strict=False):
            self.log_train(of_sentences.detach().sum(), batch.global_tokens, name=name)
        weights = (1.0, self.arc_weight, self.count_weight)
        weighted = [weight * of_sentences for weight, of_sentences in zip(weights, losses, strict=False)]
        loss = torch.stack(weighted).sum(0).sum()
        if self.tokens_alone:  # training on several devices expects a gradient of each parameter, here 0
            loss = loss + 0 * sum(parameter.sum() for parameter in self.scorer.parameters())
        return self.log_train(loss, batch.global_tokens)

    def _sentence_losses(self, batch: GraphBatch) -> list[Float[Tensor, " batch"]]:
        """The cross-entropies (nats) of each sentence's tokens, and of its arcs and counts where they are learnt."""
        output = self.encode(batch)
        log_probs = word_log_probs(output.hidden, *self._output, batch.targets)
        tokens = -log_probs.masked_fill(~batch.is_word, 0).sum(1)
        if self.tokens_alone:
            return [tokens]
        return [tokens, *graph_losses(self._graph_scores(batch, output), batch)]

    def joint_nll(self, batch: GraphBatch) -> Float[Tensor, " batch"]:
        """The nats of what the phase learns of each item."""
        return torch.stack([precise(losses) for losses in self._sentence_losses(batch)]).sum(0)

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
        edges = list(map(joined_edges, documents, structure, batch.word.tolist()))
        with_given = with_graphs(batch.to("cpu"), edges, self.tapes, self.max_count, lambda row: f"document {row + 1}")
        with_given = with_given.to(self.device)
        tokens, scores = self.teacher_forced(with_given)
        counts = scores.counts.log_softmax(-1).gather(-1, with_given.counts[..., None])[..., 0]
        is_word = mask_of(with_given.word_lengths, counts.size(1), device=counts.device)
        return tokens.scatter_add(1, (with_given.first - 1).clamp_min(0), counts.masked_fill(~is_word, 0))

    # -- search over graphs -------------------------------------------------------------------------------------------

    def representatives(self, batch: GraphBatch) -> Int[Tensor, "batch length_and_one"]:
        """See `StructuredLanguageModel`."""
        return representatives(batch.targets, batch.opens, batch.lengths)

    def beginning_of(self, batch: GraphBatch) -> HypothesisState:
        """See `StructuredLanguageModel`."""
        return self.beginning(batch.inputs[:, 0], words=int(batch.word_on_cpu.max()))

    def with_input(
        self, beam: Beam[HypothesisState], batch: GraphBatch, k: int, *, beam_size: int
    ) -> Beam[HypothesisState]:
        """The hypotheses after token k and, where that begins a word, the word's arcs: the likeliest of each number."""
        tokens, (before, word) = batch.inputs[beam.items, k], batch.word_on_cpu[:, k - 1 : k + 1].T
        possible = self.word_arcs(beam.state, tokens, torch.where(word > before, word, 0)[beam.on_cpu])

        def build(state: HypothesisState, best: Survivors) -> HypothesisState:
            return self.step(state, tokens, possible, best.rows, best.candidates)

        return beam.expanded(possible.likeliest_log_probs(self.counts_per_hypothesis), build, beam_size=beam_size)

    def structures_of(self, state: HypothesisState, rows: Int[Tensor, " some"]) -> list[tuple[Edge, ...]]:
        """The graphs of hypotheses, with the labels `root` and `dep`."""
        return state.graph.edges(rows)

    def beginning(
        self, tokens: Int[Tensor, " rows"], *, words: int, is_token: Bool[Tensor, " rows"] | None = None
    ) -> HypothesisState:
        """The state after the tokens that begin sentences of at most some words; `is_token` is False at padding."""
        rows = tokens.size(0)
        graph = GraphState.empty(rows, self.tapes, device=self.device)
        memory = self.scorer.root_state(rows, words=words)
        tables = self._tables() if self.tape_attention.places else ()
        nothing = torch.zeros(rows, 0, device=self.device)
        before = HypothesisState(None, nothing, nothing, memory, graph, nothing.long(), tables)
        return self._read(before, tokens, is_token)

    def word_arcs(
        self, prefix: HypothesisState, tokens: Int[Tensor, " rows"], numbers: Int[Tensor, " rows"]
    ) -> WordArcs:
        """The arcs that the words may have that tokens begin; `numbers` as in `GraphScorer.step`."""
        vectors = self.word_vectors(prefix.states, tokens)
        return WordArcs.of(numbers, *self.scorer.step(prefix.memory, vectors, prefix.graph.features, numbers=numbers))

    def step(
        self,
        prefix: HypothesisState,
        tokens: Int[Tensor, " rows"],
        possible: WordArcs,
        rows: Int[Tensor, " kept"],
        counts: Int[Tensor, " kept"],
        is_token: Bool[Tensor, " kept"] | None = None,
    ) -> HypothesisState:
        """The state of some rows after their tokens, encoded with the `counts` likeliest arcs of their words.

        `tokens` and the `possible` arcs of their words are those of all rows; `is_token` is False at padding.
        """
        prefix, possible = prefix.select(rows), possible.select(rows)
        grown = replace(prefix, memory=possible.memory, graph=possible.graph(prefix.graph, counts))
        return self._read(grown, tokens[rows], is_token)

    def _read(self, state: HypothesisState, tokens: Tensor, is_token: Tensor | None) -> HypothesisState:
        """The state after one more token a row, whose tapes are those of the state's graphs."""
        word = torch.cat((state.word, state.graph.lengths[:, None]), 1)
        rows = state.graph.features.transpose(0, 1)[:, :, None]
        padding = None if is_token is None else ~is_token[:, None]
        output = self.encode_tokens(
            tokens[:, None], rows, word, tables=state.tables, state=state.backbone, carry=True, padding=padding
        )
        assert output.layers is not None
        states = self._states(output.layers)[:, -1]
        return replace(state, backbone=output.state, hidden=output.hidden[:, -1], states=states, word=word)

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
        """Tokens and numbers of arcs in turn: 0 at tokens that continue a word; their ids follow those of tokens."""
        word = vocabulary.word_of_token(np.asarray(ids, np.int64))
        later = np.bincount([max(head, dependent) for head, dependent, _ in structure], minlength=len(word) + 1)
        counts: list[int] = np.where(np.diff(word, prepend=0), later[word], 0).tolist()
        return in_turn(ids, counts, self.vocabulary_size)

    def writing_step(
        self,
        writing: Writing,
        tokens: Int[Tensor, "batch length"],
        padding: Bool[Tensor, "batch length"] | None,
        state: HypothesisState | None,
    ) -> tuple[Float[Tensor, "batch choices"], HypothesisState]:
        """Log-probabilities of what is next: of tokens, or of numbers of arcs."""
        size = self.vocabulary_size
        if state is None:
            state = self._after_choices(writing, tokens, padding)
        elif state.pending is None:
            possible = self.word_arcs(state, tokens[:, 0], self._numbers(writing, state, tokens[:, 0]))
            log_probs = F.pad(possible.log_probs, (size, 0), value=-torch.inf)
            return log_probs, replace(state, pending=(tokens[:, 0], possible))
        else:
            written, possible = state.pending
            rows = torch.arange(tokens.size(0), device=tokens.device)
            state = self.step(replace(state, pending=None), written, possible, rows, tokens[:, 0] - size)
        return log_softmax_over_vocabulary(state.hidden, *self._output), state

    def _after_choices(self, writing: Writing, choices: Tensor, padding: Tensor | None) -> HypothesisState:
        """The state after tokens and numbers of arcs in turn, padded at the left."""
        is_token = torch.ones_like(choices, dtype=torch.bool) if padding is None else ~padding
        ids, counts, is_token = choices[:, ::2], choices[:, 1::2] - self.vocabulary_size, is_token[:, ::2]
        state = self.beginning(ids[:, 0], words=writing.longest, is_token=is_token[:, 0])
        rows = torch.arange(ids.size(0), device=ids.device)
        for k in range(1, ids.size(1)):
            numbers = self._numbers(writing, state, ids[:, k], is_token[:, k - 1])
            possible = self.word_arcs(state, ids[:, k], numbers)
            state = self.step(state, ids[:, k], possible, rows, counts[:, k].clamp_min(0), is_token[:, k])
        return state

    def _numbers(
        self, writing: Writing, state: HypothesisState, tokens: Tensor, follows: Bool[Tensor, " rows"] | bool = True
    ) -> Int[Tensor, " rows"]:
        """The numbers of the words that tokens begin, on the CPU; 0 for other tokens, and those that follow nothing.

        The first token of a text always begins one.
        """
        lengths = state.graph.lengths
        opens = (writing.opens_word[tokens] | (lengths == 0)) & follows
        return torch.where(opens, lengths + 1, 0).cpu()

    def written_structure(
        self, writing: Writing, state: HypothesisState, row: int, choices: Sequence[int]
    ) -> tuple[Edge, ...]:
        """The graph of a text; where it is cut, the arcs of its last token are not in the state yet."""
        if state.pending is None:
            return self.structures_of(state, torch.tensor([row], device=self.device))[0]
        rows, counts = torch.tensor([[row], [choices[-1] - self.vocabulary_size]], device=self.device)
        return state.pending[1].select(rows).graph(state.graph.select(rows), counts).edges(rows - row)[0]
