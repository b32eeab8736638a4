"""The Transformer: causal or seeing both sides, with carried keys, additive attention scores or attention of another
kind than the softmax, and a hook after layers.

Vaswani et al. (2017), with the defaults of fairseq's `transformer_lm`: 6 x 512, pre-LN, sinusoids, tied output; or with
the relative positions of Transformer-XL (Dai et al., 2019).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from depgen.backbones.backbone import BackboneOutput, BackboneState, EmbeddingBackbone
from depgen.errors import UserError, check_at_least
from depgen.nn.attention import KeyValues, SelfAttention, Visibility
from depgen.nn.positions import LearnedPositions, SinusoidalPositions, counted_positions
from depgen.nn.stack_attention import FARTHEST, StackAttention

ScoreFunction = Callable[[int, Tensor, KeyValues], Tensor | None]
"""From a layer (0-based), queries [batch heads length size] and the keys of all positions to what is added to the
scaled scores, broadcastable to [batch heads length context]; it must leave each token a finite score. None: nothing in
that layer. With relative positions, the queries have the content bias: q + u."""

WeighFunction = Callable[[int, Tensor], Tensor]
"""From a layer (0-based) and its scaled scores [batch heads length context], -inf at keys not seen, to the weights that
values are summed by, in place of a softmax over keys."""

AfterLayer = Callable[[int, Tensor], Tensor]
"""From a layer (0-based) and the hidden states it returned to those that the next layer reads."""

ACTIVATIONS = {"relu": torch.relu, "gelu": F.gelu, "leaky_relu": F.leaky_relu}


@dataclass(frozen=True)
class TransformerState:
    """The key-value cache.

    Attributes:
        layers: keys and values of each layer.
        length: number of columns carried, padding included.
        padding: True at columns that are no tokens; None when all are.
        position_keys: of relative positions, for this length or more; the same for all rows.
    """

    layers: tuple[KeyValues, ...]
    length: int
    padding: Bool[Tensor, "batch context"] | None
    position_keys: tuple[Float[Tensor, "attention_heads distances size"], ...] | None = None

    def select(self, rows: Int[Tensor, " kept"]) -> "TransformerState":
        """The state of some rows of the batch, in the order given; repeated rows share what they have so far."""
        padding = None if self.padding is None else self.padding.index_select(0, rows)
        first = self.layers[0].select(rows)
        layers = (first, *(layer.select(rows, like=first) for layer in self.layers[1:]))
        return TransformerState(layers, self.length, padding, self.position_keys)


class TransformerLayer(nn.Module):
    """Self-attention and a feed-forward network, with layer norms before each (pre-LN) or after each residual sum.

    The arguments are those of `Transformer`.
    """

    def __init__(
        self,
        width: int,
        attention_heads: int,
        *,
        feedforward: int,
        dropout: float,
        attention_dropout: float,
        activation_dropout: float,
        activation: str,
        norm_first: bool,
        affine_norms: bool = True,
        attention_bias: bool = True,
    ) -> None:
        super().__init__()
        self.attention = SelfAttention(width, attention_heads, dropout=attention_dropout, bias=attention_bias)
        self.attention_norm = nn.LayerNorm(width, elementwise_affine=affine_norms)
        self.expand = nn.Linear(width, feedforward)
        self.contract = nn.Linear(feedforward, width)
        self.feedforward_norm = nn.LayerNorm(width, elementwise_affine=affine_norms)
        self.dropout = nn.Dropout(dropout)
        self.activation_dropout = nn.Dropout(activation_dropout)
        self.activation = ACTIVATIONS[activation]
        self.norm_first = norm_first

    def forward(
        self,
        hidden: Float[Tensor, "batch length width"],
        visibility: Visibility,
        **attending: Any,  # noqa: ANN401, of `SelfAttention.forward`
    ) -> tuple[Tensor, Tensor | None, KeyValues | None]:
        """Hidden states after the layer, and what else `SelfAttention.forward` returns, by its arguments."""
        source = self.attention_norm(hidden) if self.norm_first else hidden
        mixed, attention, present = self.attention(source, visibility, **attending)
        hidden = hidden + self.dropout(mixed)
        if not self.norm_first:
            hidden = self.attention_norm(hidden)
        inner = self.activation(self.expand(self.feedforward_norm(hidden) if self.norm_first else hidden))
        hidden = hidden + self.dropout(self.contract(self.activation_dropout(inner)))
        if not self.norm_first:
            hidden = self.feedforward_norm(hidden)
        return hidden, attention, present


@dataclass(frozen=True)
class RelativeScores:
    """The scores of distances in one pass of a network: relative positions in causal attention, as in Transformer-XL.

    Section 3.3 of Dai et al. (2019), with queries q, keys k, sinusoids r of distances and trained u, v and W:

        score of query i and key j = ((q_i + u)·k_j + (q_i + v)·W r_{i-j}) / √size

    The first product is that of any attention whose queries have the bias u. This adds the second.

    Attributes:
        position_keys: W r/√size of each layer, by falling distance, down to 0 and -1: at least the number of keys.
        bias: v - u. Queries come with u, and (q + v)·p = (q + u)·p + (v - u)·p.
        distances: of each query to each key, where padding lies between tokens; None: as the columns say.
        farthest: the largest of these distances, where they do not count tokens; None: as many as there are keys.
    """

    position_keys: tuple[Float[Tensor, "attention_heads distances size"], ...]
    bias: Float[Tensor, "attention_heads size"]
    distances: Int[Tensor, "batch length context"] | None
    farthest: int | None = None

    def scores(
        self, layer: int, queries: Float[Tensor, "batch attention_heads length size"], context: int
    ) -> Float[Tensor, "batch attention_heads length context"]:
        """(q + v)·W r/√size of the last queries and all `context` keys; anything finite where a key comes later.

        One product of queries and distances, which a shift of rows turns into one of queries and keys: never a vector
        for each query and key. `queries` come with u added.
        """
        batch, heads, length, size = queries.shape
        span = context if self.farthest is None else self.farthest + 1
        known = self.position_keys[layer][:, -span - 1 :].to(queries.dtype).transpose(1, 2)
        bias = self.bias[:, None].to(queries.dtype) @ known
        by_distance = torch.baddbmm(bias, queries.transpose(0, 1).reshape(heads, batch * length, size), known)
        by_distance = by_distance.view(heads, batch, length, span + 1)
        if self.distances is None:
            scores = shifted(by_distance)
        else:
            columns = (span - 1 - self.distances).expand(heads, -1, -1, -1)
            scores = by_distance.gather(-1, columns)
        return scores.transpose(0, 1)

    def added_to(self, others: ScoreFunction | None) -> ScoreFunction:
        """These scores and those of another function, if any."""

        def scores(layer: int, queries: Tensor, keys: KeyValues) -> Tensor:
            other = None if others is None else others(layer, queries, keys)
            own = self.scores(layer, queries, keys.context)
            return own if other is None else own + other

        return scores


def shifted(by_distance: Float[Tensor, "*rows length distances"]) -> Float[Tensor, "*rows length distances-1"]:
    """Scores by key from scores by falling distance; what comes after a query's own key is of no meaning.

    The last query has its largest distance in column 0, each earlier query one column later. The last column, of which
    nothing is used, makes this a shift of the start in memory.

    >>> shifted(torch.tensor([[2.0, 1.0, 0.0, -1.0], [2.0, 1.0, 0.0, -1.0]]))
    tensor([[ 1.,  0., -1.],
            [ 2.,  1.,  0.]])
    """
    length, distances = by_distance.shape[-2:]
    flat = by_distance.flatten(-2)[..., length - 1 : length * distances - 1]
    return flat.view(*by_distance.shape[:-1], distances - 1)


class RelativePositions(nn.Module):
    """What relative positions train: two biases that all layers share, and a matrix in each layer."""

    def __init__(self, width: int, attention_heads: int, *, layers: int) -> None:
        super().__init__()
        self.content_bias = nn.Parameter(torch.zeros(attention_heads, width // attention_heads))
        self.position_bias = nn.Parameter(torch.zeros(attention_heads, width // attention_heads))
        self.projections = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.sinusoids = SinusoidalPositions(width, fairseq=False)

    def projection(self, layer: int) -> nn.Linear:
        """W of a layer (0-based)."""
        return cast(nn.Linear, self.projections[layer])

    def forward(
        self,
        length: int,
        context: int,
        *,
        padding: Bool[Tensor, "batch context"] | None = None,
        known: tuple[Tensor, ...] | None = None,
        stack: StackAttention | None = None,
    ) -> RelativeScores:
        """The scores of the last `length` of `context` positions.

        Args:
            length: number of queries.
            context: number of keys.
            padding: positions that are no tokens and are not counted; not needed where they are at either end.
            known: position keys of an earlier pass of the same text, used as far as they reach.
            stack: gives distances that do not count tokens.
        """
        bias = self.position_bias - self.content_bias
        if stack is not None:
            known = self._position_keys(FARTHEST + 1) if known is None else known
            return RelativeScores(known, bias, stack.distances, FARTHEST)
        if known is None:
            known = self._position_keys(context)
        elif known[0].size(1) <= context:
            known = self._position_keys(2 * context)  # for as many tokens again
        distances = None if padding is None else token_distances(padding, length)
        return RelativeScores(known, bias, distances)

    def _position_keys(self, largest: int) -> tuple[Tensor, ...]:
        """W r/√size of each layer for distances `largest` - 1 … 0 and -1."""
        heads, size = self.content_bias.shape
        distances = torch.arange(largest - 1, -2, -1, device=self.content_bias.device)
        sinusoids = self.sinusoids(distances.abs()[None], stop=largest + 1)[0] * size**-0.5
        sinusoids[-1, : sinusoids.size(1) // 2] *= -1  # the sines of -1
        return tuple(projection(sinusoids).view(-1, heads, size).transpose(0, 1) for projection in self.projections)


def token_distances(padding: Bool[Tensor, "batch context"], length: int) -> Int[Tensor, "batch {length} context"]:
    """How many tokens each key of a row comes before each of the last `length` positions; of no meaning at padding.

    >>> token_distances(torch.tensor([[False, True, False]]), 1)
    tensor([[[1, 1, 0]]])
    """
    positions = (~padding).cumsum(1)
    return (positions[:, -length:, None] - positions[:, None]).clamp_min(0)


class Initialization(ABC):
    """Draws the initial weights of a Transformer, in place of those that torch's layers have drawn."""

    @abstractmethod
    def __call__(self, network: "Transformer") -> None:
        """Draw them."""


