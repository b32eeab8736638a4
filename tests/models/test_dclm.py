"""The six document-context language models against one-document loops, their sizes, and what each may look at."""

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
import torch

from depgen.models.dclm import DCLM, ContextToContext, HierarchicalContext, LayerState, PeepholeLayer, StandardLSTM
from tests.models.documents import CONTEXTS, START, batch_of
from tests.models.masked import alone

VOCABULARY, EMBEDDING, SIZE = 23, 5, 4
EOS = 0


def model(name, *, cell="cnn2015", seed=0):
    torch.manual_seed(seed)
    found = DCLM(VOCABULARY, context=partial(CONTEXTS[name], size=SIZE, cell=cell), embedding_size=EMBEDDING)
    for parameter in found.parameters():  # so that no part is too small to be seen
        torch.nn.init.normal_(parameter, std=0.7)
    return found.double().eval()


DOCUMENTS = [
    [[5, 6, 7], [8], [9, 10, 11, 12], [13, 5]],
    [[14]],
    [[7, 7], [6, 15, 16, 17, 18], [19]],
]


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


def softmaxed(found, features, word):
    return found.output(features).log_softmax(-1)[word]


def step_of_2015(layer, read, before):
    """What a word changes in a layer, gate by gate; in a sequence that begins from nothing, its first has no W_co c."""
    (xi, xc, xo), (hi, hc, ho), (bi, bc, bo) = (
        matrix.chunk(3) for matrix in (layer.input_weight, layer.hidden_weight, layer.bias)
    )
    co, ci = layer.peephole.chunk(2)
    if layer.constant_weight is not None:
        xi, xc, xo = (
            torch.cat(pair, 1) for pair in zip((xi, xc, xo), layer.constant_weight.chunk(3), strict=True)
        )  # fmt: skip
    h, c = before or (torch.zeros(layer.size).double(),) * 2
    i = torch.sigmoid(xi @ read + hi @ h + ci @ c + bi)
    w = torch.tanh(xc @ read + hc @ h + bc)
    c = (1 - i) * c + i * w
    o = torch.sigmoid(xo @ read + ho @ h + bo + (co @ c if before else 0))
    return LayerState(o * torch.tanh(c), c)


def steps(core, inputs, constant=None, state=None):
    """Hidden states of one sentence read word by word, and the states of all layers after each."""
    states = []
    for each in inputs:
        read = each if constant is None else torch.cat((each, constant))
        if isinstance(core, StandardLSTM):
            before = None if state is None else [LayerState(h[None], c[None]) for h, c in state]
            _, state = core(read[None, None], state=before)
            state = tuple(LayerState(h[0], c[0]) for h, c in state)
        else:
            after = []
            for number, layer in enumerate(core.layers):
                after.append(step_of_2015(layer, read, state and state[number]))
                read = after[-1].hidden
            state = tuple(after)
        states.append((state[-1].hidden, state))
    return states


def looked_by(state, code):
    return torch.cat([layer.hidden for layer in state]) if code else state[-1].hidden


def expected_log_probs(found, name, sentences):
    """Each sentence's log-probabilities, by the equations, one document and one word at a time."""
    net, embed = found.context, found.embedding
    result, last, carried, memory, bag_state, bag = [], None, None, [], None, None
    for ids in sentences:
        inputs, targets = embed(torch.tensor([START, *ids])), [*ids, EOS]
        first = getattr(net, "first_context", None)
        if name in ("rnnlm", "drnnlm", "codclm"):
            read = steps(net.core, inputs, state=carried if name == "drnnlm" else None)
            carried = read[-1][1]
            context = first if last is None else last
            feats = [torch.cat((h, context)) if name == "codclm" else h for h, _ in read]
            last = read[-1][0]
        elif name == "ccdclm":
            read = steps(net.core, inputs, constant=first if last is None else last)
            feats, last = [h for h, _ in read], read[-1][0]
        elif name == "hrnnlm":
            feats = [h for h, _ in steps(net.core, inputs, constant=first if bag is None else bag)]
            ((bag, bag_state),) = steps(net.sentences, [embed(torch.tensor(ids)).sum(0).detach()], state=bag_state)
            bag = bag.detach()
        else:
            code, state, feats, kept = name == "adclm code2015", None, [], []
            slots = memory if memory or code else [first]
            for word in inputs:
                look = None if state is None else looked_by(state, code)
                if slots:
                    query = 0 if look is None else net.query(look)
                    scores = torch.stack([net.weigh((net.key(m) + query).tanh())[0] for m in slots])
                    context = sum(w * m for w, m in zip(scores.softmax(0), slots, strict=True))
                else:
                    context = torch.zeros(2 * SIZE, dtype=torch.double)
                ((hidden, state),) = steps(net.core, [torch.cat((word, context))], state=state)
                own = hidden if code else net.from_hidden(hidden)
                mixed = own + net.from_context(context) + (net.from_word(word) if code else 0)
                feats.append(mixed.tanh())
                kept.append(looked_by(state, code))
            memory = [*memory, kept[-1]] if code else kept
        result.append(torch.stack([softmaxed(found, f, t) for f, t in zip(feats, targets, strict=True)]))
    return result


