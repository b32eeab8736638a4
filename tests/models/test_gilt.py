"""GiLT against the slow formulas of its paper, and what it refuses."""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from depgen.backbones.pretrained import PretrainedTransformer
from depgen.backbones.transformer import Transformer
from depgen.data.batch import Edges, ItemBatch, TokenItem
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.language_models.structured import Writing, in_turn
from depgen.models.gilt import GiLT
from tests import oracles_of_gilt as oracle

LETTERS = Vocabulary.of_words("abcdefghijk")
XL = partial(
    Transformer, layers=3, width=8, attention_heads=2, feedforward=12, dropout=0.0, positions="relative",
    attention_bias=False, norm_first=False, scale_embedding=False, output_bias=True,
)  # fmt: skip
GPT2 = partial(
    PretrainedTransformer, layers=4, width=8, attention_heads=2, max_length=40, dropout=0.0, attention_dropout=0.0
)
GRAPHS = [
    ([3, 4, 5, 6, 7], [(0, 3), (3, 1), (2, 1), (3, 5), (4, 5)]),
    ([8, 3], [(1, 2), (2, 1), (0, 2)]),
    ([9], []),
    ([10, 10, 4, 12], [(4, 1), (4, 2), (4, 3), (0, 4), (1, 2), (2, 3), (2, 2)]),
]
"""Token ids and arcs: the fixture, arcs in both directions, a word alone, and a self-loop."""


def system(network=XL, **options):
    """A small system in double precision, whose parameters are so large that each part shows."""
    torch.manual_seed(1)
    options = {"feature_size": 4, "max_count": 7, "counts_per_hypothesis": None, "beam_size": 3, **options}
    model = GiLT(network, 14, **options).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model


def item(place, ids, arcs, ends=None):
    """A sentence with its graph, as the data module gives it; by `ends` words of several pieces."""
    ends = np.ones(len(ids), bool) if ends is None else np.array(ends)
    first = np.flatnonzero(np.append(True, ends[:-1]))
    last = np.flatnonzero(ends) + 1
    by_piece = [[k] if k not in first else [] for k in range(len(ids))]  # a later piece: the piece before
    for head, dependent in sorted(arcs):
        by_piece[first[dependent - 1]].append(last[head - 1] if head else 0)
    heads = np.array([head for piece in by_piece for head in piece], np.int64)
    offsets = np.cumsum([0, *map(len, by_piece)])
    return TokenItem(place, np.array(ids, np.int64), None, ends, None, Edges(offsets, heads, np.full(len(heads), "x")))


def batch_of(model, graphs=GRAPHS):
    """A batch of sentences with their graphs."""
    items = [item(place, *graph) for place, graph in enumerate(graphs)]
    return model.collate(ItemBatch(items, sum(len(each.ids) + 1 for each in items), LETTERS))


# -- a second implementation ------------------------------------------------------------------------------------------


def detached(weights):
    return {name: weight.detach() for name, weight in weights.items()}


def layer_weights(model, number):
    """The weights of a layer's attention by the oracle's names."""
    backbone = model.backbone
    attention = backbone.layers[number].attention
    query, key, value = attention.projection.weight.chunk(3)
    found = {"query": query, "key": key, "value": value, "output": attention.output.weight}
    found |= {"relative": backbone.relative.projection(number).weight}
    found |= {"content_bias": backbone.relative.content_bias, "position_bias": backbone.relative.position_bias}
    if number >= model.first_tape_layer:
        tape = model.tape_attention
        for place, embedding, projection in zip(
            tape.places, tape.embeddings, tape.projections[number - model.first_tape_layer], strict=True
        ):
            name, keys = oracle.FEATURES[place], embedding.weight @ projection.weight.T
            found |= {name: keys, f"{name}.to_key": torch.eye(keys.size(1)).double()}
    return detached(found)


