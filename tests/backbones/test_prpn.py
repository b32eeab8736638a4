"""PRPN against a loop over its equations, its published size, and what must hold of any network with a state."""

import math

import pytest
import torch

from depgen.backbones.prpn import PRPN, DeviationNorm, batch_norm_of_tokens, gated_softmax, open_slots
from tests.backbones.conftest import VOCABULARY, words

SMALL = {"embedding_size": 4, "hidden_size": 6, "slots": 3, "lookback": 2}


def small(**options):
    """A network whose running means and gains are not those it begins with."""
    torch.manual_seed(0)
    model = PRPN(VOCABULARY, **{**SMALL, **options})
    with torch.no_grad():
        model.embedding.weight.normal_()
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if "norm" in name and tensor.is_floating_point():
                tensor.uniform_(0.5, 1.5)
    return model.eval()


# -- the equations, one number at a time --------------------------------------------------------------------------


def sigmoid(value):
    return 1 / (1 + math.exp(-value)) if value > -700 else 0.0


def linear(layer, vector):
    rows = zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
    return [bias + sum(w * x for w, x in zip(row, vector, strict=True)) for row, bias in rows]


def batch_norm(layer, vector):
    columns = (each.tolist() for each in (layer.running_mean, layer.running_var, layer.weight, layer.bias))
    return [(x - m) / math.sqrt(v + 1e-5) * w + b for x, m, v, w, b in zip(vector, *columns, strict=True)]


def deviation_norm(layer, vector):
    mean = sum(vector) / len(vector)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in vector) / (len(vector) - 1))
    gains = zip(vector, layer.gain.tolist(), layer.bias.tolist(), strict=True)
    return [gain * (x - mean) / (deviation + 1e-6) + bias for x, gain, bias in gains]


def attend(scores, gates, vectors):
    largest = max(scores)
    weights = [g * math.exp(e - largest) for g, e in zip(gates, scores, strict=True)]
    total = sum(weights) + 1e-8
    return [
        sum(w / total * vector[n] for w, vector in zip(weights, vectors, strict=True)) for n in range(len(vectors[0]))
    ]


