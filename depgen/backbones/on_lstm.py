"""ON-LSTM: an LSTM whose neurons are ordered, so that its gates forget whole constituents and bracket a sentence.

Shen, Tan, Sordoni & Courville (2019), "Ordered Neurons: Integrating Tree Structures into Recurrent Neural Networks".

    paper                         here
    cumax                         `cumax`
    f~_t, i~_t (master gates)     `forget_level`, `input_level`, one value a chunk of neurons
    d_t = 1 - mean(f~_t)          `syntactic_distances`

Deviations
    D1. Recurrent connections, those of the master gates included, are dropped without rescaling in training, and the
        matrix is multiplied by 1 - p in evaluation, as in the authors' code.
    D2. Both the input and the recurrent projection have a bias, as in the authors' code.
"""

import math
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from depgen.backbones.recurrent import Pair, RecurrentStack
from depgen.errors import UserError
from depgen.nn.recurrent import RecurrentProjection


def cumax(values: Float[Tensor, "*batch levels"]) -> Float[Tensor, "*batch levels"]:
    """The cumulative sum of a softmax: a soft step from 0 to 1.

    >>> cumax(torch.zeros(4)).tolist()
    [0.25, 0.5, 0.75, 1.0]
    """
    return values.softmax(-1).cumsum(-1)  # cumax(v) = cumsum(softmax(v))


