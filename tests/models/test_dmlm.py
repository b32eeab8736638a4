"""The mixture and its losses against literal versions of the equations; causality, invariance, generation, learning."""

import math
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.backbones.awd_lstm import AWDLSTM
from depgen.backbones.on_lstm import ONLSTM
from depgen.data.batch import ItemBatch, TokenItem
from depgen.data.stream import Segments, StreamColumns
from depgen.errors import UserError
from depgen.models.causal_lm import CausalLM
from depgen.models.dmlm import (
    DMLM,
    DependencyCollate,
    QueryKeyAttention,
    dependency_nll,
    future_dependents,
    log_dependency_attention,
    mixture_log_probs,
    pooled_log_probs,
)
from depgen.training.activation import ActivationRegularizer
from tests.benchmarks.figures import peak_memory
from tests.invented_tables import split_of
from tests.models.conftest import SENTENCES, VOCABULARY, items
from tests.oracles import dense_mixture, future_dependents_by_loop
from tests.trees.trees import head_lists
from tests.vocabularies import NO_WORDS

WORDS = ["red", "figures", "on", "the", "screen", "indicate", "falling", "stocks", "."]


def by_position(heads):
    offsets, targets = future_dependents(heads)
    assert (offsets.dtype, targets.dtype) == (np.int64, np.int32)
    return [targets[start:end].tolist() for start, end in pairwise(offsets)]


@given(head_lists(min_size=0), st.sets(st.integers(0, 11)))
def test_equals_the_future_dependents_by_loop(heads, unannotated):
    heads = [-1 if index in unannotated else head for index, head in enumerate(heads)]
    assert by_position(heads) == future_dependents_by_loop(heads)


@pytest.mark.parametrize(
    ("heads", "figures", "on"),
    [
        ([2, 6, 2, 5, 3, 0, 8, 6, 6], ["on", "indicate"], ["screen"]),  # Stanford basic
        ([2, 6, 5, 5, 2, 0, 8, 6, 6], ["screen", "indicate"], ["screen"]),  # Universal Dependencies, Figure 1
    ],
)
def test_the_sentence_of_the_papers_figure_1(heads, figures, on):
    found = [[[*WORDS, "<eos>"][target - 1] for target in targets] for targets in by_position(heads)]
    assert found == [
        ["indicate"],
        ["figures"],
        figures,
        on,
        ["screen"],
        [],
        ["stocks", "."],
        ["stocks"],
        [],
        ["<eos>"],
    ]


@pytest.mark.parametrize("heads", [[1], [0, 4], [0, 3, 3]])
def test_refuses_what_is_no_tree(heads):
    with pytest.raises(UserError, match="Expected a tree over"):
        future_dependents(heads)


def causal_attention(batch, heads, length, dtype=torch.float64):
    scores = torch.randn(batch, heads, length, length, dtype=dtype)
    return scores.masked_fill(torch.ones(length, length).triu(1).bool(), -math.inf).log_softmax(-1)


@pytest.fixture
def model(backbone):
    torch.manual_seed(0)
    return DMLM(backbone, VOCABULARY, dependency_modeling_share=0.5).eval()


# -- collate ----------------------------------------------------------------------------------------------------------


def as_sets(batch):
    dependents, width = batch.dependents, batch.inputs.shape[1]
    rows = [dependents.ids[dependents.positions == k].tolist() for k in range(batch.inputs.numel())]
    return [rows[i : i + width] for i in range(0, len(rows), width)]


def test_dependents_of_the_papers_sentence():
    batch = DependencyCollate()(items(0))
    red, figures, on, screen, indicate, stocks, stop, end = 2, 3, 4, 6, 7, 9, 10, 0
    expected = [[indicate], [figures], [on, indicate], [screen], [screen], [], [stocks, stop], [stocks], [], [end]]
    assert as_sets(batch)[0] == [sorted(words) for words in expected]
    assert red not in batch.dependents.ids


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_dependents_equal_the_literal_loop(data):
    chosen = []
    for _ in range(data.draw(st.integers(1, 3))):
        n = data.draw(st.integers(0, 7))
        heads = [data.draw(st.sampled_from([h for h in range(n + 1) if h != w])) for w in range(1, n + 1)]
        ids = data.draw(st.lists(st.integers(1, 5), min_size=n, max_size=n))
        chosen.append((ids, heads))
    batch = ItemBatch(
        [TokenItem(k, np.array(i, int), np.array(h, int)) for k, (i, h) in enumerate(chosen)], 1, NO_WORDS
    )
    for (ids, heads), sets in zip(chosen, as_sets(DependencyCollate()(batch)), strict=True):
        literal = future_dependents_by_loop(heads)
        expected = [sorted({(*ids, 0)[target - 1] for target in targets}) for targets in literal]
        assert [sorted(s) for s in sets] == expected + [[]] * (len(sets) - len(expected))