def literal(model, tokens, *, hard):
    """Hidden states and distances of one text."""
    embedded, parsing, slots, size = model.embedding.weight.tolist(), model.parsing, model.slots, model.parsing.size
    zero, tau = [0.0] * size, 0.3

    def alpha(now, then):
        if then == math.inf:
            return 0.0
        reach = (now - then) / tau
        return min(1.0, max(0.0, reach + 1)) if hard else sigmoid(10 * reach + 5)

    def dot(one, other):
        return sum(a * b for a, b in zip(one, other, strict=True))

    distances, memory = [], [[] for _ in model.reading]  # of each layer: pairs, oldest first
    states = []
    for t, token in enumerate(tokens):
        window = [embedded[tokens[s]] if s >= 0 else [0.0] * model.width for s in range(t - parsing.lookback, t + 1)]
        units = [
            bias + sum(dot([row[j] for row in kernel], vector) for j, vector in enumerate(window))
            for kernel, bias in zip(parsing.window.weight.tolist(), parsing.window.bias.tolist(), strict=True)
        ]
        units = [max(0.0, value) for value in batch_norm(parsing.normalize, units)]
        rows, biases = parsing.distance.weight[..., 0].tolist(), parsing.distance.bias.tolist()
        distances.append(sigmoid(biases[0] + dot(rows[0], units[: size // 2])))
        following = sigmoid(biases[1] + dot(rows[1], units[size // 2 :]))
        past = [distances[t - k] if t >= k else math.inf for k in range(slots)]
        gates = [math.prod(alpha(distances[t], past[j]) for j in range(k + 1)) for k in range(slots)]
        gates_of_next = [math.prod(alpha(following, past[j]) for j in range(k + 1)) for k in range(slots)]
        x = embedded[token]
        for layer, known in zip(model.reading, memory, strict=True):
            held = [known[-1 - k] if k < len(known) else (zero, zero) for k in range(slots)]
            key = linear(layer.key, [*x, *held[0][0]])
            scores = [dot(hidden, key) / math.sqrt(size) for hidden, _ in held]
            found, found_cell = (attend(scores, gates, list(column)) for column in zip(*held, strict=True))
            read = deviation_norm(layer.input_norm, linear(layer.input_gates, x))
            recurrent = deviation_norm(layer.recurrent_norm, linear(layer.recurrent_gates, found))
            z = [a + b for a, b in zip(read, recurrent, strict=True)]
            i, f, g, o = (z[part * size : (part + 1) * size] for part in range(4))
            cell = [sigmoid(f[n]) * found_cell[n] + sigmoid(i[n]) * math.tanh(g[n]) for n in range(size)]
            x = [sigmoid(o[n]) * math.tanh(value) for n, value in enumerate(deviation_norm(layer.cell_norm, cell))]
            known.append((x, cell))
        held = [memory[-1][-2 - k][0] if k + 1 < len(memory[-1]) else zero for k in range(slots)]
        key = linear(model.prediction.key, x)
        found = attend([dot(hidden, key) / math.sqrt(size) for hidden in held], gates_of_next, held)
        output = batch_norm(model.prediction.normalize, linear(model.prediction.output, [*x, *found]))
        states.append([math.tanh(value) for value in output])
    return torch.tensor(states, dtype=torch.float64), torch.tensor(distances, dtype=torch.float64)


@pytest.mark.parametrize("hard", [True, False])
def test_it_is_its_equations(hard):
    model = small(hard=hard, resolution=0.3).double()
    tokens = words(1, 9)
    with torch.no_grad():
        output, distances = model(tokens).undropped[0], model.syntactic_distances(tokens)[0, 0]
        expected, expected_distances = literal(model, tokens[0].tolist(), hard=hard)
        gates = open_slots(
            distances[None], torch.cat((torch.full((3,), torch.inf), distances))[None], slots=3,
            resolution=0.3, hard=hard,
        )  # fmt: skip
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(distances, expected_distances, rtol=0, atol=1e-10)
    assert ((gates > 0.01) & (gates < 0.99)).any()  # some are neither open nor closed


def test_the_published_size():
    count = sum(each.numel() for each in PRPN(10_000).parameters())
    parsing = 1200 * (6 * 800 + 1) + 2 * 1200 + 2 * 601
    layers = sum(4800 * (before + 1 + 1200 + 1 + 4) + 2400 + 1200 * (before + 1200 + 1) for before in (800, 1200))
    prediction = 1200 * 1201 + 800 * 2401 + 2 * 800
    assert count == 10_000 * 800 + parsing + layers + prediction + 10_000 == 43_603_202  # 43.6 M


# -- state, padding, order ----------------------------------------------------------------------------------------


def test_training_statistics_are_those_of_tokens():
    dry = {"dropout": 0.0, "inner_dropout": 0.0, "memory_dropout": 0.0}
    tokens = words(3, 6)
    padding = torch.zeros(3, 6, dtype=torch.bool)
    padding[1, 4:] = padding[2, :3] = True
    changed = torch.where(padding, (tokens + 3) % VOCABULARY, tokens)
    first, second = small(**dry).train(), small(**dry).train()
    assert torch.equal(first(tokens, padding=padding).hidden, second(changed, padding=padding).hidden)
    for one, other in zip(first.buffers(), second.buffers(), strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(first.parsing.normalize.running_mean, small(**dry).parsing.normalize.running_mean)


def test_every_parameter_gets_the_gradient_of_its_own_loss():
    """Against finite differences, through two carried segments."""
    model, tokens = small(hard=False, layers=1).double(), words(2, 5)

    def loss():
        first = model(tokens[:, :3], carry=True)
        return model(tokens[:, 3:], state=first.state).hidden.square().sum() + first.hidden.sum()

    loss().backward()
    for name, parameter in model.named_parameters():
        if name == "bias":
            continue
        flat, gradient = parameter.data.view(-1), parameter.grad.view(-1)
        place = gradient.abs().argmax()
        before = flat[place].item()
        flat[place] = before + 1e-5
        above = loss().item()
        flat[place] = before - 1e-5
        below = loss().item()
        flat[place] = before
        assert gradient[place].item() == pytest.approx((above - below) / 2e-5, rel=1e-5, abs=1e-8), name


def test_mixed_precision_leaves_distances_sharp():
    model, tokens = small(), words(4, 9)
    exact = model.syntactic_distances(tokens)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = model.syntactic_distances(tokens)
        model(tokens).hidden.float().sum().backward()
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixed, exact, rtol=0, atol=0.01)
    assert len(mixed.unique()) == len(exact.unique())
    assert all(each.grad.isfinite().all() for name, each in model.named_parameters() if name != "bias")


# -- gates and normalisations -----------------------------------------------------------------------------------------


def test_slots_from_before_a_text_are_closed():
    known = torch.cat((torch.full((1, 2), torch.inf), torch.ones(1, 4)), 1)
    gates = open_slots(torch.ones(1, 4), known, slots=2, resolution=0.1, hard=True)
    assert gates.tolist() == [[[0, 1], [1, 1], [1, 1], [1, 1]]]  # oldest slot first


def test_closed_slots_return_nothing():
    assert not gated_softmax(torch.randn(4, 3), torch.zeros(4, 3)).any()


def test_a_deviation_norm_is_its_formula_and_so_is_its_gradient():
    torch.manual_seed(0)
    norm = DeviationNorm(5).double()
    with torch.no_grad():
        norm.gain.normal_()
        norm.bias.normal_()
    values = (1e-3 * torch.randn(4, 3, 5)).double().requires_grad_()  # small, so that 1e-6 tells
    direction = torch.randn(4, 3, 5).double()

    def formula(x):
        return norm.gain * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + norm.bias

    torch.testing.assert_close(norm(values), formula(values), rtol=1e-12, atol=1e-12)
    gradients = [torch.autograd.grad((each(values) * direction).sum(), values)[0] for each in (norm, formula)]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-9)


def test_equal_values_become_the_bias():
    norm = DeviationNorm(4)
    values = torch.full((2, 4), 3.0, requires_grad=True)
    norm(values).sum().backward()
    assert torch.equal(norm(values), norm.bias.expand(2, 4))
    assert values.grad.isfinite().all()


def test_batch_statistics_are_those_of_tokens():
    torch.manual_seed(0)
    layer, values, kept = torch.nn.BatchNorm1d(3), torch.randn(2, 4, 3), torch.rand(2, 4) < 0.6
    found = batch_norm_of_tokens(layer, values, kept.flatten().nonzero()[:, 0])
    tokens = values[kept]
    expected = (tokens - tokens.mean(0)) / (tokens.var(0, unbiased=False) + 1e-5).sqrt()
    torch.testing.assert_close(found[kept], expected)
    assert not found[~kept].any()
    whole = batch_norm_of_tokens(layer, values, None)
    torch.testing.assert_close(whole.flatten(0, 1).mean(0), torch.zeros(3), rtol=0, atol=1e-6)
