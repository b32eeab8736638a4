"""The interface of a backbone: a network from token ids to hidden states that a system takes as an argument."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from depgen.nn.rows import Rows

Stream = TypeVar("Stream", bound="StreamState")


@runtime_checkable
class BackboneState(Protocol):
    """What is carried from one call to the next: a key-value cache, or recurrent states."""

    def select(self, rows: Int[Tensor, " kept"]) -> "BackboneState":
        """The state of some rows of the batch, in the order given."""
        ...


@dataclass(frozen=True)
class StreamState(Rows):
    """Base of states of fixed size, which a network carries through a stream from segment to segment."""

    def detached(self: Stream) -> Stream:
        """The same values without their graph."""
        return replace(self, **tree_map(Tensor.detach, vars(self)))

    def tensors(self) -> Sequence[Tensor]:
        """Its values in the order of the fields, from which the backbone's `state_of` makes it again."""
        values: list[Tensor] = tree_leaves(vars(self))
        return values


@dataclass(frozen=True)
class BackboneOutput:
    """What every backbone returns.

    Attributes:
        hidden: last hidden states after output dropout; logits are `hidden @ output_weight.T + output_bias`.
        undropped: the same before output dropout.
        layers: hidden states after each layer (embedding first), on request.
        attention: log-probabilities of one layer's self-attention before dropout, in fp32, on request; -inf where it
            can't look (clamp it before a logsumexp over heads: that of nothing but -inf has NaN gradients); keys
            include the carried ones.
        state: what to pass in with the next tokens, on request.
    """

    hidden: Float[Tensor, "batch length width"]
    undropped: Float[Tensor, "batch length width"]
    layers: tuple[Float[Tensor, "batch length _"], ...] | None = None
    attention: Float[Tensor, "batch attention_heads length context"] | None = None
    state: BackboneState | None = None


class Backbone(nn.Module):
    """Base of all backbones.

    Attributes:
        vocabulary_size: number of token types read and predicted.
        width: size of a hidden state.
        attention_layers: number of layers whose self-attention can be had; 0 for networks without any.
        causal: whether no position sees a later one.
        couples_batch: whether training computes over all positions of a batch (batch normalisation), so that it needs
            the padding.
        max_length: tokens of the longest text that it can read, `<eos>` in front included; None for any.
    """

    vocabulary_size: int
    width: int
    attention_layers: int
    causal: bool = True
    couples_batch: bool = False
    max_length: int | None = None

    @property
    def arguments_found(self) -> Mapping[str, Any]:
        """Arguments of the constructor that it found out itself: a checkpoint keeps them, so that it loads alone."""
        return {}

    @property
    def output_weight(self) -> Float[Tensor, "vocab width"]:
        """The output matrix (tied to the embedding or its own)."""
        raise NotImplementedError

    @property
    def output_bias(self) -> Float[Tensor, " vocab"] | None:
        """The output bias, where there is one."""
        raise NotImplementedError

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        *,
        padding: Bool[Tensor, "batch length"] | None = None,
        state: BackboneState | None = None,
        attention_layer: int | None = None,
        all_layers: bool = False,
        carry: bool = False,
    ) -> BackboneOutput:
        """Hidden states of every position; at padding they are finite and mean nothing.

        Args:
            tokens: token ids; what follows `state` when there is one.
            padding: True at positions that are no tokens, at either end; causal networks need none at the right where
                no state is carried, and are faster without, unless they train with `couples_batch`: these take it on
                the CPU too, which spares waits for a GPU.
            state: what an earlier call with `carry` returned; it may be used more than once.
            attention_layer: the layer (0-based, negative from the top) whose attention is returned.
            all_layers: return the embedding and the hidden states after each layer too.
            carry: return the state after the last token.

        Raises:
            ValueError: a layer without attention, or a state that the network can't have.
        """
        raise NotImplementedError

    def check_attention(self, layer: int | None) -> None:
        """Raises ValueError for an attention layer that does not exist."""
        if layer is not None and not -self.attention_layers <= layer < self.attention_layers:
            layers = f"{type(self).__name__} has {self.attention_layers or 'none'}"
            raise ValueError(f"attention of layer {layer} requested, but a {layers}")

    def state_of(self, tensors: Sequence[Tensor]) -> StreamState:
        """The state whose `tensors` these are; for networks that can be carried through a stream."""
        raise NotImplementedError


class EmbeddingBackbone(Backbone):
    """A backbone that has an embedding, by which it also predicts unless it has another matrix for that.

    Attributes:
        embedding: of tokens.
        untied_output: the output matrix; None where it is the embedding.
        bias: of the output; None where there is none.
    """

    embedding: nn.Embedding
    untied_output: nn.Parameter | None
    bias: nn.Parameter | None

    def make_output(self, *, tied: bool, bias: bool = True) -> None:
        """Make the output's parameters: the bias zero, the matrix to be drawn by whoever asks."""
        self.untied_output = None if tied else nn.Parameter(torch.empty(self.vocabulary_size, self.width))
        self.bias = nn.Parameter(torch.zeros(self.vocabulary_size)) if bias else None

    @property
    def token_matrices(self) -> list[Tensor]:
        """The embedding, and the output matrix where that is another."""
        return [matrix for matrix in (self.embedding.weight, self.untied_output) if matrix is not None]

    @property
    def output_weight(self) -> Float[Tensor, "vocab width"]:
        """The output matrix (the embedding's, or its own)."""
        return self.embedding.weight if self.untied_output is None else self.untied_output

    @property
    def output_bias(self) -> Float[Tensor, " vocab"] | None:
        """The output bias, where there is one."""
        return self.bias


@runtime_checkable
class DistanceNetwork(Protocol):
    """A network that tells how deep the boundary before each token is: its distances bracket a sentence."""

    def syntactic_distances(
        self, tokens: Int[Tensor, "batch length"], *, padding: Bool[Tensor, "batch length"] | None = None
    ) -> Float[Tensor, "layers batch length"]:
        """The distance before each token, by each layer that has them; in evaluation mode."""
        ...


if TYPE_CHECKING:
    BackboneFactory = Callable[[int], Backbone] | Mapping[str, Any] | str
else:  # jsonargparse makes a callable of what YAML has
    BackboneFactory = Callable[[int], Backbone]
"""From the vocabulary size to a backbone, or its block as in YAML: a class path, or that with all other arguments."""