# -- losses -----------------------------------------------------------------------------------------------------------


def test_dependency_loss_equals_eq_1_summed_over_the_sets():
    torch.manual_seed(0)
    batch = DependencyCollate()(items(0, 1, 2, 3))
    hidden = torch.randn(*batch.inputs.shape, 4, dtype=torch.float64)
    weight, bias = torch.randn(VOCABULARY, 4).double(), torch.randn(VOCABULARY).double()
    p_dep = torch.softmax(hidden @ weight.T + bias, -1)
    expected = -sum(
        p_dep[b, t, word].log()
        for b, (ids, heads) in enumerate(SENTENCES)
        for t, targets in enumerate(future_dependents_by_loop(heads))
        for word in {(*ids, 0)[target - 1] for target in targets}
    )
    torch.testing.assert_close(dependency_nll(hidden, weight, bias, batch.dependents), expected)


@pytest.mark.parametrize("with_bias", [True, False])
def test_mixture_and_its_gradients_equal_eq_3(with_bias):
    """Gradients of states, words and attention."""
    torch.manual_seed(1)
    hidden = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(7, dtype=torch.float64, requires_grad=True) if with_bias else None
    raw = torch.randn(2, 3, 5, 5, dtype=torch.float64, requires_grad=True)
    scores = raw.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf)
    targets = torch.randint(7, (2, 5))
    inputs = [x for x in (hidden, weight, bias, raw) if x is not None]
    dense = dense_mixture(scores.softmax(-1).mean(1), hidden, weight, bias).gather(-1, targets[..., None])[..., 0].log()
    found = mixture_log_probs(log_dependency_attention(scores.log_softmax(-1)), hidden, weight, bias, targets)
    torch.testing.assert_close(found, dense)
    gradients = (torch.autograd.grad(each.sum(), inputs, retain_graph=True) for each in (found, dense))
    for ours, literal in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, literal)


def test_mixing_logits_pools_the_logits():
    torch.manual_seed(3)
    hidden, weight, bias = torch.randn(2, 4, 3).double(), torch.randn(6, 3).double(), torch.randn(6).double()
    attention = log_dependency_attention(causal_attention(2, 2, 4))
    targets = torch.randint(6, (2, 4))
    logits = attention.exp() @ (hidden @ weight.T + bias)
    expected = logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0]
    torch.testing.assert_close(pooled_log_probs(attention, hidden, weight, bias, targets), expected)


@pytest.mark.parametrize("window", [1, 2, 5])
def test_a_window_renormalises_over_the_last_positions(window):
    torch.manual_seed(4)
    log_probs = causal_attention(1, 2, 5)
    mean = log_probs.exp().mean(1)
    keep = torch.ones(5, 5).tril().bool() & torch.ones(5, 5).triu(1 - window).bool()
    expected = (mean * keep) / (mean * keep).sum(-1, keepdim=True)
    found = log_dependency_attention(log_probs, window=window)
    torch.testing.assert_close(found.exp(), expected)


# -- the system -------------------------------------------------------------------------------------------------------


def test_no_share_leaves_the_first_phase_out(backbone):
    model = DMLM(backbone, VOCABULARY, dependency_modeling_share=0.0)
    assert [phase.name for phase in model.phases] == ["language_modeling"]
    assert not model.models_dependencies


def test_a_row_of_the_attention_picture_is_a_distribution_over_what_stands_before(model):
    picture = model.dependency_attention([2, 3, 4, 5])
    torch.testing.assert_close(picture.sum(-1), torch.ones(4))
    assert not picture.triu(1).any()


# -- Eq. 2 -------------------------------------------------------------------------------------------------------------


