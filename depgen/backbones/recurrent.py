"""What recurrent backbones have in common: a stack of layers with a carried state, locked dropouts and a tied output.

Merity, Keskar & Socher (2018), "Regularizing and Optimizing LSTM Language Models" (ICLR), Sec. 4: sizes and dropouts of
a language model around any recurrent layer. Each forward pass draws new masks, scaled by 1 / (1 - p).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from depgen.backbones.backbone import BackboneOutput, BackboneState, EmbeddingBackbone, StreamState
from depgen.errors import check_at_least

Pair = tuple[Tensor, Tensor]
"""Hidden and cell state of one layer, each [batch size]."""


def locked_dropout(
    values: Float[Tensor, "batch length width"], p: float, *, training: bool
) -> Float[Tensor, "batch length width"]:
    """Dropout whose mask is the same at all positions of a text (variational dropout).

    >>> import torch
    >>> dropped = locked_dropout(torch.ones(1, 3, 8), 0.5, training=True)
    >>> bool((dropped == dropped[:, :1]).all())
    True
    """
    if not training or p == 0:
        return values
    return values * F.dropout(values.new_ones(values.size(0), 1, values.size(2)), p)


def word_type_dropout(
    embedding: Float[Tensor, "vocab width"], p: float, *, training: bool
) -> Float[Tensor, "vocab width"]:
    """An embedding matrix in which whole word types are dropped: a dropped type is missing at all of its places."""
    if not training or p == 0:
        return embedding
    return embedding * F.dropout(embedding.new_ones(embedding.size(0), 1), p)


@dataclass(frozen=True)
class RecurrentState(StreamState):
    """Hidden and cell states of every layer."""

    layers: tuple[Pair, ...]


class RecurrentStack(EmbeddingBackbone):
    """Layers from the embedding's size to `hidden_size` and back to what the output matrix reads.

    Args:
        vocabulary_size: number of token types; given by the system.
        make_layer: a layer from its input's size and its own, which drops recurrent weights itself: `layer(inputs,
            state, padding)` gives its outputs, zero at padding, and the state after each row's last token.
        input_dropout: locked dropout of the embedded words.
        hidden_dropout: locked dropout between layers.
        output_dropout: locked dropout of the last layer's output.
        layers: number of layers.
        embedding_size: of the embedding and, when tied, of the last layer.
        hidden_size: of all layers but the last; of the last too when the output is not tied.
        tied: predict by the embedding matrix.
        embedding_dropout: share of word types whose embedding is dropped.
    """

    attention_layers = 0

    def __init__(
        self,
        vocabulary_size: int,
        *,
        make_layer: Callable[[int, int], nn.Module],
        input_dropout: float,
        hidden_dropout: float,
        output_dropout: float,
        layers: int = 3,
        embedding_size: int = 400,
        hidden_size: int = 1150,
        tied: bool = True,
        embedding_dropout: float = 0.1,
    ) -> None:
        super().__init__()
        check_at_least(1, layers=layers)
        self.vocabulary_size = vocabulary_size
        self.embedding_dropout, self.input_dropout = embedding_dropout, input_dropout
        self.hidden_dropout, self.output_dropout = hidden_dropout, output_dropout
        self.width = embedding_size if tied else hidden_size
        self.embedding = nn.Embedding(vocabulary_size, embedding_size)
        sizes = [embedding_size, *[hidden_size] * (layers - 1), self.width]
        self.layers = nn.ModuleList(make_layer(before, after) for before, after in pairwise(sizes))
        self.make_output(tied=tied)
        for matrix in self.token_matrices:
            nn.init.uniform_(matrix, -0.1, 0.1)

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
        """Hidden states of every position, zero at padding, as `Backbone.forward`; `all_layers` before dropout."""
        self.check_attention(attention_layer)
        assert state is None or isinstance(state, RecurrentState)
        weight = word_type_dropout(self.embedding.weight, self.embedding_dropout, training=self.training)
        embedded = F.embedding(tokens, weight)
        hidden = locked_dropout(embedded, self.input_dropout, training=self.training)
        every, carried = [embedded], list[Pair]()
        for index, layer in enumerate(self.layers):
            output, after = layer(hidden, None if state is None else state.layers[index], padding)
            every.append(output)
            carried.append(after)
            dropout = self.hidden_dropout if index < len(self.layers) - 1 else self.output_dropout
            hidden = locked_dropout(output, dropout, training=self.training)
        return BackboneOutput(
            hidden=hidden,
            undropped=every[-1],
            layers=tuple(every) if all_layers else None,
            state=RecurrentState(tuple(carried)) if carry else None,
        )

    def state_of(self, tensors: Sequence[Tensor]) -> RecurrentState:
        """The state whose `tensors` these are."""
        return RecurrentState(tuple(zip(tensors[::2], tensors[1::2], strict=True)))
