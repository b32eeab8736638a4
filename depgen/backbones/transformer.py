"""The Transformer: causal or seeing both sides, with carried keys, additive attention scores or attention of another
kind than the softmax, and a hook after layers.

Vaswani et al. (2017), with the defaults of fairseq's `transformer_lm`: 6 x 512, pre-LN, sinusoids, tied output.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from depgen.backbones.backbone import BackboneOutput, BackboneState, EmbeddingBackbone
from depgen.backbones.transformer_layer import TransformerLayer
from depgen.errors import UserError, check_at_least
from depgen.nn.attention import Keys, KeyValues, Visibility
from depgen.nn.dropout import Dropout
from depgen.nn.positions import LearnedPositions, SinusoidalPositions, counted_positions
from depgen.nn.relative_positions import RelativePositions, RelativeScores
from depgen.nn.stack_attention import StackAttention

ScoreFunction = Callable[[int, Tensor, Keys], Tensor | None]
"""From a layer (0-based), queries [batch heads length size] and keys (`keys.context` is their number, `keys.tensor` is
[batch heads context size]) to what is added to the scaled scores, broadcastable to [batch heads length context]; None:
nothing in that layer. With relative positions, the queries have the content bias: q + u."""

WeighFunction = Callable[[int, Tensor], Tensor]
"""From a layer (0-based) and its scaled scores [batch heads length context], -inf at keys not seen, to the weights that
values are summed by, in place of a softmax over keys."""

AfterLayer = Callable[[int, Tensor], Tensor]
"""From a layer (0-based) and the hidden states it returned to those that the next layer reads."""


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


class Initialization(ABC):
    """Draws the initial weights of a Transformer, in place of those that torch's layers have drawn."""

    @abstractmethod
    def __call__(self, network: "Transformer") -> None:
        """Draw them."""


@dataclass(frozen=True)
class FairseqInit(Initialization):
    """Embeddings from N(0, 1/width); queries, keys and values Xavier-uniform with gain 1/√2; the rest as in torch.

    As fairseq's `transformer_lm`.
    """

    def __call__(self, network: "Transformer") -> None:
        """Draw the embeddings; the layers draw their matrices so when they are made."""
        for matrix in network.token_matrices:
            nn.init.normal_(matrix, std=network.width**-0.5)


@dataclass(frozen=True)
class MaskedFairseqInit(Initialization):
    """Embeddings from N(0, 1), an output matrix of its own from U(-1/√width, 1/√width); the rest as `FairseqInit`.

    As fairseq's `masked_lm` without `--apply-bert-init`: ITEXP (Casas et al., 2020). Embeddings are not scaled there.
    """

    def __call__(self, network: "Transformer") -> None:
        """Draw the embedding and the output matrix; the layers draw their matrices so when they are made."""
        nn.init.normal_(network.embedding.weight)
        if network.untied_output is not None:
            nn.init.uniform_(network.untied_output, -(network.width**-0.5), network.width**-0.5)


@dataclass(frozen=True)
class NormalInit(Initialization):
    """All matrices from N(0, std²) with zero biases, as BERT and GPT-2.

    Args:
        std: standard deviation.
    """

    std: float = 0.02

    def __call__(self, network: "Transformer") -> None:
        """Draw embeddings, learned positions and the matrices of all layers."""
        for matrix in [*network.token_matrices, *network.learned_positions]:
            nn.init.normal_(matrix, std=self.std)
        for module in network.matrices:
            nn.init.normal_(module.weight, std=self.std)
            zero_bias(module)


@dataclass(frozen=True)
class StructFormerInit(Initialization):
    """Embeddings from U(-bound, bound); a layer's four attention matrices Xavier-uniform with zero biases.

    As StructFormer; feed-forward networks as in torch.

    Args:
        bound: of the embeddings.
    """

    bound: float = 0.1

    def __call__(self, network: "Transformer") -> None:
        """Draw embeddings, learned positions and the attention matrices of all layers."""
        for matrix in [*network.token_matrices, *network.learned_positions]:
            nn.init.uniform_(matrix, -self.bound, self.bound)
        for layer in cast(Iterable[TransformerLayer], network.layers):
            for block in layer.attention.projection.weight.data.chunk(3):
                nn.init.xavier_uniform_(block)
            zero_bias(layer.attention.projection)