class Slow:
    """A sentence read token by token from given arcs, by the oracle's formulas."""

    def __init__(self, model, ids, ends=None):
        self.model, self.ids = model, [0, *ids]
        ends = [True] * len(ids) if ends is None else ends
        self.word = [0, *(1 + sum(ends[:k]) for k in range(len(ids)))]
        self.words = max(self.word)
        self.first = [self.word.index(word) for word in range(1, self.words + 1)]
        self.scorer = detached(oracle.scorer_weights(model.scorer))
        self.layers_of = cache(self._layers_of)

    def tape(self, arcs):
        """The tape of all prefixes."""
        options = self.model.tapes
        weights = {"degree_weights": options.degree_weights, "distance_weights": options.distance_weights}
        return oracle.tapes([arc for arc in arcs if arc[0] != arc[1]], self.words, **weights)

    def _layers_of(self, arcs):
        """The states of all layers, embedding first."""
        network = self.model.backbone
        codes = oracle.token_codes(self.tape(arcs), self.word)
        states = [F.embedding(torch.tensor(self.ids), network.embedding.weight)]
        for number, layer in enumerate(network.layers):
            mixed = oracle.attention(layer_weights(self.model, number), states[-1], codes)
            hidden = layer.attention_norm(states[-1] + mixed)
            inner = torch.relu(layer.expand(hidden))
            states.append(layer.feedforward_norm(hidden + layer.contract(inner)))
        return [each.detach() for each in states]

    def vectors(self, arcs):
        """o of each word."""
        layers = self.layers_of(frozenset(arcs))
        embeddings = self.model.backbone.embedding.weight.detach()[self.ids]
        return oracle.word_vectors(layers, embeddings, self.first)

    def token_log_prob(self, position, arcs):
        """log p of a target."""
        network = self.model.backbone
        hidden = self.layers_of(frozenset(arcs))[-1][position]
        logits = network.embedding.weight @ hidden + network.output_bias
        return float(logits.detach().log_softmax(-1)[[*self.ids[1:], 0][position]])

    def logits(self, word, arcs):
        """The logits of a word's arcs."""
        return oracle.arc_logits(self.scorer, self.vectors(arcs), self.tape(arcs), word)

    def count_log_probs(self, word, arcs):
        """The log-probabilities of its numbers of arcs."""
        return oracle.log_softmax(oracle.count_logits(self.scorer, self.vectors(arcs), self.tape(arcs), word))


VARIANTS = [
    {},
    {"features": ["degree", "distance"], "tape_layers": 2, "degree_weights": (1, 1), "distance_weights": (2, 3)},
    {"features": []},
]


@pytest.mark.parametrize("options", VARIANTS)
def test_the_loss_is_that_of_scalar_loops(options):
    model = system(**options, arc_weight=0.3, count_weight=0.2)
    batch = batch_of(model)
    losses = []
    for ids, arcs in GRAPHS:
        slow = Slow(model, ids)
        logits = {}
        for word in range(1, len(ids) + 1):
            logits |= slow.logits(word, arcs)
        losses.append(
            oracle.joint_loss(
                [slow.token_log_prob(k, arcs) for k in range(len(ids) + 1)],
                {arc for arc in arcs if arc[0] != arc[1]}, logits,
                [slow.count_log_probs(word, arcs) for word in range(1, len(ids) + 1)],
                weights=(1, 0.3, 0.2),
            )
        )  # fmt: skip
    assert model.training_step(batch, 0).item() == pytest.approx(sum(losses) / 16, rel=1e-9)


def test_the_authors_weights_are_the_default():
    tokens, arcs, counts = oracle.loss_weights()
    assert (tokens, arcs, counts) == pytest.approx((5 / 3, 2 / 3, 2 / 3))
    model = system()
    assert (arcs / tokens, counts / tokens) == pytest.approx((model.arc_weight, model.count_weight))