class ONLSTM(RecurrentStack):
    """A stack of ON-LSTMs from the embedding's size to `hidden_size` and back.

    Args:
        vocabulary_size: number of token types; given by the system.
        chunk_size: neurons that share a value of the master gates (paper 10).
        input_dropout: locked dropout of the embedded words.
        hidden_dropout: locked dropout between layers.
        output_dropout: locked dropout of the last layer's output.
        weight_dropout: share of dropped recurrent connections (D1).
        kwargs: see `RecurrentStack`.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        chunk_size: int = 10,
        input_dropout: float = 0.5,
        hidden_dropout: float = 0.3,
        output_dropout: float = 0.45,
        weight_dropout: float = 0.45,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(
            vocabulary_size,
            make_layer=partial(ONLSTMLayer, chunk_size=chunk_size, dropped=weight_dropout),
            input_dropout=input_dropout,
            hidden_dropout=hidden_dropout,
            output_dropout=output_dropout,
            **kwargs,
        )

    @torch.no_grad()
    def syntactic_distances(
        self, tokens: Int[Tensor, "batch length"], *, padding: Bool[Tensor, "batch length"] | None = None
    ) -> Float[Tensor, "layers batch length"]:
        """1 - mean(f~) of each layer at each position: high where a constituent ends before the token.

        Needs evaluation mode.
        """
        assert not self.training, "distances are those of evaluation mode"
        layers = self(tokens, padding=padding, all_layers=True).layers
        assert layers is not None
        distances = []
        for layer, inputs in zip(self.layers, layers[:-1], strict=True):
            assert isinstance(layer, ONLSTMLayer)
            distances.append(layer.run(inputs, None, padding)[2])
        return torch.stack(distances)


class ONLSTMLayer(nn.Module):
    """One ON-LSTM of whose recurrent connections a share is dropped in training (D1)."""

    def __init__(self, input_size: int, size: int, *, chunk_size: int, dropped: float = 0.0) -> None:
        super().__init__()
        if size % chunk_size:
            raise UserError(
                f"an ON-LSTM's layer of {size} neurons does not fall into chunks of chunk_size {chunk_size}"
            )
        self.size, self.chunk_size, self.dropped = size, chunk_size, dropped
        rows = 2 * (size // chunk_size) + 4 * size
        self.weight_input = nn.Parameter(torch.empty(rows, input_size))
        self.weight_recurrent = nn.Parameter(torch.empty(rows, size))
        self.bias_input = nn.Parameter(torch.empty(rows))
        self.bias_recurrent = nn.Parameter(torch.empty(rows))
        for weight, bias in ((self.weight_input, self.bias_input), (self.weight_recurrent, self.bias_recurrent)):
            bound = 1 / math.sqrt(weight.size(1))  # as torch's linear layers
            nn.init.uniform_(weight, -bound, bound)
            nn.init.uniform_(bias, -bound, bound)

    def forward(self, inputs: Tensor, state: Pair | None, padding: Tensor | None) -> Any:  # noqa: ANN401
        """Outputs [batch length size], zero at padding, and the state after each row's last token."""
        output, after, _ = self.run(inputs, state, padding)
        return output, after

    def run(self, inputs: Tensor, state: Pair | None, padding: Tensor | None) -> tuple[Tensor, Pair, Tensor]:
        """The same, and the syntactic distance at each position [batch length]."""
        zeros = inputs.new_zeros(inputs.size(0), self.size)
        hidden, cell = (zeros, zeros) if state is None else state
        biases = self.bias_input + self.bias_recurrent
        projected = F.linear(inputs.transpose(0, 1), self.weight_input, biases)  # W x + b + b^, all positions at once
        recurrent = RecurrentProjection(projected, self._recurrent_weight())
        outputs, forget_levels = [], []
        for t in range(inputs.size(1)):
            # z = W x + b + W^ h + b^, the affine part of all gates
            new_hidden, new_cell, forget_level = self._step(recurrent(hidden), cell)
            output = new_hidden
            if padding is not None:
                missing = padding[:, t, None]
                new_hidden, new_cell = torch.where(missing, hidden, new_hidden), torch.where(missing, cell, new_cell)
                output = new_hidden.masked_fill(missing, 0)
            hidden, cell = new_hidden, new_cell
            outputs.append(output)
            forget_levels.append(forget_level)
        # d_t = 1 - mean(f~)
        return torch.stack(outputs, 1), (hidden, cell), 1 - torch.stack(forget_levels, 1).mean(-1)

    def _recurrent_weight(self) -> Tensor:
        """Dropped in training, scaled in evaluation (D1)."""
        if not self.training:
            return self.weight_recurrent * (1 - self.dropped)  # (1 - p) W^
        kept = torch.empty_like(self.weight_recurrent, requires_grad=False).bernoulli_(1 - self.dropped)
        return self.weight_recurrent * kept  # m W^ with m ~ Bernoulli(1 - p)

    def _step(self, gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Hidden state, cell state and f~ after a step."""
        levels, chunk = self.size // self.chunk_size, self.chunk_size
        masters, rest = torch.split(gates, [2 * levels, 4 * self.size], -1)  # z = (i~, f~; o, g, i, f) before all gates
        input_rise, forget_level = cumax(masters.view(-1, 2, levels)).unbind(-2)  # f~ = cumax(..), Eq. 9
        input_gate_of_chunk = (1 - input_rise)[..., None]  # i~ = 1 - cumax(..), Eq. 10; each neuron of a chunk has it
        forget_gate_of_chunk = forget_level[..., None]
        output, candidate, inputs, forget = rest.view(-1, 4, levels, chunk).unbind(-3)
        overlap = forget_gate_of_chunk * input_gate_of_chunk  # w = f~ i~, Eq. 11
        forget = torch.addcmul(forget_gate_of_chunk - overlap, forget.sigmoid(), overlap)  # f^ = f w + (f~ - w), Eq. 12
        inputs = torch.addcmul(input_gate_of_chunk - overlap, inputs.sigmoid(), overlap)  # i^ = i w + (i~ - w), Eq. 13
        cell = torch.addcmul(forget * cell.view(-1, levels, chunk), inputs, candidate.tanh())  # c = f^ c + i^ g, Eq. 14
        # h = o tanh(c), Eq. 5
        return (output.sigmoid() * cell.tanh()).flatten(-2), cell.flatten(-2), forget_level