@pytest.mark.parametrize("cell", ["cnn2015", "standard"])
@pytest.mark.parametrize("name", CONTEXTS)
def test_a_ragged_batch_and_all_gradients_are_those_of_documents_read_word_by_word(name, cell):
    found = model(name, cell=cell)
    batch = batch_of(DOCUMENTS)
    log_probs, by_hand = found(batch), torch.zeros(())
    for row, sentences in enumerate(DOCUMENTS):
        for place, expected in enumerate(expected_log_probs(found, name, sentences)):
            here = log_probs[row, place]
            torch.testing.assert_close(here[: len(expected)], expected, rtol=0, atol=1e-12)
            assert not here[len(expected) :].any()
            by_hand = by_hand - expected.sum()
        assert not log_probs[row, len(sentences) :].any()
    output = found.encode(batch)
    loss, extra = -found._log_probs(output, batch).sum(), found.extra_nll(output, batch)
    if extra is not None:
        loss, by_hand = loss + extra, by_hand + sum(expected_bags(found, sentences) for sentences in DOCUMENTS)
    torch.testing.assert_close(loss, by_hand, rtol=0, atol=1e-10)
    expected = gradients(found, by_hand)
    for parameter, gradient in gradients(found, loss).items():
        assert gradient.any(), parameter
        torch.testing.assert_close(gradient, expected[parameter], rtol=0, atol=1e-10, msg=parameter)


def expected_bags(found, sentences, *, twice=False):
    """Nats of the words of each sentence given the ones before it, as a bag (D6)."""
    state, nll = None, 0.0
    for ids, following in pairwise(sentences):
        ((hidden, state),) = steps(
            found.context.sentences, [found.embedding(torch.tensor(ids)).sum(0).detach()], state=state
        )
        words = [following[0], *following] if twice else following
        nll = nll - found.bag_output(hidden).log_softmax(-1)[words].sum()
    return nll


def gradients(found, loss):
    found.zero_grad()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in found.named_parameters()}


def test_outputs_of_hrnnlm_without_biases():
    """As the authors' code has them (D6): the same as biases of zero."""
    found, batch = model("hrnnlm"), batch_of(DOCUMENTS)
    bare = DCLM(
        VOCABULARY, context=partial(HierarchicalContext, size=SIZE, output_bias=False), embedding_size=EMBEDDING
    )
    bare.double().load_state_dict({k: v for k, v in found.state_dict().items() if not k.endswith("output.bias")})
    with torch.no_grad():
        assert bare.output_bias is None
        for layer in (found.output, found.bag_output):
            layer.bias.zero_()
        one, other = found.encode(batch), bare.encode(batch)
        torch.testing.assert_close(found._log_probs(one, batch), bare._log_probs(other, batch), rtol=0, atol=1e-12)
        torch.testing.assert_close(found.extra_nll(one, batch), bare.extra_nll(other, batch), rtol=0, atol=1e-10)


def scores_of(found, sentences):
    with torch.no_grad():
        return found(batch_of([sentences]))[0].sum(-1)


REACH = {"rnnlm": 0, "codclm": 1, "adclm": 3, "ccdclm": 3, "drnnlm": 3, "hrnnlm": 3, "adclm code2015": 3}


@pytest.mark.parametrize(("name", "reach"), REACH.items())
def test_how_far_back_a_context_reaches(name, reach):
    found = model(name)
    assert (found.sentence_context == "none") == (reach == 0)
    document = DOCUMENTS[0]
    before = scores_of(found, document)
    for back in (1, 2, 3):
        changed = [ids if place != 3 - back else [20, 21, 22] for place, ids in enumerate(document)]
        moved = abs(float(scores_of(found, changed)[3] - before[3]))
        assert (moved > 1e-9) == (back <= reach), (back, moved)