def literal(attention, hidden, padding, window):
    """Weights of every position by the formula, one dot product at a time."""
    batch, length, width = hidden.shape
    weights = torch.zeros(batch, length, length, dtype=hidden.dtype)
    for row in range(batch):
        for t in range(length):
            seen = [
                tau
                for tau in range(t + 1)
                if tau == t or (not padding[row, tau] and (window is None or t - tau < window))
            ]
            query = attention.query.weight @ hidden[row, t] + attention.query.bias
            keys = [attention.key.weight @ hidden[row, tau] + attention.key.bias for tau in seen]
            exponentials = [math.exp((query @ key).item() / math.sqrt(width)) for key in keys]
            for tau, value in zip(seen, exponentials, strict=True):
                weights[row, t, tau] = value / sum(exponentials)
    return weights


@pytest.fixture
def attention():
    torch.manual_seed(0)
    module = QueryKeyAttention(4).double()
    torch.nn.init.normal_(module.query.bias)
    torch.nn.init.normal_(module.key.bias)
    return module


@pytest.mark.parametrize("window", [None, 1, 3])
def test_weights_are_those_of_eq_2(attention, window):
    hidden, padding = torch.randn(2, 6, 4).double() * 3, torch.zeros(2, 6, dtype=torch.bool)
    padding[1, :2] = True
    found, _ = attention(hidden, padding=padding, window=window)
    torch.testing.assert_close(found.exp(), literal(attention, hidden, padding, window))


def test_a_window_keeps_no_more_keys_than_it_needs(attention):
    _, seen = attention(torch.randn(1, 9, 4).double(), window=2)
    assert len(seen.keys) == len(seen.padding) == 2


# -- over a network without attention of its own ----------------------------------------------------------------------


RECURRENT = partial(AWDLSTM, embedding_size=6, hidden_size=8)


def over_lstm(**options):
    torch.manual_seed(0)
    return DMLM(RECURRENT, VOCABULARY, attention=QueryKeyAttention, **options).eval()


def test_dm_lstm_has_the_published_size():
    model = DMLM(AWDLSTM, 10_001, attention=QueryKeyAttention)
    assert sum(each.numel() for each in model.parameters()) == 24_222_001 + 2 * (400**2 + 400)  # 24.54 M


def test_its_mixture_is_eq_3_with_the_weights_of_eq_2():
    model, batch = over_lstm(window=3), DependencyCollate()(items(0, 1))
    output = model.backbone(batch.inputs)
    weights, _ = model.attention(output.undropped, window=3)
    dense = dense_mixture(weights.exp(), output.hidden, model.backbone.output_weight, model.backbone.output_bias)
    expected = dense.gather(-1, batch.targets[..., None])[..., 0].log()
    torch.testing.assert_close(model.log_probs(batch), expected)


@pytest.mark.parametrize("space", ["probability", "logit"])
@pytest.mark.parametrize("window", [None, 1, 3])
def test_its_steps_are_those_of_teacher_forcing(space, window):
    model, batch = over_lstm(window=window, mixture_space=space), DependencyCollate()(items(0, 1))
    with torch.no_grad():
        taught = model.log_probs(batch)
        log_probs, state = model.generation_step(batch.inputs[:, :4], None, None)  # a prompt of four, then one by one
        stepwise = [log_probs]
        for t in range(4, batch.inputs.shape[1]):
            log_probs, state = model.generation_step(batch.inputs[:, t : t + 1], None, state)
            stepwise.append(log_probs)
            assert window is None or len(state.components) == len(state.keys.keys) == min(window, t + 1)
    found = torch.stack(stepwise, 1).gather(-1, batch.targets[:, 3:, None])[..., 0]
    torch.testing.assert_close(found[batch.is_word[:, 3:]], taught[:, 3:][batch.is_word[:, 3:]], rtol=1e-4, atol=1e-5)


def test_its_predictions_are_the_distances_of_its_network():
    model = DMLM(partial(ONLSTM, embedding_size=4, hidden_size=6, chunk_size=2, layers=2), VOCABULARY,
                 attention=QueryKeyAttention).eval()  # fmt: skip
    batch = DependencyCollate()(items(0))
    expected = model.backbone.syntactic_distances(batch.inputs)[:, :, 1:]
    torch.testing.assert_close(model.predict_step(batch, 0), expected)
    with pytest.raises(UserError, match="no syntactic distances"):
        over_lstm().predict_step(batch, 0)