@dataclass(frozen=True)
class MaskedFairseqInit(Initialization):
    """Embeddings from N(0, 1), an output matrix of its own from U(-1/√width, 1/√width); the rest as without this.

    As fairseq's `masked_lm` without `--apply-bert-init`: ITEXP (Casas et al., 2020). Embeddings are not scaled there.
    """

    def __call__(self, network: "Transformer") -> None:
        """Draw the embedding and the output matrix; the layers draw their matrices so when they are made."""
        nn.init.normal_(network.embedding.weight)
        if network.untied_output is not None:
            nn.init.uniform_(network.untied_output, -(network.width**-0.5), network.width**-0.5)


@dataclass(frozen=True)
class StructFormerInit(Initialization):
    """Embeddings from U(-bound, bound); a layer's four attention matrices Xavier-uniform with zero biases.

    As StructFormer; feed-forward networks as in torch.
    """

    bound: float = 0.1

    def __call__(self, network: "Transformer") -> None:
        """Draw embeddings, learned positions and the attention matrices of all layers."""
        for matrix in network.tables:
            nn.init.uniform_(matrix, -self.bound, self.bound)
        for layer in network.layers:
            projection = cast(TransformerLayer, layer).attention.projection
            for block in projection.weight.data.chunk(3):
                nn.init.xavier_uniform_(block)
            nn.init.zeros_(projection.bias)


