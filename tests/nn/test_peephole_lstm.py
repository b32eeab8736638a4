"""The cell of 2015 against a scalar loop of its five equations, and what follows from them."""

import math

import pytest
import torch

from depgen.nn.peephole_lstm import LayerState, PeepholeLayer


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def scalar_loop(layer, inputs, constant, state):
    """Hidden and cell states of one sequence, number by number."""
    size = layer.size
    weight = {name: parameter.tolist() for name, parameter in layer.named_parameters()}
    h, c = ([0.0] * size, [0.0] * size) if state is None else state
    hiddens, cells = [], []

    def dot(row, vector):
        return sum(a * b for a, b in zip(row, vector, strict=True))

    for step, x in enumerate(inputs):

        def gate(number, k, x=x, h=h):
            row = number * size + k
            total = weight["bias"][row] + dot(weight["input_weight"][row], x) + dot(weight["hidden_weight"][row], h)
            return total + (dot(weight["constant_weight"][row], constant) if constant is not None else 0.0)

        i = [sigmoid(gate(0, k) + dot(weight["peephole"][size + k], c)) for k in range(size)]
        w = [math.tanh(gate(1, k)) for k in range(size)]
        new = [(1 - i[k]) * c[k] + i[k] * w[k] for k in range(size)]
        seen = step > 0 or state is not None
        o = [sigmoid(gate(2, k) + (dot(weight["peephole"][k], new) if seen else 0.0)) for k in range(size)]
        h, c = [o[k] * math.tanh(new[k]) for k in range(size)], new
        hiddens.append(h)
        cells.append(c)
    return hiddens, cells


@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize("constant_size", [0, 2])
def test_it_is_the_scalar_loop(with_state, constant_size):
    torch.manual_seed(1)
    layer = PeepholeLayer(3, 4, constant_size=constant_size).double()
    inputs = torch.randn(2, 5, 3, dtype=torch.double)
    constant = torch.randn(2, constant_size, dtype=torch.double) if constant_size else None
    state = LayerState(*torch.randn(2, 2, 4, dtype=torch.double)) if with_state else None
    hidden, cell = layer(inputs, constant=constant, state=state)
    for row in range(2):
        expected = scalar_loop(
            layer, inputs[row].tolist(), None if constant is None else constant[row].tolist(),
            None if state is None else (state.hidden[row].tolist(), state.cell[row].tolist()),
        )  # fmt: skip
        torch.testing.assert_close(hidden[row], torch.tensor(expected[0], dtype=torch.double), rtol=0, atol=1e-12)
        torch.testing.assert_close(cell[row], torch.tensor(expected[1], dtype=torch.double), rtol=0, atol=1e-12)


def test_it_begins_within_the_published_bounds():
    torch.manual_seed(4)
    layer = PeepholeLayer(30, 20, constant_size=10)
    bounds = {
        "input_weight": math.sqrt(6 / 60), "constant_weight": math.sqrt(6 / 60), "hidden_weight": math.sqrt(6 / 40),
        "peephole": math.sqrt(6 / 40), "bias": math.sqrt(6 / 20),
    }  # fmt: skip
    for name, parameter in layer.named_parameters():
        assert 0.9 * bounds[name] < parameter.abs().max().item() <= bounds[name], name
