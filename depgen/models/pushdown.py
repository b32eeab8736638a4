"""Pushdown Layers. Murty, Sharma, Andreas & Manning (2023), EMNLP, "Pushdown Layers: Encoding Recursive Structure in
Transformer Language Models".

A Transformer that writes a sentence and a binary bracketing of it together. With each token comes an *attachment*: the
constituent on the stack that the token is joined with. How often a token has been joined so far is its *depth*, by
which attention tells the constituents on the stack apart.

    paper             here
    r_k               an attachment: the last token of the leftmost constituent joined, or the token itself
    W_k[j], stack     `depths`: row k after the attachment of token k, whose attention uses this row
    d_kj^l            `DepthScores`: embeddings of depths, in the keys of each layer
    p(r_k | x_<=k)    `AttachmentHead`, from the state before token k and the token's embedding
    p(x, y)           `joint_log_probs`: a token by the state before it, its attachment, and the state after both
    p(x)              `log_probs`: sums over the bracketings that a beam holds, so lower bounds

Positions count from 0: the input at position 0 is `<eos>`, which is also BOS and lies at the bottom of the stack.

Deviations
    D1. The probabilities of attachments are over the tokens that a token can be attached to. In the authors' code they
        are over all tokens before it: what tokens within constituents get is lost.
    D2. `<eos>` joins all that is on the stack. The authors' code has this as an attachment with a probability, and a
        token after it.
    D3. A beam's score of a text is exact for the hypotheses that it holds; the authors' surprisals take some of them
        from wrong rows.
    D4. Embeddings of depths are added to projected keys, as in the authors' code; the paper projects them with the
        hidden states.
    D5. Depths from 50 on have one embedding.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Integer, UInt8
from torch import Tensor, nn

from depgen.backbones.transformer import ScoreFunction, Transformer, TransformerFactory, TransformerState
from depgen.data.batch import ItemBatch, SystemCollate, TokenBatch, TokenItem, collate_tokens
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.beam import Beam, Survivors, representatives
from depgen.errors import check_at_least
from depgen.language_models.structured import StructuredLanguageModel, Writing, in_turn
from depgen.nn.attention import KeyValues, coded_scores
from depgen.nn.positions import SinusoidalPositions
from depgen.nn.precise import precise
from depgen.nn.rows import Rows
from depgen.nn.vocabulary import full_precision, log_softmax_over_vocabulary, word_log_probs
from depgen.training.hyper_parameters import factory
from depgen.trees.attachments import (
    attachments_of,
    binary_constituents,
    closed_at_the_end,
    depth_tape,
    spans_of_joins,
    with_words,
)
from depgen.trees.constituency import Span
from depgen.trees.sentence import Constituent

DEPTHS = 50
"""Different depths; greater ones count as the last (D5)."""
MOST_JOINS = 256
"""A token of a text that is generated is joined with fewer constituents than this."""


# -- 1. Bracketings ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BracketingBatch(TokenBatch):
    """Sequences and the bracketing of each.

    Attributes:
        attachments: the position that each position is attached to; its own at position 0 and at padding. None without
            constituents.
        depths: of each position (column) once a position (row) is attached.
    """

    attachments: Int[Tensor, "batch length"] | None = None
    depths: UInt8[Tensor, "batch length length"] | None = None


@dataclass(frozen=True)
class BracketingCollate(SystemCollate):
    """Makes padded batches with attachments and depths.

    Constituents of more than two parts are made binary from the right; words of several tokens are constituents.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Literal["span_starts"]] = "span_starts"

    def view(self, item: TokenItem, vocabulary: Vocabulary) -> dict[str, np.ndarray]:
        """The attachment of each token, 0-based."""
        if item.spans is None:
            return {"attachments": np.zeros(0, np.int32)}
        spans: list[Span] = [(start, end) for start, end in item.spans.tolist()]
        if item.word_ends is not None:
            spans = with_words(spans, item.word_ends)
        length = len(item.ids)
        return {"attachments": np.array(attachments_of(binary_constituents(spans, length), length), dtype=np.int32)}

    def __call__(self, batch: ItemBatch) -> BracketingBatch:
        """The batch, with bracketings where all items have constituents."""
        tokens, sentences = collate_tokens(batch), batch.sentences
        if any(item.spans is None for item in sentences):
            return BracketingBatch(**vars(tokens))
        views = [self.view_of(item, batch.vocabulary) for item in sentences]
        return _with_bracketings(tokens, [view["attachments"] for view in views])