@torch.no_grad()
@pytest.mark.parametrize("counts", [(1, 1, 2, 0), (0, 3, 5, 7), (1, 0, 1, 4)])
def test_a_word_gets_its_likeliest_arcs(counts):
    model, ids, arcs = system(), [4, 3, 5, 3], set()
    slow, writing = Slow(model, ids), Writing(LETTERS, model.device, max_new_tokens=0, longest=4)
    choices = torch.tensor([[LETTERS.eos, *in_turn(ids, counts, model.vocabulary_size)]])
    _, state = model.writing_step(writing, choices, None, None)
    for word, count in enumerate(counts, start=1):
        arcs |= oracle.best_arcs(slow.logits(word, arcs), count)
    (graph,) = model.structures_of(state, torch.tensor([0]))
    assert {edge[:2] for edge in graph} == arcs


@torch.no_grad()
@pytest.mark.parametrize("most", [1, 2, 8, None])
def test_a_hypothesis_goes_on_by_its_likeliest_numbers_of_arcs(most):
    model, tokens = system(), torch.tensor([4, 5])
    state = model.beginning(torch.full_like(tokens, LETTERS.eos), words=1)
    possible = model.word_arcs(state, tokens, torch.tensor([1, 0]))
    found = possible.likeliest_log_probs(most)
    for row, log_probs in enumerate(possible.log_probs.tolist()):
        likeliest = sorted(range(8), key=lambda count, of_row=log_probs: -of_row[count])[:most]
        assert found[row].tolist() == [log_probs[count] if count in likeliest else -torch.inf for count in range(8)]


def test_tokens_and_counts_with_given_arcs_are_those_of_the_formulas():
    model = system()
    for ids, arcs in GRAPHS:
        slow = Slow(model, ids)
        edges = sorted((head, dependent, "x") for head, dependent in arcs)
        ((found,),) = model.sentence_log_probs([[ids]], vocabulary=LETTERS, structure=[[edges]])
        counts = oracle.counts_of(set(arcs), len(ids))
        of_counts = [slow.count_log_probs(word, arcs)[count] for word, count in enumerate(counts, start=1)]
        of_tokens = [slow.token_log_prob(k, arcs) for k in range(len(ids) + 1)]
        expected = np.array(of_tokens) + np.array([*of_counts, 0])
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_no_beam_is_empty_with_untrained_weights():
    torch.manual_seed(0)
    model = GiLT(XL, 14, counts_per_hypothesis=1, beam_size=1).eval()
    with torch.no_grad():
        model.scorer.count.bias.copy_(torch.arange(30.0) * 10)  # numbers that no word here can have are likeliest
    assert np.isfinite(model.sentence_log_probs([[[3, 4, 5]]], vocabulary=LETTERS)[0][0]).all()


def test_pieces_of_a_word_share_its_row_of_the_tape():
    model = system()
    ids, ends = [3, 9, 4, 10, 11, 5], [False, True, False, False, True, True]
    arcs = [(0, 2), (2, 1), (2, 3)]
    batch = model.collate(ItemBatch([item(0, ids, arcs, ends)], 7, LETTERS))
    assert batch.word.tolist() == [[0, 1, 1, 2, 2, 2, 3]]
    assert batch.first.tolist() == [[1, 3, 6]]
    assert batch.counts.tolist() == [oracle.counts_of(set(arcs), 3)]
    tokens, scores = model.teacher_forced(batch)
    slow = Slow(model, ids, ends)
    expected = [slow.token_log_prob(k, arcs) for k in range(7)]
    np.testing.assert_allclose(tokens[0].detach().numpy(), expected, rtol=1e-9)
    for word in range(1, 4):
        found = scores.counts[0, word - 1].log_softmax(-1).tolist()
        assert found == pytest.approx(slow.count_log_probs(word, arcs), rel=1e-9)


