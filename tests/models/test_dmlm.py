"""The mixture and its losses against literal versions of the equations; causality, invariance, generation, learning."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from depgen.backbones.awd_lstm import AWDLSTM
from depgen.backbones.on_lstm import ONLSTM
from depgen.data.batch import ItemBatch, TokenItem
from depgen.data.stream import Segments, StreamColumns
from depgen.decoding.settings import Sampling
from depgen.errors import UserError
from depgen.models.causal_lm import CausalLM
from depgen.models.dmlm import (
    DMLM,
    DependencyCollate,
    QueryKeyAttention,
    dependency_nll,
    log_dependency_attention,
    mixture_log_probs,
    pooled_log_probs,
)
from depgen.nn.band import matrix_of_band
from depgen.training.activation import ActivationRegularizer
from tests.invented_tables import split_of
from tests.models.conftest import SENTENCES, VOCABULARY, items
from tests.oracles import dense_mixture, future_dependents_by_loop
from tests.vocabularies import NO_WORDS


def causal_attention(batch, heads, length, dtype=torch.float64):
    scores = torch.randn(batch, heads, length, length, dtype=dtype)
    return scores.masked_fill(torch.ones(length, length).triu(1).bool(), -math.inf).log_softmax(-1)


@pytest.fixture
def model(backbone):
    torch.manual_seed(0)
    return DMLM(backbone, VOCABULARY, dependency_modeling_share=0.5).eval()


# -- collate ----------------------------------------------------------------------------------------------------------


def as_sets(batch):
    ragged, width = batch.dependents, batch.inputs.shape[1]
    rows = [ragged.ids[a:b].tolist() for a, b in zip(ragged.offsets[:-1], ragged.offsets[1:], strict=True)]
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
    root, end = data.draw(st.booleans()), data.draw(st.booleans())
    duplicates = data.draw(st.sampled_from(["set", "multiset"]))
    batch = ItemBatch(
        [TokenItem(k, np.array(i, int), np.array(h, int)) for k, (i, h) in enumerate(chosen)], 1, NO_WORDS
    )
    found = as_sets(DependencyCollate(root_target=root, eos_target=end, duplicates=duplicates)(batch))
    for (ids, heads), sets in zip(chosen, found, strict=True):
        literal = future_dependents_by_loop(heads, root_target=root, eos_target=end)
        words = [[(*ids, 0)[target - 1] for target in targets] for targets in literal]
        expected = [sorted(set(w)) if duplicates == "set" else sorted(w) for w in words]
        assert [sorted(s) for s in sets] == expected + [[]] * (len(sets) - len(expected))


def test_a_sentence_without_a_tree_is_refused():
    left = TokenItem(1, np.array([1, 2]), np.array([-1, -1]))
    with pytest.raises(UserError, match="a tree of every sentence, but the annotator leaves some out"):
        DependencyCollate()(ItemBatch([TokenItem(0, np.array([1, 2]), np.array([2, 0])), left], 1, NO_WORDS))


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
    torch.manual_seed(1)
    hidden = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(7, dtype=torch.float64, requires_grad=True) if with_bias else None
    scores = causal_attention(2, 3, 5).detach().requires_grad_()
    targets = torch.randint(7, (2, 5))
    inputs = [x for x in (hidden, weight, bias) if x is not None]

    dense = dense_mixture(scores.exp().mean(1), hidden, weight, bias).gather(-1, targets[..., None])[..., 0].log()
    found = mixture_log_probs(log_dependency_attention(scores), hidden, weight, bias, targets)
    torch.testing.assert_close(found, dense)
    for ours, literal in zip(
        torch.autograd.grad(found.sum(), inputs), torch.autograd.grad(dense.sum(), inputs), strict=True
    ):
        torch.testing.assert_close(ours, literal)


def test_gradient_reaches_the_attention_as_in_eq_3():
    torch.manual_seed(2)
    raw = torch.randn(1, 2, 4, 4, dtype=torch.float64, requires_grad=True)
    mask = torch.ones(4, 4).triu(1).bool()
    hidden, weight = torch.randn(1, 4, 3).double(), torch.randn(6, 3).double()
    targets = torch.randint(6, (1, 4))
    attention = raw.masked_fill(mask, -math.inf).log_softmax(-1)
    ours = mixture_log_probs(log_dependency_attention(attention), hidden, weight, None, targets).sum()
    literal = dense_mixture(raw.masked_fill(mask, -math.inf).softmax(-1).mean(1), hidden, weight, None)
    literal = literal.gather(-1, targets[..., None]).log().sum()
    torch.testing.assert_close(torch.autograd.grad(ours, raw)[0], torch.autograd.grad(literal, raw)[0])


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
    torch.testing.assert_close(matrix_of_band(found, 5, missing=-math.inf).exp(), expected)


@pytest.mark.parametrize("log_probs_of", [mixture_log_probs, pooled_log_probs])
@pytest.mark.parametrize("window", [1, 2, 5, 9])
def test_a_band_is_mixed_as_the_square_is(log_probs_of, window):
    torch.manual_seed(5)
    hidden, weight, bias = torch.randn(2, 5, 3).double(), torch.randn(6, 3).double(), torch.randn(6).double()
    hidden.requires_grad_()
    targets = torch.randint(6, (2, 5))
    band = log_dependency_attention(causal_attention(2, 2, 5), window=window)
    square = matrix_of_band(band, 5, missing=-math.inf)
    found = log_probs_of(band, hidden, weight, bias, targets, window=window)
    expected = log_probs_of(square, hidden, weight, bias, targets)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*(torch.autograd.grad(each.sum(), hidden) for each in (found, expected)))


# -- the system -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_thousand_texts_in_fp32_are_the_same_for_batches_of_1_and_64(transformer):
    torch.manual_seed(0)
    model = DMLM(transformer, 3000).eval()
    generator = np.random.default_rng(0)
    prompts = [generator.integers(2, 3000, generator.integers(0, 12)).tolist() for _ in range(1000)]
    options = {"vocabulary": NO_WORDS, "options": Sampling(top_p=0.5), "seeds": range(1000), "max_new_tokens": 8}
    together, alone = (model.generate(prompts, batch_size=size, **options) for size in (64, 1))
    assert [each.ids for each in together] == [each.ids for each in alone]
    assert [each.log_prob for each in together] == pytest.approx([each.log_prob for each in alone], rel=1e-5)


@pytest.mark.slow
def test_it_learns_eight_sentences_in_either_phase(transformer):
    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    rows = []
    for k in range(8):
        ids = generator.integers(2, VOCABULARY, 6)
        rows.append(TokenItem(k, ids.astype(np.int32), np.array([0, 1, 2, 3, 4, 5], dtype=np.int32)))
    batch = DependencyCollate()(ItemBatch(rows, 56, NO_WORDS))
    model = DMLM(transformer, VOCABULARY)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    first = []
    for phase in (0, 1):
        model.enter_phase(phase)
        for _ in range(200):
            if model.models_dependencies:
                loss = model._dependency_nll(model.encode(batch), batch) / batch.global_tokens
            else:
                loss = -model.log_probs(batch)[batch.is_word].mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        first.append(loss.item())
    assert max(first) < 0.5


def test_trees_are_read_in_the_first_phase_alone(backbone):
    model = DMLM(backbone, VOCABULARY)
    for phase, reads in ((0, True), (1, False)):
        model.enter_phase(phase)
        assert hasattr(model.collate(items(0, 1)), "dependents") is reads


def test_no_share_leaves_the_first_phase_out(backbone):
    model = DMLM(backbone, VOCABULARY, dependency_modeling_share=0.0)
    assert [phase.name for phase in model.phases] == ["language_modeling"]
    assert not model.models_dependencies


def test_a_row_of_the_attention_picture_is_a_distribution_over_what_stands_before(model):
    picture = model.dependency_attention([2, 3, 4, 5])
    torch.testing.assert_close(picture.sum(-1), torch.ones(4))
    assert not picture.triu(1).any()


def test_dependency_modeling_without_trees_says_what_to_name(model):
    batch = DependencyCollate()(ItemBatch([TokenItem(0, np.array([2, 3], dtype=np.int32))], 3, NO_WORDS))
    assert batch.dependents is None
    with pytest.raises(UserError, match="annotator"):
        model._dependency_nll(model.encode(batch), batch)


def test_an_attention_layer_that_does_not_exist_is_refused(backbone):
    with pytest.raises(UserError, match="layer 7"):
        DMLM(backbone, VOCABULARY, attention_layer=7)


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
    weights = matrix_of_band(weights, batch.inputs.shape[1], missing=-math.inf)
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


def test_a_network_without_attention_wants_one_beside_it():
    with pytest.raises(UserError, match=r"AWDLSTM has no self-attention.*QueryKeyAttention"):
        DMLM(RECURRENT, VOCABULARY)


def mixture_gradients(length, window):
    """A mixture's loss over 5,000 words and its gradients, as a call that computes them."""
    torch.manual_seed(0)
    hidden, weight = torch.randn(1, length, 4, requires_grad=True), torch.randn(5000, 4, requires_grad=True)
    attention, targets = causal_attention(1, 1, length).float(), torch.randint(5000, (1, length))

    def compute():
        log_attention = log_dependency_attention(attention, window=window)
        mixture_log_probs(log_attention, hidden, weight, None, targets, window=window).sum().backward()

    return compute