@dataclass(frozen=True)
class TransformerXLInit(Initialization):
    """Matrices from N(0, 2 / (layers · inputs)) with zero biases; embeddings from U(-√(3/width), √(3/width)).

    As the Transformer-XL of GiLT (Huang et al., 2026); the content and the position bias from N(0, 1/size of a head).
    """

    def __call__(self, network: "Transformer") -> None:
        """Draw embeddings, matrices and the biases of relative positions."""
        bound = math.sqrt(3 / network.width)
        for matrix in network.tables:
            nn.init.uniform_(matrix, -bound, bound)
        for module in network.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=math.sqrt(2 / (network.attention_layers * module.in_features)))
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        if network.relative is not None:
            for bias in (network.relative.content_bias, network.relative.position_bias):
                nn.init.trunc_normal_(bias, std=bias.size(1) ** -0.5)


class Transformer(EmbeddingBackbone):
    """A stack of self-attention layers over token embeddings.

    Args:
        vocabulary_size: number of token types.
        layers: number of layers.
        width: size of a hidden state.
        attention_heads: number of heads a layer; divides `width`.
        feedforward: size of the feed-forward networks' inner layer.
        dropout: of embeddings and of what each part of a layer adds.
        attention_dropout: of attention probabilities.
        activation_dropout: inside the feed-forward networks.
        embedding_dropout: of embeddings; None: as `dropout`.
        output_dropout: of the last hidden states.
        activation: of the feed-forward networks.
        norm_first: layer norm before each part (pre-LN) instead of after the residual sum (post-LN).
            Pre-LN also has a final layer norm after the last layer.
        affine_norms: the layers' norms have trained gains and biases; the final one always has.
        positions: fixed sinusoids, trained vectors, or relative: distances in the attention scores of a causal
            network, as in Transformer-XL (Dai et al., 2019), without memory between texts.
        max_length: number of learned positions; has no effect on others.
        scale_embedding: multiply token embeddings by √width.
        tied: the output matrix is the embedding.
        output_bias: add a bias to the logits.
        attention_bias: the projections of queries, keys, values and the mixed values have biases.
        causal: positions see no later ones.
        init: an `Initialization` of this file that draws the initial weights. None: as fairseq's `transformer_lm`,
            embeddings from N(0, 1/width), queries, keys and values Xavier-uniform with gain 1/√2, the rest as in torch.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        layers: int = 6,
        width: int = 512,
        attention_heads: int = 8,
        feedforward: int = 2048,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        embedding_dropout: float | None = None,
        output_dropout: float = 0.0,
        activation: Literal["relu", "gelu", "leaky_relu"] = "relu",
        norm_first: bool = True,
        affine_norms: bool = True,
        positions: Literal["sinusoidal", "learned", "relative"] = "sinusoidal",
        max_length: int = 1024,
        scale_embedding: bool = True,
        tied: bool = True,
        output_bias: bool = False,
        attention_bias: bool = True,
        causal: bool = True,
        init: Initialization | None = None,
    ) -> None:
        super().__init__()
        check_at_least(1, layers=layers)
        if width % attention_heads:
            raise UserError(f"the width ({width}) must be a multiple of attention_heads ({attention_heads})")
        if positions == "relative" and not causal:
            raise UserError("positions: relative needs causal: true; use positions: sinusoidal in a network without")
        self.vocabulary_size, self.width, self.attention_layers = vocabulary_size, width, layers
        self.attention_heads = attention_heads
        self.causal = causal
        self.embedding = nn.Embedding(vocabulary_size, width)
        self.embedding_scale = math.sqrt(width) if scale_embedding else 1.0
        self.embedding_dropout = nn.Dropout(dropout if embedding_dropout is None else embedding_dropout)
        self.output_dropout = nn.Dropout(output_dropout)
        self.positions: SinusoidalPositions | LearnedPositions | None = None
        if positions == "learned":
            self.positions, self.max_length = LearnedPositions(width, max_length=max_length), max_length
        elif positions == "sinusoidal":
            self.positions = SinusoidalPositions(width)
        self.layers = nn.ModuleList(
            TransformerLayer(
                width, attention_heads, feedforward=feedforward, dropout=dropout, attention_dropout=attention_dropout,
                activation_dropout=activation_dropout, activation=activation, norm_first=norm_first,
                affine_norms=affine_norms, attention_bias=attention_bias,
            )
            for _ in range(layers)
        )  # fmt: skip
        is_relative = positions == "relative"
        self.relative = RelativePositions(width, attention_heads, layers=layers) if is_relative else None
        self.final_norm = nn.LayerNorm(width) if norm_first else nn.Identity()
        self.make_output(tied=tied, bias=output_bias)
        if init is not None:
            init(self)
        else:  # the layers draw their matrices when they are made
            for matrix in self.token_matrices:
                nn.init.normal_(matrix, std=width**-0.5)

    @property
    def tables(self) -> list[Tensor]:
        """The token matrices, and the trained vectors of positions where there are such."""
        learned = [self.positions.weight] if isinstance(self.positions, LearnedPositions) else []
        return [*self.token_matrices, *learned]

    def key_weight(self, layer: int) -> Float[Tensor, "width width"]:
        """The matrix of a layer's keys; its rows are those of the heads, one head after the other."""
        attention = cast(TransformerLayer, self.layers[layer]).attention
        return attention.projection.weight.chunk(3)[1]

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        *,
        padding: Bool[Tensor, "batch length"] | None = None,
        state: BackboneState | None = None,
        attention_layer: int | None = None,
        all_layers: bool = False,
        carry: bool = False,
        score_function: ScoreFunction | None = None,
        weigh: WeighFunction | None = None,
        after_layer: AfterLayer | None = None,
        added_embedding: Float[Tensor, "batch length width"] | None = None,
        stack: StackAttention | None = None,
    ) -> BackboneOutput:
        """Hidden states of every position, as `Backbone.forward`; the last of `all_layers` is before the final norm.

        Positions count tokens, so that padding at the left changes no result. Networks that see both sides need padding
        at either end, and have no state.

        Beyond the arguments of `Backbone.forward`: a score function gives what is added to the scaled attention scores
        of each layer; `weigh` makes weights of these, before dropout, instead of the softmax; `after_layer` may replace
        the hidden states after each layer; `added_embedding` is added to token and position embeddings, before dropout;
        `stack`, with relative positions, says which keys are seen and how far they are: padding is in it then.
        """
        if not self.causal and (carry or state is not None):
            raise ValueError("a Transformer with causal=False sees later tokens, so it has no state to continue from")
        self.check_attention(attention_layer)
        if attention_layer is not None and weigh is not None:
            raise ValueError("attention is returned as log-probabilities, which weights of another kind have not")
        assert state is None or isinstance(state, TransformerState)
        length = tokens.size(1)
        context = length if state is None else length + state.length
        whole_padding = joined_padding(padding, state, tokens)
        visibility = Visibility.of(length, whole_padding, causal=self.causal, context=context, device=tokens.device)
        visibility = visibility if stack is None else Visibility(stack.visible[:, None], causal=False)
        hidden = self._embed(tokens, whole_padding, context, added_embedding)
        scores, position_keys = score_function, None
        if self.relative is not None:
            # Without a state there is padding at the ends alone, so that columns are as far apart as their tokens.
            between, known = (None, None) if state is None else (whole_padding, state.position_keys)
            relative = self.relative(length, context, padding=between, known=known, stack=stack)
            scores, position_keys = relative.added_to(score_function), relative.position_keys
        carried: list[KeyValues] = []  # not list[KeyValues](), which torch.compile can't trace
        every, attention = [hidden], None
        for index, layer in enumerate(self.layers):
            hidden, log_probs, present = layer(
                hidden,
                visibility,
                past=None if state is None else state.layers[index],
                scores=None if scores is None else partial(scores, index),
                query_bias=None if self.relative is None else self.relative.content_bias,
                weigh=None if weigh is None else partial(weigh, index),
                with_attention=attention_layer is not None and index == attention_layer % self.attention_layers,
                carry=carry,
            )
            if after_layer is not None:
                hidden = after_layer(index, hidden)
            attention = attention if log_probs is None else log_probs
            if all_layers:
                every.append(hidden)
            if present is not None:
                carried.append(present)
        undropped = self.final_norm(hidden)
        return BackboneOutput(
            hidden=self.output_dropout(undropped),
            undropped=undropped,
            layers=tuple(every) if all_layers else None,
            attention=attention,
            state=TransformerState(tuple(carried), context, whole_padding, position_keys) if carry else None,
        )

    def _embed(self, tokens: Tensor, padding: Tensor | None, context: int, added: Tensor | None) -> Tensor:
        hidden = self.embedding(tokens) * self.embedding_scale
        if self.positions is not None:
            hidden = hidden + self.positions(counted_positions(tokens.size(1), padding, context=context), stop=context)
        embedded: Tensor = self.embedding_dropout(hidden if added is None else hidden + added)
        return embedded


def joined_padding(
    padding: Bool[Tensor, "batch length"] | None, state: TransformerState | None, tokens: Int[Tensor, "batch length"]
) -> Bool[Tensor, "batch context"] | None:
    """Padding over carried and present columns; None when there is none in either."""
    before = None if state is None else state.padding
    if state is None or (padding is None and before is None):
        return padding
    if before is None:
        before = torch.zeros(tokens.size(0), state.length, dtype=torch.bool, device=tokens.device)
    return torch.cat((before, torch.zeros_like(tokens, dtype=torch.bool) if padding is None else padding), 1)


if TYPE_CHECKING:
    TransformerFactory = Callable[[int], Transformer] | Mapping[str, Any] | str
else:  # as `depgen.backbones.backbone.BackboneFactory`
    TransformerFactory = Callable[[int], Transformer]