@torch.no_grad()
def test_word_vectors_hold_the_embedding_without_positions_in_training_and_in_the_beam():
    model, found = system(GPT2), []
    ids = [4, 4, 4]
    model.scorer.register_forward_pre_hook(lambda scorer, given: found.append(given[0]))
    batch = batch_of(model, [(ids, [])])
    model.teacher_forced(batch)
    width = model.backbone.width
    embedding = model.backbone.network.transformer.wte.weight[4]
    assert torch.equal(found[0][0, :, 2 * width :], embedding.expand(3, -1))
    state = model.beginning(batch.inputs[:, 0], words=3)
    assert torch.equal(model.word_vectors(state.states, batch.inputs[:, 1])[0, 2 * width :], embedding)


@torch.no_grad()
@pytest.mark.parametrize(
    ("network", "options", "expected"),
    [
        (XL, {}, (2 / (3 * 256)) ** 0.5),
        (XL, {"tape_layers": 1}, (2 / (3 * 256)) ** 0.5),
        (GPT2, {"tape_layers": 2}, 0.02),
    ],
    ids=["Transformer-XL", "Transformer-XL, last layer", "GPT-2"],
)
def test_projections_of_features_begin_as_the_authors(network, options, expected):
    """sqrt(2 / (layers inputs)), by all layers of the Transformer-XL, also those without features; GPT-2's 0.02."""
    torch.manual_seed(0)
    model = GiLT(partial(network, width=64), 14, max_count=7, feature_size=256, **options)
    for layer in model.tape_attention.projections:
        for projection in layer:
            assert projection.weight.std().item() == pytest.approx(expected, rel=0.02)


def test_gpt2_sees_features_in_its_last_layers_alone():
    model = system(GPT2, tape_layers=2)
    tokens, one, other = ([4, 3, 5], [(0, 1), (1, 2)], [(0, 1), (2, 1)])
    states = [
        model.encode_tokens(
            batch.inputs, batch.tapes.gather(2, batch.word[:, None, :, None].expand(-1, 3, -1, 4)), batch.word
        ).layers
        for batch in (batch_of(model, [(tokens, arcs)]) for arcs in (one, other))
    ]
    same = [torch.equal(*layers) for layers in zip(*states, strict=True)]
    assert same == [True, True, True, False, False]


# -- phases -----------------------------------------------------------------------------------------------------------


def adam(groups):
    return torch.optim.AdamW(groups, lr=1.0)


def factors(model):
    """The learning rates of the phase's first step, by the number of parameters of each group."""
    found = model.configure_optimizers()
    return {sum(each.numel() for each in group["params"]): group["lr"] for group in found["optimizer"].param_groups}


def test_tokens_alone_are_learnt_first_by_their_own_schedule(monkeypatch):
    schedules = {
        "scheduler": partial(torch.optim.lr_scheduler.ConstantLR, factor=0.5),
        "language_modeling_scheduler": partial(torch.optim.lr_scheduler.ConstantLR, factor=0.25),
    }
    model = system(
        GPT2, optimizer=adam, **schedules, language_modeling_share=0.25,
        tape_learning_rate=8.0, scorer_learning_rate=4.0,
        tape_rate="projections",
    )  # fmt: skip
    shares = [(each.name, each.share) for each in model.phases]
    assert shares == [("language_modeling", 0.25), ("joint_modeling", 0.75)]
    batch = batch_of(model)
    model.enter_phase(1)
    tokens, arcs, counts = (each.sum().item() for each in model._sentence_losses(batch))
    scorer, projections, whole = (
        sum(each.numel() for each in part.parameters())
        for part in (model.scorer, model.tape_attention.projections, model)
    )
    model.enter_phase(0)
    with monkeypatch.context() as patch:
        patch.setattr(model.scorer, "forward", lambda *_: pytest.fail("scores of arcs are not learnt"))
        loss = model.training_step(batch, 0)
        assert model.item_scores(batch).nll.sum().item() == pytest.approx(tokens)
    assert loss.item() == pytest.approx(tokens / 16)
    loss.backward()
    assert not any(each.grad.any() for each in model.scorer.parameters()), "of each a gradient, as several devices need"
    assert model.item_scores(batch).nll.sum().item() == pytest.approx(tokens)
    assert factors(model) == {whole - scorer - projections: 0.25, projections: 2.0}
    model.enter_phase(1)
    expected = (tokens + 0.4 * arcs + 0.4 * counts) / 16
    assert model.training_step(batch, 0).item() == pytest.approx(expected)
    assert model.item_scores(batch).nll.sum().item() == pytest.approx(tokens + arcs + counts)
    assert factors(model) == {whole - scorer: 0.5, scorer: 2.0}