def dense_gradients(length):
    """The same by Eq. 3 as it stands: every position's distribution, mixed by a product of squares."""
    torch.manual_seed(0)
    hidden, weight = torch.randn(1, length, 4, requires_grad=True), torch.randn(5000, 4, requires_grad=True)
    attention, targets = causal_attention(1, 1, length).float().exp()[:, 0], torch.randint(5000, (1, length, 1))

    def compute():
        mixed = torch.bmm(attention, (hidden @ weight.T).softmax(-1))
        mixed.gather(-1, targets).log().sum().backward()

    return compute


def peak_memory(compute):
    """Bytes held at the peak."""
    with torch.profiler.profile(profile_memory=True) as recorded:
        compute()
    held = peak = 0
    for event in sorted(recorded.profiler.kineto_results.events(), key=lambda each: each.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


@pytest.mark.parametrize("window", [None, 16])
def test_no_step_holds_a_vocabulary_for_each_pair_of_positions(window):
    short, long = (peak_memory(mixture_gradients(length, window)) for length in (64, 256))
    assert long < 4.5 * short  # four times the positions
    assert long < 256 * 5000 * 256 * 4 / 20


def multiplied(compute):
    """Floating-point operations of all matrix products; of nothing else, such as gathers and sums."""

    def added(_, left, right, **rest):  # a product that is added in place, which the counter does not know of by itself
        return 2 * left[0] * left[1] * right[1]

    with FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: added}) as counter:
        compute()
    return counter.get_total_flops()


