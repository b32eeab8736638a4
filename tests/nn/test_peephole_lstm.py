"""The cell of 2015 against a scalar loop of its five equations, and what follows from them."""

import math

import pytest
import torch

from depgen.nn.peephole_lstm import LayerState, PeepholeLayer, PeepholeLSTM, StandardLSTM


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


def test_its_gradients_are_those_of_finite_differences():
    torch.manual_seed(2)
    layer = PeepholeLayer(2, 3, constant_size=2).double()
    given = [torch.randn(2, 3, 2), torch.randn(2, 2), torch.randn(2, 3), torch.randn(2, 3)]
    given = [each.double().requires_grad_() for each in given]
    names, parameters = zip(*layer.named_parameters(), strict=True)

    def run(inputs, constant, hidden, cell, *weights):
        state = LayerState(hidden, cell)
        options = {"constant": constant, "state": state}
        return torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), (inputs,), options)

    assert torch.autograd.gradcheck(run, (*given, *(each.detach().requires_grad_() for each in parameters)))


@pytest.mark.parametrize("lstm", [PeepholeLSTM, StandardLSTM])
def test_inputs_whose_ends_depend_on_the_steps_before(lstm):
    """Hidden states, and gradients of everything, are those of calls of one step each."""
    torch.manual_seed(4)
    layers = lstm(5, 4, layers=2).double()
    known = torch.randn(3, 6, 3, dtype=torch.double, requires_grad=True)
    step, state, found, expected = (
        layers.by_steps(known),
        None,
        [torch.ones(3, 4).double()],
        [torch.ones(3, 4).double()],
    )
    for word in known.unbind(1):
        found.append(step(found[-1][:, 1:3] * 2)[-1].hidden)
        hidden, state = layers(torch.cat((word, expected[-1][:, 1:3] * 2), -1)[:, None], state=state)
        expected.append(hidden[:, 0])
    weights = torch.randn(7, 3, 4, dtype=torch.double)
    sums = [(torch.stack(each) * weights).sum() for each in (found, expected)]
    torch.testing.assert_close(torch.stack(found), torch.stack(expected), rtol=0, atol=1e-12)
    gradients = [torch.autograd.grad(each, (known, *layers.parameters())) for each in sums]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_it_begins_within_the_published_bounds():
    torch.manual_seed(4)
    layer = PeepholeLayer(30, 20, constant_size=10)
    bounds = {
        "input_weight": math.sqrt(6 / 60), "constant_weight": math.sqrt(6 / 60), "hidden_weight": math.sqrt(6 / 40),
        "peephole": math.sqrt(6 / 40), "bias": math.sqrt(6 / 20),
    }  # fmt: skip
    for name, parameter in layer.named_parameters():
        assert 0.9 * bounds[name] < parameter.abs().max().item() <= bounds[name], name


def test_layers_stand_one_on_the_other_and_go_on_from_their_states():
    torch.manual_seed(5)
    stack = PeepholeLSTM(3, 4, layers=2, constant_size=2).double()
    inputs, constant = torch.randn(2, 6, 3, dtype=torch.double), torch.randn(2, 2, dtype=torch.double)
    whole, ends = stack(inputs, constant=constant)
    below, _ = stack.layers[0](inputs, constant=constant)
    torch.testing.assert_close(whole, stack.layers[1](below)[0], rtol=0, atol=0)
    _, state = stack(inputs[:, :2], constant=constant)
    rest, again = stack(inputs[:, 2:], constant=constant, state=state)
    torch.testing.assert_close(rest, whole[:, 2:], rtol=0, atol=1e-14)
    for first, second in zip(ends, again, strict=True):
        torch.testing.assert_close(first.cell, second.cell, rtol=0, atol=1e-14)