@dataclass(frozen=True)
class TransformerXLInit(Initialization):
    """Matrices from N(0, 2 / (layers · inputs)) with zero biases; embeddings from U(-√(3/width), √(3/width)).

    As the Transformer-XL of GiLT (Huang et al., 2026); the content and the position bias from N(0, 1/size of a head).
    """

    def __call__(self, network: "Transformer") -> None:
        """Draw embeddings, matrices and the biases of relative positions."""
        bound = math.sqrt(3 / network.width)
        for matrix in [*network.token_matrices, *network.learned_positions]:
            nn.init.uniform_(matrix, -bound, bound)
        for module in network.matrices:
            nn.init.trunc_normal_(module.weight, std=math.sqrt(2 / (network.attention_layers * module.in_features)))
            zero_bias(module)
        for bias in (network.content_bias, network.position_bias):
            if bias is not None:
                nn.init.trunc_normal_(bias, std=bias.size(1) ** -0.5)


def zero_bias(module: nn.Linear) -> None:
    """Set a layer's bias to zero, where it has one."""
    if module.bias is not None:
        nn.init.zeros_(module.bias)


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
        final_norm: layer norm after the last layer; None: as `norm_first`.
        affine_norms: the layers' norms have trained gains and biases; the final one always has.
        positions: fixed sinusoids, trained vectors, none, or relative: distances in the attention scores of a causal
            network, as in Transformer-XL (Dai et al., 2019), without memory between texts.
        max_length: number of learned positions; has no effect on others.
        scale_embedding: multiply token embeddings by √width.
        tied: the output matrix is the embedding.
        output_bias: add a bias to the logits.
        attention_bias: the projections of queries, keys, values and the mixed values have biases.
        causal: positions see no later ones.
        init: draws the initial weights: `FairseqInit` (None) or another `Initialization` of this file.
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
        final_norm: bool | None = None,
        affine_norms: bool = True,
        positions: Literal["sinusoidal", "learned", "none", "relative"] = "sinusoidal",
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
        self.embedding_dropout = Dropout(dropout if embedding_dropout is None else embedding_dropout)
        self.output_dropout = Dropout(output_dropout)
        self.positions: SinusoidalPositions | LearnedPositions | None = None
        if positions in ("sinusoidal", "learned"):
            learned = positions == "learned"
            self.positions = LearnedPositions(width, max_length=max_length) if learned else SinusoidalPositions(width)
            self.max_length = max_length if learned else None
        make_layer = partial(
            TransformerLayer,
            width,
            attention_heads,
            feedforward=feedforward,
            dropout=dropout,
            attention_dropout=attention_dropout,
            activation_dropout=activation_dropout,
            activation=activation,
            norm_first=norm_first,
            affine_norms=affine_norms,
            attention_bias=attention_bias,
        )
        self.layers = nn.ModuleList(make_layer() for _ in range(layers))
        is_relative = positions == "relative"
        self.relative = RelativePositions(width, attention_heads, layers=layers) if is_relative else None
        has_final_norm = norm_first if final_norm is None else final_norm
        self.final_norm = nn.LayerNorm(width) if has_final_norm else nn.Identity()
        self.make_output(tied=tied, bias=output_bias)
        (FairseqInit() if init is None else init)(self)

    @property
    def learned_positions(self) -> list[nn.Parameter]:
        """The trained vectors of positions; empty where there are none."""
        return [self.positions.weight] if isinstance(self.positions, LearnedPositions) else []

    @property
    def matrices(self) -> list[nn.Linear]:
        """The linear maps of all layers, and those of relative positions."""
        return [module for module in self.modules() if isinstance(module, nn.Linear)]

    @property
    def content_bias(self) -> Float[Tensor, "attention_heads size"] | None:
        """What is added to the queries that meet keys (u), the same in all layers; None without relative positions."""
        return None if self.relative is None else self.relative.content_bias

    @property
    def position_bias(self) -> Float[Tensor, "attention_heads size"] | None:
        """What is added to the queries that meet distances (v), the same in all layers; None as `content_bias`."""
        return None if self.relative is None else self.relative.position_bias

    def key_weight(self, layer: int) -> Float[Tensor, "width width"]:
        """The matrix of a layer's keys; its rows are those of the heads, one head after the other."""
        attention = cast(TransformerLayer, self.layers[layer]).attention
        return attention.projection.weight.chunk(3)[1]

    def position_weight(self, layer: int) -> Float[Tensor, "width width"]:
        """The matrix of a layer's distances, in a network with relative positions; rows as of `key_weight`."""
        assert self.relative is not None
        return self.relative.projection(layer).weight

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
        """Hidden states of every position; at padding they are finite and mean nothing.

        Args:
            tokens: token ids; what follows `state` when there is one.
            padding: True at positions that are no tokens, at either end; a causal network needs none for padding at the
                right, and is faster without. Positions count tokens, so that padding at the left changes no result.
            state: what an earlier call with `carry` returned. It may be used more than once.
            attention_layer: the layer (0-based, negative from the top) whose attention is returned: log-probabilities
                before dropout in fp32, -inf at keys not seen (clamp it before a logsumexp over heads: that of
                nothing but -inf has NaN gradients). The same softmax, after its dropout, mixes the values.
            all_layers: return the embedding and the hidden states after each layer (and its hook) too, before the
                final norm.
            carry: return the state after the last token.
            score_function: what is added to the scaled attention scores of each layer. It must leave each token a
                finite score.
            weigh: what makes weights of each layer's scores, before dropout, instead of the softmax.
            after_layer: may replace the hidden states after each layer.
            added_embedding: added to token and position embeddings, before dropout.
            stack: with relative positions, which keys are seen and how far they are; padding is then given by it alone.

        Raises:
            ValueError: for a state in a network that sees both sides, or an attention layer that does not exist or has
                no softmax.
        """
        if not self.causal and (carry or state is not None):
            raise ValueError("a Transformer with causal=False sees later tokens, so it has no state to continue from")
        if attention_layer is not None and not -self.attention_layers <= attention_layer < self.attention_layers:
            raise ValueError(f"attention of layer {attention_layer} requested, found {self.attention_layers} layers")
        if attention_layer is not None and weigh is not None:
            raise ValueError("attention is returned as log-probabilities, which weights of another kind have not")
        assert state is None or isinstance(state, TransformerState)
        length = tokens.size(1)
        context = length if state is None else length + state.length
        whole_padding = joined_padding(padding, state, tokens)
        visibility = Visibility.of(length, whole_padding, causal=self.causal, context=context, device=tokens.device)
        visibility = visibility if stack is None else Visibility(stack.visible[:, None], causal=False)
        hidden = self._embed(tokens, whole_padding, context, added_embedding)
        relative = self._relative_scores(length, context, whole_padding, state, stack)
        scores = score_function if relative is None else relative.added_to(score_function)
        carried: list[KeyValues] = []  # not list[KeyValues](), which torch.compile can't trace
        every, attention = [hidden], None
        for index, layer in enumerate(self.layers):
            hidden, log_probs, present = layer(
                hidden,
                visibility,
                past=None if state is None else state.layers[index],
                scores=None if scores is None else partial(scores, index),
                query_bias=self.content_bias,
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
        position_keys = None if relative is None else relative.position_keys
        return BackboneOutput(
            hidden=self.output_dropout(undropped),
            undropped=undropped,
            layers=tuple(every) if all_layers else None,
            attention=attention,
            state=TransformerState(tuple(carried), context, whole_padding, position_keys) if carry else None,
        )

    def _relative_scores(
        self,
        length: int,
        context: int,
        padding: Tensor | None,
        state: TransformerState | None,
        stack: StackAttention | None,
    ) -> RelativeScores | None:
        if self.relative is None:
            return None
        # Without a state there is padding at the ends alone, so that columns are as far apart as their tokens.
        between, known = (None, None) if state is None else (padding, state.position_keys)
        scores: RelativeScores = self.relative(length, context, padding=between, known=known, stack=stack)
        return scores

    def _embed(self, tokens: Tensor, padding: Tensor | None, context: int, added: Tensor | None) -> Tensor:
        length = tokens.size(1)
        hidden = self.embedding(tokens) * self.embedding_scale
        if self.positions is not None:
            hidden = hidden + self.positions(counted_positions(length, padding, context=context), stop=context)
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