def _with_bracketings(tokens: TokenBatch, attachments: Sequence[Sequence[int] | np.ndarray]) -> BracketingBatch:
    """The batch with bracketings, given by the 0-based attachment of each token."""
    rows, width = tokens.inputs.shape
    labels = np.tile(np.arange(width), (rows, 1))
    depths = np.zeros((rows, width, width), dtype=np.uint8)
    for row, of_row in enumerate(attachments):
        length = len(of_row)
        labels[row, 1 : length + 1] = np.asarray(of_row) + 1
        depths[row, 1 : length + 1, 1 : length + 1] = depth_tape([int(label) for label in of_row])
    bracketings = {"attachments": torch.from_numpy(labels), "depths": torch.from_numpy(depths)}
    return BracketingBatch(**{**vars(tokens), **bracketings})


def open_positions(attachments: Int[Tensor, "batch length"]) -> Bool[Tensor, "batch length length"]:
    """Whether each position (column) is the last of a constituent on the stack once a position (row) is attached.

    Position 0 is at the bottom, where nothing is attached to: False.

    >>> open_positions(torch.tensor([[0, 1, 1]])).int().tolist()  # <eos> (a b)
    [[[0, 0, 0], [0, 1, 0], [0, 0, 1]]]
    """
    columns = torch.arange(attachments.size(1), device=attachments.device)
    later = columns[:, None] > columns
    closes = (attachments[:, :, None] <= columns) & later
    return (closes.cumsum(1) == 0) & ~later.T & (columns > 0)


# -- 2. Attachments (Sec. 3.2) ----------------------------------------------------------------------------------------


class AttachmentHead(nn.Module):
    """Log-probabilities of attaching a token to each token before it, or to itself.

    The keys are networks of a state and a depth: W_2 relu(W_1 [W_k h_j; e_depth] + b_1) + b_2. The part of W_1 that
    takes h_j is applied once a token, the part that takes e_depth once a depth, and W_2 to the query.
    """

    def __init__(self, width: int, *, depth_size: int, dropout: float) -> None:
        super().__init__()
        inner = 2 * width
        self.query, self.key, self.position = (nn.Linear(width, inner, bias=False) for _ in range(3))
        self.query_network, self.own_network = (
            nn.Sequential(nn.Linear(3 * width, inner), nn.ReLU(), nn.Dropout(dropout), nn.Linear(inner, inner))
            for _ in range(2)
        )
        self.depth_embedding = nn.Embedding(DEPTHS, depth_size)
        self.compose = nn.Linear(inner + depth_size, inner + depth_size)
        self.composed = nn.Linear(inner + depth_size, inner)
        self.dropout = nn.Dropout(dropout)
        self.sinusoids = SinusoidalPositions(width, fairseq=False)

    def keys(self, hidden: Float[Tensor, "*positions width"]) -> Float[Tensor, "*positions size"]:
        """W_1 [W_k h_j; 0] + b_1."""
        weight = self.compose.weight[:, : self.key.out_features]
        return F.linear(self.key(hidden), weight, self.compose.bias)

    def forward(
        self,
        hidden: Float[Tensor, "batch queries width"],
        embedded: Float[Tensor, "batch queries width"],
        keys: Float[Tensor, "batch keys size"],
        depths: Integer[Tensor, "batch queries keys"],
        distances: Int[Tensor, "batch queries keys"],
        possible: Bool[Tensor, "batch queries keys"],
    ) -> tuple[Float[Tensor, "batch queries keys"], Float[Tensor, "batch queries"]]:
        """Log-probabilities (nats) of attachment to each key's position, and to the token itself.

        From the state before each token and the token's embedding. Of each position: what `keys` gives, its depth
        before the token, how many tokens before the token it is, and whether the token can be attached to it (D1).
        """
        query = self.query_network(torch.cat((self.query(hidden), embedded), -1))
        own_key = self.own_network(torch.cat((query, embedded), -1))
        of_depths = F.linear(self.depth_embedding.weight, self.compose.weight[:, self.key.out_features :])
        inner = self.dropout(torch.relu(keys[:, None] + of_depths[depths.long().clamp_max(DEPTHS - 1)]))
        scores = torch.einsum("bqks,bqs->bqk", inner, query @ self.composed.weight)
        scores = scores + (query @ self.composed.bias)[..., None]
        steps = torch.arange(keys.size(1) + 1, device=keys.device)
        by_distance = query @ self.position(self.sinusoids(steps[None], stop=steps.size(0))[0].to(query.dtype)).T
        own = (query * own_key).sum(-1) + by_distance[..., 0]
        scores = scores + by_distance.gather(2, distances.clamp(0, steps.size(0) - 1))
        scores = full_precision(scores).masked_fill(~possible, -torch.inf)
        both = torch.cat((scores, full_precision(own)[..., None]), -1).log_softmax(-1)
        return both[..., :-1], both[..., -1]