@pytest.mark.parametrize("window", [None, 16])
def test_no_step_multiplies_a_vocabulary_for_each_pair_of_positions(window):
    short, long = (multiplied(mixture_gradients(length, window)) for length in (64, 256))
    scores = 2 * 64 * 5000 * 4
    assert short >= 3 * scores  # of all words, and their gradients to states and words
    assert long < 4.5 * short  # four times the positions
    short, long = (multiplied(dense_gradients(length)) for length in (64, 256))
    assert long > 14 * short  # sixteen times the pairs


# -- in a stream ------------------------------------------------------------------------------------------------------


def stream(bptt):
    """Two columns of a stream of 40 positions, as batches with dependents."""
    ids = np.arange(36, dtype=np.int32) % 11 + 2
    heads = np.tile(np.arange(9, dtype=np.int32), 4)  # each word hangs on the one before it
    data = StreamColumns(split_of(ids, np.arange(0, 37, 9), NO_WORDS, heads=heads), 2)
    return [DependencyCollate()(data.__getitems__(segment)) for segment in Segments(data, bptt, vary=False)]


def along(log_probs):
    return torch.cat([each.detach() for each in log_probs], 1)


def test_the_mixture_begins_anew_in_each_segment():
    anew = over_lstm(window=3)
    whole = anew.log_probs(stream(20)[0]).detach()
    found = along(anew.log_probs(batch) for batch in stream(6))
    started = torch.arange(20) % 6 < 2  # positions whose window of 3 begins before their segment
    torch.testing.assert_close(found[:, ~started], whole[:, ~started])
    assert not torch.allclose(found[:, started][:, 2:], whole[:, started][:, 2:])


def test_a_stream_is_refused_where_no_state_is_carried(backbone):
    with pytest.raises(UserError, match=r"Transformer carries no state.*TextData"):
        CausalLM(backbone, VOCABULARY).log_probs(stream(6)[0])


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
