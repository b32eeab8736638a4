"""PRPN against a loop over its equations, its published size, and what must hold of any network with a state."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from depgen.backbones.prpn import PRPN, open_slots
from depgen.data.batch import ItemBatch, TokenItem, collate_tokens
from depgen.errors import UserError
from depgen.models.causal_lm import CausalLM
from tests.backbones.conftest import VOCABULARY, words
from tests.models.conftest import items
from tests.vocabularies import NO_WORDS

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


def literal(model, tokens, *, hard, equal):
    """Hidden states and distances of one text."""
    embedded, parsing, slots, size = model.embedding.weight.tolist(), model.parsing, model.slots, model.parsing.size
    zero, tau = [0.0] * size, 0.3

    def alpha(now, then):
        if then == math.inf:
            return 0.0
        reach = (now - then) / tau
        return min(1.0, max(0.0, reach + equal)) if hard else sigmoid(10 * reach + 10 * equal - 5)

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


@pytest.mark.parametrize(("hard", "equal"), [(True, 1.0), (True, 0.5), (False, 1.0)])
def test_it_is_its_equations(hard, equal):
    model = small(hard=hard, equal_gate=equal, resolution=0.3).double()
    tokens = words(1, 9)
    with torch.no_grad():
        output, distances = model(tokens).undropped[0], model.syntactic_distances(tokens)[0, 0]
        expected, expected_distances = literal(model, tokens[0].tolist(), hard=hard, equal=equal)
        gates = open_slots(
            distances[None], torch.cat((torch.full((3,), torch.inf), distances))[None], slots=3,
            resolution=0.3, hard=hard, equal_gate=equal,
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


def test_dropout_moves_training_alone():
    model, tokens = small(), words(2, 6)
    assert torch.equal(model(tokens).hidden, model(tokens).hidden)
    model.train()
    assert not torch.equal(model(tokens).undropped, model(tokens).undropped)
    every = {"dropout": 0.0, "inner_dropout": 0.0, "memory_dropout": 0.0}
    for name in every:
        model = small(**{**every, name: 0.5}).train()
        assert not torch.equal(model(tokens).hidden, model(tokens).hidden), name


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


# -- as the backbone of a language model --------------------------------------------------------------------------


def test_a_language_model_is_trained_without_padding():
    dry = {"dropout": 0.0, "inner_dropout": 0.0, "memory_dropout": 0.0}
    torch.manual_seed(0)
    model = CausalLM(partial(PRPN, **SMALL, **dry), 13).train()
    batch = collate_tokens(items(0, 1, 2))
    changed = replace(batch, inputs=torch.where(batch.is_word, batch.inputs, 5))
    assert torch.equal(model.encode(batch).hidden, model.encode(changed).hidden)


@pytest.mark.slow
def test_it_learns_a_few_sentences_by_heart():
    torch.manual_seed(0)
    options = {"embedding_size": 24, "hidden_size": 32, "dropout": 0.0, "inner_dropout": 0.0, "memory_dropout": 0.0}
    model = CausalLM(partial(PRPN, **options), 13)
    texts = [torch.randint(1, 13, (6,)).int().numpy() for _ in range(8)]
    batch = collate_tokens(ItemBatch([TokenItem(k, ids) for k, ids in enumerate(texts)], 56, NO_WORDS))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        loss = -model.log_probs(batch).mean()
        loss.backward()
        optimizer.step()
    first_words = math.log(8) / 7  # all begin alike
    assert loss.item() < first_words + 0.1


def test_what_it_has_not_is_refused():
    with pytest.raises(ValueError, match="PRPN has none"):
        small()(words(1, 2), attention_layer=-1)
    with pytest.raises(UserError, match=r"even hidden_size, found .* hidden_size: 7"):
        small(hidden_size=7)
