"""StructFormer: its parser and its attention by loops, its size, what it may not depend on, and that it learns."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.models.structformer import (
    StructFormer,
    border_probabilities,
    calibrated,
    head_distribution,
)
from tests.models.encoders import encoder, spread
from tests.models.masked import batch_of

VOCABULARY = 9
SENTENCES = [[3, 4, 5, 8, 5], [6, 2, 7], [4]]


def model_of(*, precise=True, parser_dropout=0.0, backbone=None, vocabulary=VOCABULARY, **options):
    torch.manual_seed(0)
    options = {"parser_layers": 2, **options}
    model = StructFormer(backbone or encoder(), vocabulary, parser_dropout=parser_dropout, **options).eval()
    return model.double() if precise else model


# -- the parser by loops over words, borders and heads -----------------------------------------------------------------


def margin_by_loop(heights, distances):
    """By how much some span but the whole has both its boundaries above all its words."""
    n, margin = len(heights), torch.zeros((), dtype=torch.float64)
    for i in range(n):
        for j in range(i, n):
            if (i, j) != (0, n - 1):
                highest = max(heights[i : j + 1])
                sides = [distances[side] for side in (i - 1, j) if 0 <= side < n - 1]
                margin = max(margin, min(side - highest for side in sides))
    return margin


def distribution_by_loop(heights, distances, border_scale, head_scale):
    """p_D(h | i), one constituent and one head at a time."""
    n = len(heights)

    def crosses(i, boundary):
        return torch.sigmoid((heights[i] - distances[boundary]) * border_scale)

    def reaches(i, j):  # the constituent of i holds word j
        if not 0 <= j < n:
            return torch.zeros((), dtype=torch.float64)
        way = [crosses(i, boundary) for boundary in (range(j, i) if j < i else range(i, j))]
        return min(way) if way else torch.ones((), dtype=torch.float64)

    rows = []
    for i in range(n):
        row = [torch.zeros((), dtype=torch.float64) for _ in range(n)]
        for left in range(i + 1):
            for right in range(i, n):
                first = reaches(i, left) - reaches(i, left - 1)
                last = reaches(i, right) - reaches(i, right + 1)
                total = sum(torch.exp(heights[k] * head_scale) for k in range(left, right + 1))
                for head in range(left, right + 1):
                    row[head] = row[head] + first * last * torch.exp(heights[head] * head_scale) / total
        rows.append(torch.stack(row))
    return torch.stack(rows)


def distribution(heights, distances, words, scales):
    left, right = border_probabilities(heights, distances, words, scales[0])
    return head_distribution(heights, left, right, words, scales[1])


@pytest.mark.parametrize("lengths", [[1], [2], [3, 7, 1], [8, 5]])
def test_the_head_distribution_and_its_gradients_are_the_triple_loops(lengths):
    generator = torch.Generator().manual_seed(sum(lengths))
    shape = (len(lengths), max(lengths) + 1)
    heights, distances = (
        (3 * torch.randn(shape, generator=generator, dtype=torch.float64)).requires_grad_() for _ in range(2)
    )
    scales = torch.tensor([1.3, 0.6], dtype=torch.float64, requires_grad=True)
    words = torch.arange(shape[1]) < torch.tensor(lengths)[:, None]
    beyond = 1e4 * ~words  # which must not count
    found = distribution(heights + beyond, distances - beyond, words, scales)
    weights = torch.randn(found.shape, generator=generator, dtype=torch.float64)
    mine = theirs = 0.0
    for row, n in enumerate(lengths):
        expected = distribution_by_loop(heights[row, :n], distances[row, :n], *scales)
        assert (found[row, :n, :n] - expected).abs().max() < 1e-10
        assert (expected.sum(1) - 1).abs().max() < 1e-10
        assert not found[row, :n, n:].any()
        mine = mine + (found * weights)[row, :n, :n].sum()
        theirs = theirs + (expected * weights[row, :n, :n]).sum()
    variables = [heights, distances, scales]
    pairs = (torch.autograd.grad(each, variables, materialize_grads=True) for each in (mine, theirs))
    for one, other in zip(*pairs, strict=True):
        assert (one - other).abs().max() < 1e-10


def test_words_far_below_others_neither_overflow_nor_vanish_among_their_likes():
    heights = torch.tensor([[500.0, -500.0, -500.0, 400.0]], requires_grad=True)
    distances = torch.tensor([[1e4, -1e4, 1e4, 0.0]])
    words, scales = torch.ones(1, 4, dtype=torch.bool), torch.ones(2)
    found = distribution(heights, distances, words, scales)[0]
    expected = torch.tensor([[1.0, 0, 0, 0], [0, 0.5, 0.5, 0], [0, 0.5, 0.5, 0], [0, 0, 0, 1]])
    torch.testing.assert_close(found, expected)
    (gradient,) = torch.autograd.grad((found * torch.arange(16.0).view(4, 4)).sum(), heights)
    assert gradient.isfinite().all()


numbers = st.floats(-9, 9, width=32)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=6), min_size=1, max_size=3))
def test_calibration_lowers_distances_by_the_margin_of_the_loop(sentences):
    width = max(map(len, sentences)) + 1
    heights, distances = torch.randn(2, len(sentences), width, dtype=torch.float64)
    for row, sentence in enumerate(sentences):
        heights[row, : len(sentence)], distances[row, : len(sentence)] = torch.tensor(sentence).double().T
    words = torch.arange(width) < torch.tensor([len(sentence) for sentence in sentences])[:, None]
    pairs = [(heights[row, : len(s)], distances[row, : len(s)]) for row, s in enumerate(sentences)]
    margins = torch.stack([torch.as_tensor(margin_by_loop(*pair)) for pair in pairs])
    own = calibrated(heights, distances, words, "sentence")
    assert torch.equal(own, distances - margins[:, None])
    assert torch.equal(calibrated(heights, distances, words, "batch"), distances - margins.max())
    for row, sentence in enumerate(sentences):
        assert margin_by_loop(heights[row, : len(sentence)], own[row, : len(sentence)]) < 1e-12


def test_clear_heights_make_a_clear_tree():
    """Of "(a B) C (d E)", B heads a, E heads d and both hang on C, once distances lie below the heights they part."""
    heights, words = 20 * torch.tensor([[0.0, 4.0, 9.0, 0.0, 4.0]]), torch.ones(1, 5, dtype=torch.bool)
    distances = torch.tensor([[2.0, 6.0, 6.0, 2.0, 0.0]])
    for lowered, expected in ((0, [1, 2, 3, 4, 5]), (3, [2, 3, 3, 5, 3])):
        found = distribution(heights, 20 * (distances - lowered), words, torch.ones(2))[0]
        assert (found.argmax(1) + 1).tolist() == expected
        assert found.amax(1).min() > 0.999
    assert calibrated(heights, 20 * distances, words)[0].tolist() == [0, 80, 80, 0, -40]


# -- the whole network by loops ----------------------------------------------------------------------------------------


def normalised(vector):
    centred = vector - vector.mean()
    return centred / torch.sqrt((centred**2).mean() + 1e-5)


def heights_and_distances_by_loop(parser, embedded):
    states = list(embedded)
    n, zero = len(states), torch.zeros_like(embedded[0])
    for layer in parser.layers:
        reach = layer.kernel_size[0] // 2
        states = [
            torch.tanh(normalised(layer.bias + sum(
                layer.weight[:, :, k] @ (states[i + k - reach] if 0 <= i + k - reach < n else zero)
                for k in range(2 * reach + 1)
            )))
            for i in range(n)
        ]  # fmt: skip
    heights = [parser.height(torch.tanh(normalised(parser.words(state))))[0] for state in states]
    pairs = [
        parser.pairs.bias + parser.pairs.weight[:, :, 0] @ one + parser.pairs.weight[:, :, 1] @ other
        for one, other in itertools.pairwise(states)
    ]
    return heights, [parser.distance(torch.tanh(normalised(pair)))[0] for pair in pairs]


def logits_by_loop(model, sentence):
    network, n = model.backbone, len(sentence)
    embedded = network.embedding.weight[sentence]
    heights, distances = heights_and_distances_by_loop(model.parser, embedded)
    margin = margin_by_loop(heights, distances)
    p = distribution_by_loop(heights, [each - margin for each in distances], *model.log_scales.exp())
    states = [embedded[i] + network.positions.weight[i] for i in range(n)]
    for number, layer in enumerate(network.layers):
        size = network.width // network.attention_heads
        read = torch.stack([normalised(state) for state in states])
        queries, keys, values = (read @ layer.attention.projection.weight.T + layer.attention.projection.bias).chunk(
            3, -1
        )
        mixed = torch.zeros_like(read)
        for head in range(network.attention_heads):
            part = slice(head * size, (head + 1) * size)
            to_head, to_child = model.relation_logits[number, head].softmax(0)
            for i in range(n):
                for j in range(n):
                    if i != j:
                        weight = torch.sigmoid(queries[i, part] @ keys[j, part] / size**0.5)
                        mixed[i, part] += weight * (to_head * p[i, j] + to_child * p[j, i]) * values[j, part]
        states = [state + layer.attention.output(mixed[i]) for i, state in enumerate(states)]
        for i, state in enumerate(states):
            inner = layer.expand(normalised(state))
            states[i] = state + layer.contract(torch.where(inner > 0, inner, 0.01 * inner))
    norm = network.final_norm
    hidden = torch.stack([normalised(state) * norm.weight + norm.bias for state in states])
    return hidden @ network.embedding.weight.T + network.bias


@torch.no_grad()
def test_logits_are_those_of_loops_over_words():
    model, batch = spread(model_of()), batch_of(*SENTENCES)
    hidden = model.encode(batch.tokens, batch.lengths).hidden
    for row, sentence in enumerate(SENTENCES):
        found = hidden[row, : len(sentence)] @ model.output_weight.T + model.output_bias
        assert (found - logits_by_loop(model, sentence)).abs().max() < 1e-10


@torch.no_grad()
def test_the_models_own_decoding_makes_the_highest_word_the_root():
    model, batch = spread(model_of()), batch_of(*SENTENCES)
    heads = model.own_heads(batch.tokens, batch.lengths)
    heights, _ = model.heights_and_distances(batch.tokens, batch.lengths)
    p = model.head_probabilities(batch.tokens, batch.lengths)
    for row, sentence in enumerate(SENTENCES):
        root = heights[row, : len(sentence)].argmax().item()
        expected = [0 if i == root else p[row, i].argmax().item() + 1 for i in range(len(sentence))]
        assert heads[row].tolist() == expected + [-1] * (5 - len(sentence))


# -- what it may not depend on -----------------------------------------------------------------------------------------


@torch.no_grad()
def test_calibration_of_the_batch_couples_its_sentences():
    model, whole = spread(model_of(calibration="batch")), batch_of(*SENTENCES)
    together, moved = model.head_probabilities(whole.tokens, whole.lengths), []
    for row, sentence in enumerate(SENTENCES):
        alone, n = batch_of(sentence), len(sentence)
        moved.append((together[row, :n, :n] - model.head_probabilities(alone.tokens, alone.lengths)[0]).abs().max())
    assert max(moved) > 1e-3


# -- its size, odd sentences, learning ---------------------------------------------------------------------------------


def test_parameters_at_the_papers_size():
    """The masked Transformer's, three convolutions of 9 words, one of 2, height, distance, two scales, 8 x 8 mixes."""
    d, vocabulary = 512, 10_798
    transformer = vocabulary * d + vocabulary + 500 * d + 2 * d + 8 * (4 * (d * d + d) + 2 * 4 * d * d + 4 * d + d)
    parser = 3 * (9 * d * d + d) + (2 * d * d + d) + (d + 1) + (d * d + d) + (d + 1)
    with torch.device("meta"):
        sizes = {"layers": 8, "width": d, "attention_heads": 8, "feedforward": 4 * d}
        model = StructFormer(encoder(**sizes), vocabulary)
    assert transformer == 30_999_086
    assert sum(each.numel() for each in model.parameters()) == transformer + parser + 2 + 8 * 8 * 2 == 38_867_122
