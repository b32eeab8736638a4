"""ON-LSTM against a scalar loop over its equations, its published size, and what its distances mean."""

import math

import pytest
import torch

from depgen.backbones.on_lstm import ONLSTM, ONLSTMLayer
from tests.backbones.conftest import VOCABULARY, words


def literal(layer, inputs, scale):
    """Hidden states and distances of one text, one number at a time."""
    size, chunk = layer.size, layer.chunk_size
    levels = size // chunk
    hidden, cell, states, distances = [0.0] * size, [0.0] * size, [], []
    for row in inputs.tolist():
        z = []
        for k in range(layer.weight_input.size(0)):
            total = layer.bias_input[k].item() + layer.bias_recurrent[k].item()
            total += sum(w * x for w, x in zip(layer.weight_input[k].tolist(), row, strict=True))
            total += sum(scale * w * h for w, h in zip(layer.weight_recurrent[k].tolist(), hidden, strict=True))
            z.append(total)

        def steps(values):
            exponentials = [math.exp(value) for value in values]
            return [sum(exponentials[: k + 1]) / sum(exponentials) for k in range(len(values))]

        def sigmoid(value):
            return 1 / (1 + math.exp(-value))

        master_input = [1 - value for value in steps(z[:levels])]
        master_forget = steps(z[levels : 2 * levels])
        distances.append(1 - sum(master_forget) / levels)
        o, g, i, f = (z[2 * levels + part * size : 2 * levels + (part + 1) * size] for part in range(4))
        for n in range(size):
            mi, mf = master_input[n // chunk], master_forget[n // chunk]
            both = mf * mi
            cell[n] = (sigmoid(f[n]) * both + mf - both) * cell[n] + (sigmoid(i[n]) * both + mi - both) * math.tanh(
                g[n]
            )
            hidden[n] = sigmoid(o[n]) * math.tanh(cell[n])
        states.append(list(hidden))
    return torch.tensor(states, dtype=torch.float64), torch.tensor(distances, dtype=torch.float64)


def test_it_is_its_equations():
    torch.manual_seed(0)
    layer = ONLSTMLayer(3, 6, chunk_size=2, dropped=0.25).double().eval()
    inputs = torch.randn(1, 5, 3).double()
    with torch.no_grad():
        output, (hidden, _), distances = layer.run(inputs, None, None)
        expected, expected_distances = literal(layer, inputs[0], scale=0.75)
    torch.testing.assert_close(output[0], expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(hidden[0], expected[-1], rtol=0, atol=1e-10)
    torch.testing.assert_close(distances[0], expected_distances, rtol=0, atol=1e-10)


def test_the_published_size():
    count = sum(each.numel() for each in ONLSTM(10_000).parameters())
    gates = sum(
        (2 * size // 10 + 4 * size) * (before + size + 2) for before, size in ((400, 1150), (1150, 1150), (1150, 400))
    )
    assert count == 10_000 * 400 + gates + 10_000 == 25_232_180  # 25.23 M


def test_dropped_connections_are_not_rescaled():
    torch.manual_seed(0)
    layer = ONLSTMLayer(3, 60, chunk_size=2, dropped=0.3)
    weight = layer._recurrent_weight()
    dropped = weight == 0
    assert dropped.float().mean().item() == pytest.approx(0.3, abs=0.02)
    assert torch.equal(weight[~dropped], layer.weight_recurrent[~dropped])
    assert dropped[: 2 * 30].any()  # those of the master gates too
    assert torch.equal(layer.eval()._recurrent_weight(), layer.weight_recurrent * 0.7)


def test_distances_are_those_of_each_layers_gates():
    torch.manual_seed(0)
    model = ONLSTM(VOCABULARY, embedding_size=6, hidden_size=8, chunk_size=2).eval()
    tokens = words(2, 5)
    distances = model.syntactic_distances(tokens)
    assert distances.shape == (3, 2, 5)
    assert ((distances >= 0) & (distances < 1)).all()
    first = model.layers[0].run(model.embedding(tokens), None, None)[2]
    torch.testing.assert_close(distances[0], first)
    changed = tokens.clone()
    changed[:, 3] = (changed[:, 3] + 1) % VOCABULARY
    assert torch.equal(model.syntactic_distances(changed)[:, :, :3], distances[:, :, :3])