def test_all_parameters_for_features_have_their_rate_and_the_language_models_clip():
    model = system(GPT2, optimizer=adam, tape_learning_rate=8.0, clip=3.0)
    tape = sum(each.numel() for each in model.tape_attention.parameters())
    scorer = sum(each.numel() for each in model.scorer.parameters())
    whole = sum(each.numel() for each in model.parameters())
    groups = model.parameter_groups()
    sizes = [sum(each.numel() for each in group["params"]) for group in groups]
    assert sizes == [whole - tape - scorer, scorer, tape]
    assert [group.get("lr") for group in groups] == [None, None, 8.0]
    assert groups[0]["clip_name"] == groups[2]["clip_name"] != groups[1]["clip_name"]
    assert {group["clip"] for group in groups} == {3.0}


@torch.no_grad()
def test_scores_without_features_are_exact():
    model = system(features=[], beam_size=1, counts_per_hypothesis=1)
    batch = batch_of(model)
    assert model.likelihood == "exact"
    expected = model.teacher_forced(batch)[0][batch.is_word]
    torch.testing.assert_close(model.log_probs(batch)[batch.is_word], expected, rtol=1e-10, atol=1e-10)


def test_published_sizes():
    with torch.device("meta"):
        model = GiLT(
            partial(
                Transformer, layers=16, width=1024, attention_heads=8, feedforward=4096, positions="relative",
                attention_bias=False, norm_first=False, output_bias=True,
            ), 32_772,
        )  # fmt: skip
    assert model.middle_layer == 9
    scorer = sum(each.numel() for each in model.scorer.parameters())
    whole = sum(each.numel() for each in model.parameters())
    without_effect = 16 * 3 * 1024  # D2
    assert whole - scorer == 264_592_644 - without_effect
    unused = (1025**2 - 1024) + (1024**2 - 1024)  # of two square matrices only the diagonals are used
    assert scorer == 53_666_079 - unused


# -- what is refused --------------------------------------------------------------------------------------------------


def test_a_word_with_too_many_arcs_is_refused_with_its_sentence():
    model = system(max_count=2)
    arcs = [(0, 4), (1, 4), (4, 2)]
    with pytest.raises(UserError, match=r"a b c d.*found 3 at word 4"):
        batch_of(model, [([2, 3, 4, 5], arcs)])


@pytest.mark.parametrize("use", [lambda model, batch: model.training_step(batch, 0), GiLT.encode])
def test_training_without_graphs_is_refused(use):
    model = system()
    batch = replace(batch_of(model), tapes=None, from_earlier=None, to_earlier=None)
    with pytest.raises(UserError, match="annotator"):
        use(model, batch)


def test_a_clip_that_would_stop_training_is_refused():
    with pytest.raises(UserError, match=r"expected a norm above 0, found 0\.0"):
        system(clip=0.0)


@torch.no_grad()
def test_a_batch_without_words_has_the_loss_of_its_ends():
    model = system()
    batch = batch_of(model, [([], [])])
    ((end,),) = model.log_probs(batch).tolist()
    assert model.training_step(batch, 0).item() == pytest.approx(-end)
    ((joint,),) = model.joint_log_probs(batch, [[[]]], [[()]]).tolist()
    assert joint == pytest.approx(end)