def test_phase_1_leaves_what_weighs_the_mixture_alone():
    model, batch = over_lstm().train(), DependencyCollate()(items(0, 1))
    held = {id(each) for each in model.attention.parameters()}
    model._dependency_nll(model.encode(batch), batch).backward()
    assert all(not each.grad.any() for each in model.attention.parameters())
    for phase, trained in ((0, False), (1, True)):
        model.enter_phase(phase)
        groups = model.configure_optimizers().param_groups
        assert any(id(each) in held for group in groups for each in group["params"]) is trained


def mixture_gradients(length, window):
    """A mixture's loss over 5,000 words and its gradients, as a call that computes them."""
    torch.manual_seed(0)
    hidden, weight = torch.randn(1, length, 4, requires_grad=True), torch.randn(5000, 4, requires_grad=True)
    attention, targets = causal_attention(1, 1, length).float(), torch.randint(5000, (1, length))

    def compute():
        log_attention = log_dependency_attention(attention, window=window)
        mixture_log_probs(log_attention, hidden, weight, None, targets).sum().backward()

    return compute


@pytest.mark.parametrize("window", [None, 16])
def test_no_step_holds_a_vocabulary_for_each_pair_of_positions(window):
    short, long = (peak_memory(mixture_gradients(length, window)) for length in (64, 256))
    assert long < 4.5 * short  # four times the positions
    assert long < 256 * 5000 * 256 * 4 / 20


# -- in a stream ------------------------------------------------------------------------------------------------------


def stream(bptt):
    """Two columns of a stream of 40 positions, as batches with dependents."""
    ids = np.arange(36, dtype=np.int32) % 11 + 2
    heads = np.tile(np.arange(9, dtype=np.int32), 4)  # each word hangs on the one before it
    data = StreamColumns(split_of(ids, np.arange(0, 37, 9), NO_WORDS, heads=heads), 2)
    return [DependencyCollate()(data.__getitems__(segment)) for segment in Segments(data, bptt, vary=False)]


@pytest.mark.parametrize("window", [None, 3])
def test_the_regulariser_is_added_in_both_phases(window):
    model, batch = over_lstm(window=window, regularizer=ActivationRegularizer(3.0, 0.5)), stream(20)[0]
    logged = {}
    model.log_train = lambda nll, tokens, *, name="loss": logged.setdefault(name, nll / tokens)
    for phase, name in ((0, "dependency_loss"), (1, "loss")):
        model.enter_phase(phase)
        loss = model.training_step(batch, 0)
        hidden = model.backbone(batch.inputs).undropped
        steps = hidden[:, 1:] - hidden[:, :-1]
        penalty = 3 * hidden.square().mean() + 0.5 * steps.square().mean()
        torch.testing.assert_close(loss - logged[name], penalty)


# -- refusals ---------------------------------------------------------------------------------------------------------


def collated(*heads):
    return DependencyCollate()(
        ItemBatch([TokenItem(k, np.array([1, 2]), None if h is None else np.array(h)) for k, h in enumerate(heads)], 1,
                  NO_WORDS)
    )  # fmt: skip


@pytest.mark.parametrize(("act", "said"), [
    (lambda transformer: collated([2, 0], [-1, -1]), "a tree of every sentence, but the annotator leaves some out"),
    (lambda transformer: DMLM(transformer, VOCABULARY).training_step(collated(None), 0), "annotator"),
    (lambda transformer: DMLM(transformer, VOCABULARY, attention_layer=7), "layer 7"),
    (lambda transformer: DMLM(RECURRENT, VOCABULARY), r"AWDLSTM has no self-attention.*QueryKeyAttention"),
    (lambda transformer: DMLM(transformer, VOCABULARY, window=0), "window must hold at least"),
    (lambda transformer: CausalLM(transformer, VOCABULARY).log_probs(stream(6)[0]), "carries no state.*TextData"),
])  # fmt: skip
def test_what_does_not_go_together_is_refused(act, said, transformer):
    with pytest.raises(UserError, match=said):
        act(transformer)
