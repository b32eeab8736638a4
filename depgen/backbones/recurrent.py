"""What recurrent backbones have in common: a stack of layers with a carried state, locked dropouts and a tied output.

Merity, Keskar & Socher (2018), Sec. 4: sizes and dropouts of a language model around any recurrent layer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor, nn

from depgen.backbones.backbone import BackboneOutput, BackboneState, EmbeddingBackbone
from depgen.errors import UserError
from depgen.nn.dropout import locked_dropout, word_type_dropout
from depgen.nn.rows import Rows

Pair = tuple[Tensor, Tensor]
"""Hidden and cell state of one layer, each [batch size]."""


@dataclass(frozen=True)
class RecurrentState(Rows):
    """Hidden and cell states of every layer.

    Attributes:
        layers: a pair a layer, [batch size] each.
    """

    layers: tuple[Pair, ...]

    def detached(self) -> "RecurrentState":
        """The same values without their graph."""
        return RecurrentState(tuple((hidden.detach(), cell.detach()) for hidden, cell in self.layers))

    def tensors(self) -> Sequence[Tensor]:
        """Hidden and cell state of each layer in turn."""
        return [each for layer in self.layers for each in layer]


@dataclass(frozen=True)
class Dropouts:
    """The dropouts of a recurrent language model.

    Attributes:
        embedding: share of word types whose embedding is dropped.
        inputs: locked dropout of the embedded words.
        hidden: locked dropout between layers.
        output: locked dropout of the last layer's output.
    """

    embedding: float
    inputs: float
    hidden: float
    output: float


class RecurrentStack(EmbeddingBackbone):
    """Layers from the embedding's size to `hidden_size` and back to what the output matrix reads.

    Args:
        vocabulary_size: number of token types.
        layers: number of layers.
        embedding_size: of the embedding and, when tied, of the last layer.
        hidden_size: of all layers but the last; of the last too when the output is not tied.
        tied: predict by the embedding matrix.
        dropouts: of everything but the recurrent weights, which are the layers' own matter.
        make_layer: a layer from its input's size and its own: `layer(inputs, state, padding)` gives its outputs, zero
            at padding, and the state after each row's last token.
    """

    attention_layers = 0

    def __init__(
        self,
        vocabulary_size: int,
        *,
        layers: int,
        embedding_size: int,
        hidden_size: int,
        tied: bool,
        dropouts: Dropouts,
        make_layer: Callable[[int, int], nn.Module],
    ) -> None:
        super().__init__()
        if layers < 1:
            raise UserError(f"a {type(self).__name__} needs one layer at least, found layers: {layers}")
        self.vocabulary_size, self.dropouts = vocabulary_size, dropouts
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
        """Hidden states of every position; zero at padding.

        Args:
            tokens: token ids; what follows `state` when there is one.
            padding: True at positions that are no tokens, at either end; the states pass them by. Padding at the right
                needs none where no state is carried, and is faster without.
            state: what an earlier call with `carry` returned.
            attention_layer: must be None; there is no attention.
            all_layers: return the embedding and the output of each layer too, before dropout.
            carry: return the states after the last token.

        Raises:
            ValueError: `attention_layer` is not None.
        """
        if attention_layer is not None:
            raise ValueError(f"attention of layer {attention_layer} requested, but a {type(self).__name__} has none")
        assert state is None or isinstance(state, RecurrentState)
        weight = word_type_dropout(self.embedding.weight, self.dropouts.embedding, training=self.training)
        embedded = F.embedding(tokens, weight)
        hidden = locked_dropout(embedded, self.dropouts.inputs, training=self.training)
        every, carried = [embedded], list[Pair]()
        for index, layer in enumerate(self.layers):
            output, after = layer(hidden, None if state is None else state.layers[index], padding)
            every.append(output)
            carried.append(after)
            dropout = self.dropouts.hidden if index < len(self.layers) - 1 else self.dropouts.output
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