class DepthScores(nn.Module):
    """What depths add to the attention scores of each layer: an embedding of the depth, added to each head's key."""

    def __init__(self, layers: int, size: int) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(DEPTHS, size) for _ in range(layers))

    def of(self, depths: Integer[Tensor, "batch length context"]) -> ScoreFunction:
        """q·d_ij / √size of each query, with its content bias, and key."""
        codes = depths.long().clamp_max(DEPTHS - 1)  # once: each layer keeps them for its gradients

        def scores(layer: int, queries: Tensor, keys: KeyValues) -> Tensor:
            heads, size = queries.size(1), queries.size(3)
            table = cast(nn.Embedding, self.embeddings[layer]).weight.repeat(1, heads)
            return coded_scores(queries, table.view(-1, heads, size), codes) / math.sqrt(size)

        return scores


# -- 3. Hypotheses ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StackState(Rows):
    """The stack of constituents of each row, which grows token by token, and how often each token was joined
    with others (`depgen.trees.attachments`).

    The first token lies at the bottom and is joined with nothing: it is the beginning of the text.

    Attributes:
        depths: of each token.
        is_last: True at the last token of each constituent on the stack.
        joins: with how many constituents each token was joined when it came.
    """

    depths: Int[Tensor, "rows tokens"]
    is_last: Bool[Tensor, "rows tokens"]
    joins: Int[Tensor, "rows tokens"]

    @property
    def places(self) -> Int[Tensor, "rows tokens"]:
        """The place of each token's constituent on the stack, 1 on top; 0 at padding that follows all tokens."""
        return self.is_last.flip(1).cumsum(1).flip(1)

    def pushed(self, joins: Int[Tensor, " rows"], is_token: Bool[Tensor, " rows"]) -> "StackState":
        """The stacks with one more token, which is then joined with the topmost `joins` constituents, one by one.

        `joins` is 0, and `is_token` False, in rows whose new column is padding.
        """
        places = self.places
        more = (joins[:, None] + 1 - places).clamp_min(0) * (places > 0)
        is_last = self.is_last & (places > joins[:, None])
        new = ((self.depths + more, joins), (is_last, is_token), (self.joins, joins))
        return StackState(*(torch.cat((before, column[:, None]), 1) for before, column in new))

    def by_joins(
        self, columns: Float[Tensor, "rows tokens"], own: Float[Tensor, " rows"]
    ) -> Float[Tensor, "rows tokens"]:
        """Scores of joining the next token with 0, 1, 2 … constituents, from those of attaching it to each column.

        `own`: of joining it with none. -inf for more constituents than there are.
        """
        places, count = self.places, self.depths.size(1)
        index = places.where(self.is_last & (places < places[:, :1]), count)
        scores = columns.new_full((columns.size(0), count + 1), -torch.inf).scatter(1, index, columns)
        return torch.cat((own[:, None], scores[:, 1:count]), 1)