V, K, H, A = 10_003, 16, 48, 48
PUBLISHED = {
    "rnnlm": H * (13 * H + 3 * K + 6) + V * (H + K + 1),
    "drnnlm": H * (13 * H + 3 * K + 6) + V * (H + K + 1),
    "ccdclm": H * (16 * H + 3 * K + 6) + V * (H + K + 1) + H,
    "codclm": H * (13 * H + 3 * K + 6) + V * (2 * H + K + 1) + H,
    "hrnnlm": H * (16 * H + 3 * K + 6) + V * (H + K + 1) + H + H * (13 * H + 3 * K + 6) + V * (H + 1),
    "adclm": H * (16 * H + 3 * K + 6) + 2 * H * H + H + 2 * A * H + A + V * (H + K) + H,
    "adclm code2015": H * (21 * H + 4 * K + 6 + 4 * A) + V * (H + K + 1) + A,
}


@pytest.mark.parametrize(("name", "count"), PUBLISHED.items())
def test_it_has_the_published_number_of_parameters(name, count):
    found = DCLM(V, context=partial(CONTEXTS[name], size=H), embedding_size=K)
    assert sum(parameter.numel() for parameter in found.parameters()) == count
    printed = {"rnnlm": 682_739, "ccdclm": 689_651 + 48, "codclm": 1_162_883 + 48, "hrnnlm": 1_212_390}
    assert count == {**printed, "adclm code2015": 711_203}.get(name, count)


@pytest.mark.parametrize("name", ["ccdclm", "hrnnlm"])
def test_what_it_learns_by(name):
    """Sums over segments, averaged over those of the global batch, or the mean per token; bags are learnt too."""
    found, batch = alone(model(name)), batch_of(DOCUMENTS)
    found._trainer.world_size = 2
    batch = replace(batch, global_tokens=100, global_items=8)  # another device has the rest
    with torch.no_grad():
        words = -sum(float(each.sum()) for ids in DOCUMENTS for each in expected_log_probs(found, name, ids))
        bags = sum(float(expected_bags(found, ids)) for ids in DOCUMENTS) if name == "hrnnlm" else 0.0
    found.loss_per = "segment"
    assert found.training_step(batch, 0).item() == pytest.approx((words + bags) * 2 / 8, abs=1e-9)
    found.loss_per = "token"
    assert found.training_step(batch, 0).item() == pytest.approx((words + bags) * 2 / 100, abs=1e-9)
    logged = {"train/loss": words * 2 / 100} | ({"train/extra_loss": bags * 2 / 100} if bags else {})
    assert {key: float(value) for key, value in found.logged.items()} == pytest.approx(logged)


@pytest.mark.parametrize("initialization", ["code2015", "paper"])
def test_within_which_bounds_it_begins(initialization):
    """D3: uniform within sqrt(6 / (rows + columns)); of the code's embeddings and biases, within sqrt(6 / size)."""
    torch.manual_seed(0)
    found = DCLM(300, context=partial(ContextToContext, size=20), embedding_size=30, initialization=initialization)
    code = initialization == "code2015"
    bounds = {
        "embedding.weight": 6 / 30 if code else 6 / 330,
        "output.weight": 6 / 320,
        "output.bias": 6 / 300 if code else 6 / 301,
    }
    for name, square in bounds.items():
        largest = found.get_parameter(name).abs().max().item()
        assert 0.98 * square**0.5 < largest <= square**0.5 * (1 + 1e-6), name


@pytest.mark.parametrize("twice", [False, True])
def test_hrnnlms_bags_are_the_words_of_the_next_sentence(twice):
    found = model("hrnnlm")
    found.first_word_twice = twice
    batch = batch_of(DOCUMENTS)
    with torch.no_grad():
        nll = found.extra_nll(found.encode(batch), batch)
        expected = sum(expected_bags(found, sentences, twice=twice) for sentences in DOCUMENTS)
    assert float(nll) == pytest.approx(float(expected), abs=1e-10)


def test_neither_of_hrnnlms_losses_reaches_the_other_network_whose_group_is_clipped_apart():
    found = model("hrnnlm")
    groups = [{id(parameter) for parameter in group["params"]} for group in found.parameter_groups()]
    batch = batch_of(DOCUMENTS)
    output = found.encode(batch)
    for loss, group in ((-found._log_probs(output, batch).sum(), 0), (found.extra_nll(output, batch), 1)):
        found.zero_grad()
        loss.backward(retain_graph=True)
        assert {id(parameter) for parameter in found.parameters() if parameter.grad is not None} == groups[group]
