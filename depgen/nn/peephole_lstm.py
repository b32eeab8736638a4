"""The LSTM of 2015 of document-context language models: coupled gates and full peepholes.

Ji, Cohn, Kong, Dyer & Eisenstein (2015) name an LSTM; the one of the toolkit that they used is, by its code and by the
paper's count of H(13H + 3K + 6) parameters in two layers,

    i = sigmoid(W_xi x + W_hi h' + W_ci c' + b_i)
    w = tanh(W_xc x + W_hc h' + b_c)
    c = (1 - i) c' + i w
    o = sigmoid(W_xo x + W_ho h' + W_co c + b_o)
    h = o tanh(c)

with W_ci and W_co whole matrices; the toolkit leaves out W_co c at the first step of a sequence that begins from zero.
No fused kernel computes it: what depends on the inputs alone is one product for all steps, and a step has two more.

`StandardLSTM` is torch's own LSTM with the same interface.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from depgen.nn.recurrent import RecurrentProjection, call_lstm


class LayerState(NamedTuple):
    """The hidden and cell state of a layer of an LSTM."""

    hidden: Float[Tensor, "batch size"]
    cell: Float[Tensor, "batch size"]


class PeepholeLayer(nn.Module):
    """One layer: 3 I H + 5 H^2 + 3 H parameters, with C more inputs a step 3 C H more.

    Args:
        input_size: of the input that each step has (I).
        size: of hidden and cell state (H).
        constant_size: of the input that is the same at all steps, such as a context (C); 0 for none.
    """

    def __init__(self, input_size: int, size: int, *, constant_size: int = 0) -> None:
        super().__init__()
        self.size = size
        self.input_weight = nn.Parameter(torch.empty(3 * size, input_size))
        self.constant_weight = nn.Parameter(torch.empty(3 * size, constant_size)) if constant_size else None
        self.hidden_weight = nn.Parameter(torch.empty(3 * size, size))
        self.peephole = nn.Parameter(torch.empty(2 * size, size))
        self.bias = nn.Parameter(torch.empty(3 * size))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Uniform within sqrt(6 / (rows + columns)) of each gate's matrix over all it reads; biases sqrt(6 / H)."""
        inputs = self.input_weight.shape[1]
        fan_in = inputs + (0 if self.constant_weight is None else self.constant_weight.shape[1])
        matrices = [(self.input_weight, fan_in), (self.hidden_weight, self.size), (self.peephole, self.size)]
        if self.constant_weight is not None:
            matrices.append((self.constant_weight, fan_in))
        for matrix, columns in matrices:
            matrix.uniform_(-1, 1).mul_(math.sqrt(6 / (self.size + columns)))
        self.bias.uniform_(-1, 1).mul_(math.sqrt(6 / self.size))

    def forward(
        self,
        inputs: Float[Tensor, "batch length inputs"],
        *,
        constant: Float[Tensor, "batch constants"] | None = None,
        state: LayerState | None = None,
    ) -> tuple[Float[Tensor, "batch length size"], Float[Tensor, "batch length size"]]:
        """Hidden and cell states of every step, from the last state of an earlier call or from zero."""
        additive = F.linear(inputs, self.input_weight, self.bias)
        if self.constant_weight is not None:
            assert constant is not None, "a layer with a constant input reads one"
            additive = additive + F.linear(constant, self.constant_weight)[:, None]
        steps = _LayerSteps(self, additive.transpose(0, 1).contiguous(), self.hidden_weight, state)
        states = [steps() for _ in range(inputs.shape[1])]
        return torch.stack([each.hidden for each in states], 1), torch.stack([each.cell for each in states], 1)