@dataclass(frozen=True)
class PushdownState(Rows):
    """The state of each text after some positions are encoded.

    Attributes:
        backbone: keys and values.
        stack: constituents and depths.
        is_token: False at padding.
        last: the hidden state after the last position.
        keys: of the attachment head.
        word: a token that is written and not attached yet; None: there is none.
    """

    backbone: TransformerState
    stack: StackState
    is_token: Bool[Tensor, "rows positions"]
    last: Float[Tensor, "rows width"]
    keys: Float[Tensor, "rows positions size"]
    word: Int[Tensor, " rows"] | None = None


# -- 4. The system ----------------------------------------------------------------------------------------------------


class Pushdown(StructuredLanguageModel):
    """A Transformer with pushdown layers, and the head that attaches tokens.

    Args:
        backbone: makes the Transformer from the vocabulary size.
        vocabulary_size: number of token types; linked from the data.
        attachment_dropout: within the attachment head.
        beam_size: bracketings that a text's score is summed over (paper 300).
        kwargs: see `LeftToRight`.
    """

    backbone: Transformer

    def __init__(
        self,
        backbone: TransformerFactory,
        vocabulary_size: int,
        *,
        attachment_dropout: float = 0.1,
        beam_size: int = 300,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        check_at_least(1, beam_size=beam_size)
        self.save_hyperparameters()
        self.use_backbone(factory(backbone, TransformerFactory)(vocabulary_size))
        self.vocabulary_size, self.beam_size = vocabulary_size, beam_size
        width, head_size = self.backbone.width, self.backbone.width // self.backbone.attention_heads
        self.depth_scores = DepthScores(self.backbone.attention_layers, head_size)
        self.attachment_head = AttachmentHead(width, depth_size=head_size, dropout=attachment_dropout)

    @property
    def collate(self) -> Callable[[ItemBatch], BracketingBatch]:
        """Padded sequences with attachments and depths."""
        return BracketingCollate()

    # -- the two distributions ------------------------------------------------------------------------------------

    def _word_log_probs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return word_log_probs(hidden, self.backbone.output_weight, self.backbone.output_bias, targets)

    def both_log_probs(
        self, batch: BracketingBatch
    ) -> tuple[Float[Tensor, "batch length"], Float[Tensor, "batch length"]]:
        """Log-probabilities (nats) of the targets, and of the inputs' attachments; without meaning at padding.

        Position 0 has no attachment: 0.
        """
        assert batch.attachments is not None
        assert batch.depths is not None
        hidden = self.backbone(batch.inputs, score_function=self.depth_scores.of(batch.depths)).hidden
        words = self._word_log_probs(hidden, batch.targets)
        states, steps = hidden[:, :-1], torch.arange(batch.inputs.size(1), device=hidden.device)
        distances = (steps[1:, None] - steps[:-1]).expand(hidden.size(0), -1, -1)
        columns, own = self.attachment_head(
            states, self.backbone.embedding(batch.inputs[:, 1:]), self.attachment_head.keys(states),
            batch.depths[:, :-1, :-1], distances, open_positions(batch.attachments)[:, :-1, :-1],
        )  # fmt: skip
        labels = batch.attachments[:, 1:]
        before = columns.gather(2, labels.clamp_max(columns.size(2) - 1)[..., None])[..., 0]
        return words, F.pad(torch.where(labels == steps[1:], own, before), (1, 0))

    def training_step(self, batch: BracketingBatch, batch_idx: int) -> Float[Tensor, ""]:
        """Negative log-likelihoods of tokens and attachments, nats per token of the global batch."""
        self.refuse_without_structures(batch)
        words, attachments = (-part.masked_fill(~batch.is_word, 0).sum() for part in self.both_log_probs(batch))
        self.log_train(attachments, batch.global_tokens, name="attachment_loss")
        return self.log_train(words + attachments, batch.global_tokens)

    def joint_nll(self, batch: BracketingBatch) -> Float[Tensor, " batch"]:
        """The nats of each item's tokens and attachments."""
        words, attachments = (precise(part.masked_fill(~batch.is_word, 0)) for part in self.both_log_probs(batch))
        return -(words + attachments).sum(1)

    # -- search --------------------------------------------------------------------------------------------------------

    def read(
        self,
        tokens: Int[Tensor, "rows length"],
        joins: Int[Tensor, "rows length"],
        is_token: Bool[Tensor, "rows length"],
        state: PushdownState | None = None,
    ) -> PushdownState:
        """The state after more tokens; `joins` says with how many constituents each is joined."""
        nothing, tape = tokens[:, :0], []
        stack = StackState(nothing, nothing.bool(), nothing) if state is None else state.stack
        for column in range(tokens.size(1)):
            stack = stack.pushed(joins[:, column], is_token[:, column])
            tape.append(stack.depths)
        context = stack.depths.size(1)
        depths = torch.stack([F.pad(row, (0, context - row.size(1))) for row in tape], 1)
        output = self.backbone(
            tokens, padding=~is_token, state=None if state is None else state.backbone, carry=True,
            score_function=self.depth_scores.of(depths),
        )  # fmt: skip
        keys = self.attachment_head.keys(output.hidden)
        if state is not None:
            is_token, keys = torch.cat((state.is_token, is_token), 1), torch.cat((state.keys, keys), 1)
        return PushdownState(output.state, stack, is_token, output.hidden[:, -1], keys)

    def join_log_probs(self, state: PushdownState, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows joins"]:
        """Log-probabilities (nats) of joining the next token with 0, 1, 2 … constituents on the stack."""
        places = state.is_token.cumsum(1)
        distances = places[:, -1:] + 1 - places
        is_bottom = state.is_token & (places == 1)
        possible = state.stack.is_last & ~is_bottom
        columns, own = self.attachment_head(
            state.last[:, None], self.backbone.embedding(tokens)[:, None], state.keys,
            state.stack.depths[:, None], distances[:, None], possible[:, None],
        )  # fmt: skip
        return state.stack.by_joins(columns[:, 0], own[:, 0])

    def representatives(self, batch: TokenBatch) -> Int[Tensor, "batch length_and_one"]:
        """See `StructuredLanguageModel`."""
        return representatives(batch.targets, torch.ones_like(batch.is_word), batch.lengths)

    def beginning_of(self, batch: TokenBatch) -> PushdownState:
        """See `StructuredLanguageModel`."""
        first = batch.inputs[:, :1]
        return self.read(first, torch.zeros_like(first), torch.ones_like(first, dtype=torch.bool))

    def with_input(
        self, beam: Beam[PushdownState], batch: TokenBatch, k: int, *, beam_size: int
    ) -> Beam[PushdownState]:
        """The hypotheses after token k, attached: in any way that is possible."""
        tokens = batch.inputs[beam.items, k]

        def build(state: PushdownState, best: Survivors) -> PushdownState:
            is_token = torch.ones_like(best.candidates, dtype=torch.bool)
            before = state.select(best.rows)
            return self.read(tokens[best.rows, None], best.candidates[:, None], is_token[:, None], before)

        return beam.expanded(self.join_log_probs(beam.state, tokens), build, beam_size=beam_size)

    def next_log_probs(self, state: PushdownState, tokens: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        """The log-probability (nats) of the next token of each row."""
        return self._word_log_probs(state.last, tokens)

    def structures_of(self, state: PushdownState, rows: Int[Tensor, " some"]) -> list[list[int]]:
        """With how many constituents each token of hypotheses is joined."""
        joins: list[list[int]] = state.stack.joins[rows, 1:].tolist()
        return joins

    # -- scores --------------------------------------------------------------------------------------------------------

    def joint_log_probs(
        self,
        batch: TokenBatch,
        documents: Sequence[Sequence[Sequence[int]]],
        structure: Sequence[Sequence[Any]],
    ) -> Float[Tensor, "batch length"]:
        """The log-probability (nats) of each target, that of a token together with its attachment.

        `structure`: of each sentence, spans (start, end, …), 0-based; constituents of more than two parts are made
        binary. What they leave open at the top is open until the end.
        """
        attachments = []
        for document, of_document in zip(documents, structure, strict=True):
            spans, before = list[Span](), 0
            for ids, of_sentence in zip(document, of_document, strict=True):
                spans += [(before + start, before + end) for start, end in binary_constituents(of_sentence, len(ids))]
                before += len(ids)
            attachments.append(attachments_of(spans, before))
        words, joined = self.both_log_probs(_with_bracketings(batch, attachments).to(self.device))
        return words + F.pad(joined[:, 1:], (0, 1))

    def bracketings(
        self,
        sentences: Sequence[Sequence[int]],
        *,
        vocabulary: Vocabulary,
        word_starts: Sequence[Bool[np.ndarray, " _"]],
        beam_size: int | None = None,
    ) -> list[list[Constituent]]:
        """The spans of the likeliest binary bracketing of each sentence; see `depgen.evaluation.bracketing`."""
        joins = self.best_structures(sentences, vocabulary=vocabulary, beam_size=beam_size or self.beam_size)
        return [
            [(*span, "") for span in closed_at_the_end(spans_of_joins(of_sentence), len(of_sentence))]
            for of_sentence in joins
        ]

    # -- generation ----------------------------------------------------------------------------------------------------

    def choices_of(self, ids: Sequence[int], structure: Sequence[int], vocabulary: Vocabulary) -> list[int]:
        """Tokens and joins in turn; the ids of joins follow those of tokens."""
        return in_turn(ids, structure, self.vocabulary_size)

    def writing_step(
        self,
        writing: Writing,
        tokens: Int[Tensor, "batch length"],
        padding: Bool[Tensor, "batch length"] | None,
        state: PushdownState | None,
    ) -> tuple[Float[Tensor, "batch choices"], PushdownState]:
        """Log-probabilities of the next token, or of the joins of the token that came last."""
        size = self.vocabulary_size
        if state is not None and state.word is None:
            joins = self.join_log_probs(state, tokens[:, 0])[:, :MOST_JOINS]
            joins = F.pad(joins, (size, MOST_JOINS - joins.size(1)), value=-torch.inf)
            return joins, replace(state, word=tokens[:, 0])
        word = None if state is None else state.word
        both = tokens if word is None else torch.stack((word, tokens[:, 0]), 1)
        is_token = torch.ones_like(both, dtype=torch.bool) if padding is None else ~padding
        state = self.read(both[:, ::2], (both[:, 1::2] - size) * is_token[:, ::2], is_token[:, ::2], state)
        weight, bias = self.backbone.output_weight, self.backbone.output_bias
        return log_softmax_over_vocabulary(state.last, weight, bias), state

    def written_structure(
        self, writing: Writing, state: PushdownState, row: int, choices: Sequence[int]
    ) -> tuple[Constituent, ...]:
        """Spans (start, end, "X"); what is open when the text ends is left open."""
        joins = [choice - self.vocabulary_size for choice in choices[2::2]]
        return tuple((*span, "X") for span in spans_of_joins(joins))
