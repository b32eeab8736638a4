"""AWD-LSTM: a stack of LSTMs with dropped recurrent weights and a tied output matrix.

Merity, Keskar & Socher (2018), "Regularizing and Optimizing LSTM Language Models" (ICLR), Sec. 2-4; the sizes are those
of Yang & Wan (2022), App. A: three layers, 400 -> 1150 -> 1150 -> 400.

Deviations
    D1. Recurrent weights are dropped in a copy that each forward pass hands to the fused LSTM, so that the raw matrix
        gets the gradient. The authors' wrapper sets an attribute that the fused call of later PyTorch releases does not
        read: there, nothing is dropped.
    D2. On a GPU the fused LSTM runs in fp32 in mixed precision too: PyTorch's autocast would give cuDNN fp16, whatever
        precision is given, and nothing scales the loss, whose gradients are below fp16's range.
"""

import math
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from depgen.backbones.recurrent import Pair, RecurrentStack
from depgen.nn.lengths import LeftAligned
from depgen.nn.recurrent import call_lstm


class AWDLSTM(RecurrentStack):
    """A stack of fused LSTMs from the embedding's size to `hidden_size` and back.

    Args:
        vocabulary_size: number of token types; given by the system.
        input_dropout: locked dropout of the embedded words (paper 0.4; code's default 0.5).
        hidden_dropout: locked dropout between layers (paper 0.25).
        output_dropout: locked dropout of the last layer's output (paper 0.4).
        weight_dropout: share of dropped recurrent connections (paper 0.5; code's default 0.4).
        kwargs: see `RecurrentStack`.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        input_dropout: float = 0.4,
        hidden_dropout: float = 0.25,
        output_dropout: float = 0.4,
        weight_dropout: float = 0.5,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(
            vocabulary_size,
            make_layer=partial(LSTMLayer, dropped=weight_dropout),
            input_dropout=input_dropout,
            hidden_dropout=hidden_dropout,
            output_dropout=output_dropout,
            **kwargs,
        )


class LSTMLayer(nn.Module):
    """One LSTM of whose recurrent connections a share is dropped in training (D1)."""

    def __init__(self, input_size: int, size: int, *, dropped: float = 0.0) -> None:
        super().__init__()
        self.size, self.dropped = size, dropped
        self.weight_input = nn.Parameter(torch.empty(4 * size, input_size))
        self.weight_recurrent = nn.Parameter(torch.empty(4 * size, size))
        self.bias_input = nn.Parameter(torch.empty(4 * size))
        self.bias_recurrent = nn.Parameter(torch.empty(4 * size))
        bound = 1 / math.sqrt(size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, inputs: Tensor, state: Pair | None, padding: Tensor | None) -> Any:  # noqa: ANN401
        """Outputs [batch length size], zero at padding, and the state after each row's last token."""
        if inputs.is_cuda and torch.is_autocast_enabled("cuda"):  # D2
            with torch.autocast("cuda", enabled=False):
                state = None if state is None else (state[0].float(), state[1].float())
                return self(inputs.float(), state, padding)
        recurrent = F.dropout(self.weight_recurrent, self.dropped, training=self.training)
        weights = [self.weight_input, recurrent, self.bias_input, self.bias_recurrent]
        zeros = inputs.new_zeros(1, inputs.size(0), self.size)
        start = (zeros, zeros) if state is None else (state[0][None], state[1][None])
        if padding is None:
            options = (True, 1, 0.0, self.training, False, True)
            output, hidden, cell = call_lstm(torch.lstm, inputs, start, weights, *options)
            return output, (hidden[0], cell[0])
        return _over_padding(inputs, start, weights, padding, training=self.training)


def _over_padding(
    inputs: Tensor, start: Pair, weights: list[Tensor], padding: Tensor, *, training: bool
) -> tuple[Tensor, Pair]:
    """The same where some positions are no tokens: rows are moved to the left, packed, and moved back."""
    lengths, rows = (~padding).sum(1), LeftAligned.of(padding, inputs.device)
    packed = pack_padded_sequence(
        rows.moved(inputs), lengths.cpu().clamp_min(1), batch_first=True, enforce_sorted=False
    )
    order, back = packed.sorted_indices, packed.unsorted_indices
    assert order is not None
    assert back is not None
    hidden, cell = (each.index_select(1, order) for each in start)
    data, hidden, cell = call_lstm(
        torch.lstm, packed.data, packed.batch_sizes, (hidden, cell), weights, True, 1, 0.0, training, False
    )
    run = PackedSequence(data, packed.batch_sizes, order, back)
    output, _ = pad_packed_sequence(run, batch_first=True, total_length=inputs.size(1))
    after = (hidden[0].index_select(0, back), cell[0].index_select(0, back))
    empty = (lengths == 0)[:, None]
    return rows.returned(output), (torch.where(empty, start[0][0], after[0]), torch.where(empty, start[1][0], after[1]))
