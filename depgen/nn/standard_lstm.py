"""Torch's own LSTM with an input that stays the same through a sequence: what fused kernels compute."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from depgen.nn.lstm_precision import call_lstm
from depgen.nn.peephole_lstm import LayerState
from depgen.nn.recurrent_projection import RecurrentProjection


class StandardLSTM(nn.Module):
    """The interface of `depgen.nn.peephole_lstm.PeepholeLSTM` over `torch.nn.LSTM`.

    Args:
        input_size: of the input that each step has.
        size: of all layers.
        layers: how many.
        constant_size: of what stays the same; 0 for none.
    """

    def __init__(self, input_size: int, size: int, *, layers: int = 2, constant_size: int = 0) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_size + constant_size, size, layers, batch_first=True)

    def forward(
        self,
        inputs: Float[Tensor, "batch length inputs"],
        *,
        constant: Float[Tensor, "batch constants"] | None = None,
        state: Sequence[LayerState] | None = None,
    ) -> tuple[Float[Tensor, "batch length size"], tuple[LayerState, ...]]:
        """The last layer's hidden states, and every layer's state after the last step."""
        if constant is not None:
            inputs = torch.cat((inputs, constant[:, None].expand(-1, inputs.shape[1], -1)), -1)
        begun = None
        if state is not None:
            begun = torch.stack([each.hidden for each in state]), torch.stack([each.cell for each in state])
        outputs, (hidden, cell) = call_lstm(self.lstm, inputs, begun)
        return outputs, tuple(LayerState(*each) for each in zip(hidden, cell, strict=True))

    def by_steps(
        self, known: Float[Tensor, "batch length known"]
    ) -> Callable[[Float[Tensor, "batch varying"]], tuple[LayerState, ...]]:
        """See `depgen.nn.peephole_lstm.PeepholeLSTM`.

        On a CPU a fused kernel of one step at a time takes longer than its parts, whose recurrent matrices get their
        gradients once a sequence.
        """
        batch, length, size = known.shape
        projections: list[RecurrentProjection] = []
        for of_input, of_hidden, *biases in self.lstm.all_weights:
            bias = biases[0] + biases[1]
            if projections:
                additive = bias.expand(length, batch, -1)
            else:
                additive = F.linear(known, of_input[:, :size], bias).transpose(0, 1).contiguous()
            own_input = of_input if projections else of_input[:, size:]
            projections.append(RecurrentProjection(additive, torch.cat((own_input, of_hidden), 1)))
        zero = known.new_zeros(batch, self.lstm.hidden_size)
        states = [LayerState(zero, zero)] * len(projections)

        def step(varying: Float[Tensor, "batch varying"]) -> tuple[LayerState, ...]:
            for layer, projection in enumerate(projections):
                i, f, g, o = projection(torch.cat((varying, states[layer].hidden), -1)).chunk(4, -1)
                cell = f.sigmoid() * states[layer].cell + i.sigmoid() * g.tanh()
                states[layer] = LayerState(o.sigmoid() * cell.tanh(), cell)
                varying = states[layer].hidden
            return tuple(states)

        return step