class _LayerSteps:
    """A layer going through a sequence from a state, or from zero: each call is a step.

    `additive` is the part of the gates that is known for all steps, `weight` that of the inputs that are given at each
    step, and of the hidden states.
    """

    def __init__(
        self,
        layer: PeepholeLayer,
        additive: Float[Tensor, "length batch gates"],
        weight: Float[Tensor, "gates varying_and_size"],
        state: LayerState | None = None,
    ) -> None:
        length, batch, _ = additive.shape
        self._from_hidden = RecurrentProjection(additive, weight)
        self._from_cell = RecurrentProjection(additive.new_zeros(length, batch, 2 * layer.size), layer.peephole)
        self._output_sees_cell = state is not None
        if state is None:
            zero = additive.new_zeros(batch, layer.size)
            self._state, self._to_input = LayerState(zero, zero), zero
        else:
            self._state, self._to_input = state, F.linear(state.cell, layer.peephole[layer.size :])  # W_ci c'

    def __call__(self, varying: Float[Tensor, "batch varying"] | None = None) -> LayerState:
        """The states of the next step."""
        before, cell = self._state
        i, w, o = self._from_hidden(before if varying is None else torch.cat((varying, before), -1)).chunk(3, -1)
        i, w = (i + self._to_input).sigmoid(), w.tanh()
        cell = torch.lerp(cell, w, i)  # (1 - i) c' + i w
        to_output, self._to_input = self._from_cell(cell).chunk(2, -1)
        if self._output_sees_cell:
            o = o + to_output
        self._output_sees_cell = True
        self._state = LayerState(o.sigmoid() * cell.tanh(), cell)
        return self._state


class PeepholeLSTM(nn.Module):
    """A stack of layers; the first also has an input of `constant_size` that stays the same through a sequence."""

    def __init__(self, input_size: int, size: int, *, layers: int, constant_size: int = 0) -> None:
        super().__init__()
        first = PeepholeLayer(input_size, size, constant_size=constant_size)
        others = (PeepholeLayer(size, size) for _ in range(layers - 1))
        self.layers = nn.ModuleList([first, *others])

    def forward(
        self,
        inputs: Float[Tensor, "batch length inputs"],
        *,
        constant: Float[Tensor, "batch constants"] | None = None,
        state: Sequence[LayerState] | None = None,
    ) -> tuple[Float[Tensor, "batch length size"], tuple[LayerState, ...]]:
        """The last layer's hidden states, and every layer's state after the last step."""
        ends, below = [], inputs
        for number, layer in enumerate(self.layers):
            hidden, cell = layer(
                below, constant=None if number else constant, state=None if state is None else state[number]
            )
            ends.append(LayerState(hidden[:, -1], cell[:, -1]))
            below = hidden
        return below, tuple(ends)

    def by_steps(
        self, known: Float[Tensor, "batch length known"]
    ) -> Callable[[Float[Tensor, "batch varying"]], tuple[LayerState, ...]]:
        """Goes through a sequence from a zero state where the end of each step's input depends on the steps before.

        The beginning of each step's input is known; a call gives its end and returns the states of all layers.
        """
        length, size = known.shape[1], known.shape[2]
        first, *others = cast(Iterable[PeepholeLayer], self.layers)
        additive = F.linear(known, first.input_weight[:, :size], first.bias).transpose(0, 1).contiguous()
        steps = [_LayerSteps(first, additive, torch.cat((first.input_weight[:, size:], first.hidden_weight), 1))]
        for layer in others:
            bias = layer.bias.to(additive.dtype).expand(length, len(known), -1)
            steps.append(_LayerSteps(layer, bias, torch.cat((layer.input_weight, layer.hidden_weight), 1)))

        def step(varying: Float[Tensor, "batch varying"]) -> tuple[LayerState, ...]:
            states = []
            for layer in steps:
                states.append(layer(varying))
                varying = states[-1].hidden
            return tuple(states)

        return step


class StandardLSTM(nn.Module):
    """The interface of `PeepholeLSTM` over `torch.nn.LSTM`, which fused kernels compute."""

    def __init__(self, input_size: int, size: int, *, layers: int, constant_size: int = 0) -> None:
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
        """See `PeepholeLSTM`; with torch's LSTM called once a step, ADCLM's training step takes 1.6 times as long."""
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
