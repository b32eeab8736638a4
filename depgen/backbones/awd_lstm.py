"""AWD-LSTM: a stack of LSTMs with dropped recurrent weights and a tied output matrix.

Merity, Keskar & Socher (2018), "Regularizing and Optimizing LSTM Language Models" (ICLR), Sec. 2-4; the sizes are those
of Yang & Wan (2022), App. A: three layers, 400 -> 1150 -> 1150 -> 400.

Deviations
    D1. Recurrent weights are dropped in a copy that each forward pass hands to the fused LSTM, so that the raw matrix
        gets the gradient. The authors' wrapper sets an attribute that the fused call of later PyTorch releases does not
        read: there, nothing is dropped.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from depgen.backbones.backbone import Backbone, BackboneOutput, BackboneState
from depgen.errors import UserError
from depgen.nn.dropout import locked_dropout, weight_dropout, word_type_dropout

Pair = tuple[Tensor, Tensor]
"""Hidden and cell state of one layer, each [batch size]."""


@dataclass(frozen=True)
class LSTMState:
    """Hidden and cell states of every layer.

    Attributes:
        layers: a pair a layer, [batch size] each.
    """

    layers: tuple[Pair, ...]

    def select(self, rows: Int[Tensor, " kept"]) -> "LSTMState":
        """The states of some rows of the batch."""
        return LSTMState(tuple((hidden[rows], cell[rows]) for hidden, cell in self.layers))

    def detached(self) -> "LSTMState":
        """The same values, cut from the graph that made them."""
        return LSTMState(tuple((hidden.detach(), cell.detach()) for hidden, cell in self.layers))


class AWDLSTM(Backbone):
    """A stack of LSTMs from the embedding's size to `hidden_size` and back.

    Args:
        vocabulary_size: number of token types; given by the system.
        layers: number of LSTMs.
        embedding_size: of the embedding and, when tied, of the last layer.
        hidden_size: of all layers but the last; of the last too when the output is not tied.
        tied: predict by the embedding matrix.
        embedding_dropout: share of word types whose embedding is dropped.
        input_dropout: locked dropout of the embedded words (paper 0.4; code's default 0.5).
        hidden_dropout: locked dropout between layers (paper 0.25).
        output_dropout: locked dropout of the last layer's output (paper 0.4).
        weight_dropout: share of dropped recurrent connections (paper 0.5; code's default 0.4).
    """

    attention_layers = 0

    def __init__(
        self,
        vocabulary_size: int,
        layers: int = 3,
        embedding_size: int = 400,
        hidden_size: int = 1150,
        tied: bool = True,
        embedding_dropout: float = 0.1,
        input_dropout: float = 0.4,
        hidden_dropout: float = 0.25,
        output_dropout: float = 0.4,
        weight_dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if layers < 1:
            raise UserError(f"an LSTM needs one layer at least, found layers: {layers}")
        self.vocabulary_size = vocabulary_size
        self.width = embedding_size if tied else hidden_size
        self.embedding_dropout, self.input_dropout = embedding_dropout, input_dropout
        self.hidden_dropout, self.output_dropout = hidden_dropout, output_dropout
        self.weight_dropout = weight_dropout
        self.embedding = nn.Embedding(vocabulary_size, embedding_size)
        sizes = [embedding_size, *[hidden_size] * (layers - 1), self.width]
        self.layers = nn.ModuleList(_Layer(before, after) for before, after in pairwise(sizes))
        self.untied_output = None if tied else nn.Parameter(torch.empty(vocabulary_size, hidden_size))
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))
        for matrix in (self.embedding.weight, self.untied_output):
            if matrix is not None:
                nn.init.uniform_(matrix, -0.1, 0.1)

    @property
    def output_weight(self) -> Float[Tensor, "vocab width"]:
        """The output matrix (the embedding's, or its own)."""
        return self.embedding.weight if self.untied_output is None else self.untied_output

    @property
    def output_bias(self) -> Float[Tensor, " vocab"]:
        """The output bias."""
        return self.bias

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
            ValueError: attention was asked for.
        """
        if attention_layer is not None:
            raise ValueError(f"attention of layer {attention_layer} was asked for, but an LSTM has none")
        assert state is None or isinstance(state, LSTMState)
        weight = word_type_dropout(self.embedding.weight, self.embedding_dropout, training=self.training)
        embedded = F.embedding(tokens, weight)
        hidden = locked_dropout(embedded, self.input_dropout, training=self.training)
        every, carried = [embedded], list[Pair]()
        for index, layer in enumerate(self.layers):
            before = None if state is None else state.layers[index]
            output, after = layer(hidden, before, padding, dropped=self.weight_dropout)
            every.append(output)
            carried.append(after)
            last = index == len(self.layers) - 1
            dropout = self.output_dropout if last else self.hidden_dropout
            hidden = locked_dropout(output, dropout, training=self.training)
        return BackboneOutput(
            hidden=hidden,
            undropped=every[-1],
            layers=tuple(every) if all_layers else None,
            state=LSTMState(tuple(carried)) if carry else None,
        )


class _Layer(nn.Module):
    """One LSTM whose recurrent weights are dropped in training (D1)."""

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.weight_input = nn.Parameter(torch.empty(4 * size, input_size))
        self.weight_recurrent = nn.Parameter(torch.empty(4 * size, size))
        self.bias_input = nn.Parameter(torch.empty(4 * size))
        self.bias_recurrent = nn.Parameter(torch.empty(4 * size))
        bound = 1 / math.sqrt(size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, inputs: Tensor, state: Pair | None, padding: Tensor | None, *, dropped: float) -> Any:  # noqa: ANN401
        """Outputs [batch length size] and the states after each row's last token."""
        recurrent = weight_dropout(self.weight_recurrent, dropped, training=self.training)
        weights = [self.weight_input, recurrent, self.bias_input, self.bias_recurrent]
        zeros = inputs.new_zeros(1, inputs.size(0), self.size)
        start = (zeros, zeros) if state is None else (state[0][None], state[1][None])
        if padding is None:
            output, hidden, cell = torch.lstm(inputs, start, weights, True, 1, 0.0, self.training, False, True)
            return output, (hidden[0], cell[0])
        return _over_padding(inputs, start, weights, padding, training=self.training)


def _over_padding(
    inputs: Tensor, start: Pair, weights: list[Tensor], padding: Tensor, *, training: bool
) -> tuple[Tensor, Pair]:
    """The same where some positions are no tokens: rows are moved to the left, packed, and moved back."""
    length = inputs.size(1)
    lengths = (~padding).sum(1)
    first = (~padding).int().argmax(1)
    positions = torch.arange(length, device=inputs.device)
    taken = (positions + first[:, None]).clamp_max(length - 1)
    moved = inputs.gather(1, taken[..., None].expand_as(inputs))
    packed = pack_padded_sequence(moved, lengths.cpu().clamp_min(1), batch_first=True, enforce_sorted=False)
    order, back = packed.sorted_indices, packed.unsorted_indices
    assert order is not None
    assert back is not None
    hidden, cell = (each.index_select(1, order) for each in start)
    data, hidden, cell = torch.lstm(
        packed.data, packed.batch_sizes, (hidden, cell), weights, True, 1, 0.0, training, False
    )
    run = PackedSequence(data, packed.batch_sizes, order, back)
    output, _ = pad_packed_sequence(run, batch_first=True, total_length=length)
    returned = (positions - first[:, None]).clamp(0, length - 1)
    output = output.gather(1, returned[..., None].expand_as(output)).masked_fill(padding[..., None], 0)
    after = (hidden[0].index_select(0, back), cell[0].index_select(0, back))
    empty = (lengths == 0)[:, None]
    return output, (torch.where(empty, start[0][0], after[0]), torch.where(empty, start[1][0], after[1]))
