"""The masked Transformer: its attention, its size, and the head that it parses by."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.errors import UserError
from depgen.language_models.masked import LayerAttention, MaskedOutput
from depgen.models.masked_transformer import MaskedTransformer, undirected_matches
from tests.models.encoders import encoder, spread
from tests.models.masked import batch_of, trained

VOCABULARY = 9
SENTENCES = [[3, 4, 5, 8, 5], [6, 2, 7], [4]]
HEADS = [[2, 0, 2, 5, 2], [2, 0, 2], [0]]


def model_of(*, precise=True, backbone=None, vocabulary=VOCABULARY, **options):
    torch.manual_seed(0)
    model = MaskedTransformer(backbone or encoder(), vocabulary, **options).eval()
    return model.double() if precise else model


# -- the network -------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_attention_is_that_of_the_scores_and_changes_no_state():
    model, batch = spread(model_of()), batch_of(*SENTENCES)
    plain = model.encode(batch.tokens, batch.lengths)
    output = model.encode(batch.tokens, batch.lengths, attention=True, all_layers=True)
    assert plain.attention is None
    assert torch.equal(model.backbone.final_norm(output.layers[-1]), output.hidden)
    assert (plain.hidden - output.hidden)[batch.is_word].abs().max() < 1e-12
    for number, layer in enumerate(output.attention):
        assert torch.equal(layer.before, layer.after)
        expected = model.backbone(batch.tokens, padding=~batch.is_word, attention_layer=number).attention.exp()
        assert (layer.after - expected).abs().max() < 1e-12
        assert (layer.after.sum(-1) - 1).abs().max() < 1e-12
        assert not layer.after[2, ..., 1:].any(), "padding is no key"


def test_parameters_at_the_papers_size():
    """Embedding and bias, 500 positions, the last norm, and layers whose norms have none."""
    d, vocabulary = 512, 10_798
    attention, feedforward = 4 * (d * d + d), 2 * 4 * d * d + 4 * d + d
    expected = vocabulary * d + vocabulary + 500 * d + 2 * d + 8 * (attention + feedforward)
    sizes = {"layers": 8, "width": d, "attention_heads": 8, "feedforward": 4 * d}
    with torch.device("meta"):
        model, affine = (MaskedTransformer(encoder(**sizes, affine_norms=norms), vocabulary) for norms in (False, True))
    assert sum(each.numel() for each in model.parameters()) == expected == 30_999_086
    assert sum(each.numel() for each in affine.parameters()) == expected + 8 * 2 * 2 * d


# -- the head that it parses by ----------------------------------------------------------------------------------------


def matches_by_sets(weights, heads, n):
    most = [max((j for j in range(n) if j != i), key=lambda j, i=i: weights[i][j], default=None) for i in range(n)]
    found = {frozenset((i, most[i])) for i in range(n)} if n > 1 else set()
    return len(found & {frozenset((i, head - 1)) for i, head in enumerate(heads) if head > 0})


@st.composite
def trees(draw):
    """Heads of a random tree of at most seven words."""
    order = draw(st.permutations(range(draw(st.integers(1, 7)))))
    heads = [0] * len(order)
    for place, word in enumerate(order[1:], start=1):
        heads[word] = order[draw(st.integers(0, place - 1))] + 1
    return heads


@settings(max_examples=50, deadline=None)
@given(st.lists(trees(), min_size=1, max_size=3), st.integers(0, 10_000))
def test_matches_are_those_of_sets_of_pairs(sentences, seed):
    generator = torch.Generator().manual_seed(seed)
    batch = batch_of(*([3] * len(heads) for heads in sentences), heads=sentences, length=8)
    weights = torch.rand(2, 3, len(sentences), 8, 8, generator=generator)
    expected = [
        [sum(matches_by_sets(weights[a, b, row].tolist(), heads, len(heads)) for row, heads in enumerate(sentences))
         for b in range(3)]
        for a in range(2)
    ]  # fmt: skip
    assert undirected_matches(weights, batch.heads, batch.is_word).tolist() == expected


class Planted(MaskedTransformer):
    """Whose attention is random but for one head, which looks from each word to its head."""

    def encode(self, tokens, lengths, *, heads=None, attention=False):
        generator = torch.Generator().manual_seed(len(tokens))
        shape = len(tokens), 2, tokens.shape[1], tokens.shape[1]
        layers = [torch.rand(shape, generator=generator) for _ in range(2)]
        for row, sentence in enumerate(HEADS[: len(tokens)]):
            for word, head in enumerate(sentence):
                layers[1][row, 0, word, head - 1] += 1
        return MaskedOutput(torch.zeros(*tokens.shape, 4), attention=tuple(LayerAttention(w, w) for w in layers))


def test_the_best_head_on_a_treebank_is_chosen_and_parsed_by():
    model, batch = Planted(encoder(), VOCABULARY).train(), batch_of(*SENTENCES, heads=HEADS)
    with pytest.raises(
        UserError, match=r"none is chosen: `depgen parse` and `depgen plot trees` take --attention_head \[layer,head\]"
    ):
        model.head_probabilities(batch.tokens, batch.lengths)
    assert model.choose_attention_head([batch, batch_of(SENTENCES[0], heads=HEADS[:1])]) == (1, 0)
    assert model.training
    p = model.head_probabilities(batch.tokens, batch.lengths)
    for row, heads in enumerate(HEADS):
        assert [p[row, i].argmax().item() + 1 for i, head in enumerate(heads) if head] == [h for h in heads if h]
    assert not p.diagonal(dim1=1, dim2=2).any()
    assert not p[1, 3:].any()


def test_of_equal_heads_the_lowest_and_first_is_chosen():
    model = model_of()
    with torch.no_grad():
        for layer in model.backbone.layers:
            layer.attention.projection.weight.zero_()
    assert model.choose_attention_head([batch_of(*SENTENCES, heads=HEADS)]) == (0, 0)


def test_trees_beside_the_sentences_change_nothing():
    losses = []
    for heads in (None, HEADS):
        batch = batch_of(*SENTENCES, heads=heads)
        losses.append(trained(model_of(precise=False, backbone=encoder(dropout=0.2)), [batch], steps=3))
    assert losses[0] == losses[1]


@pytest.mark.parametrize(("act", "said"), [
    (lambda: model_of().choose_attention_head([]), "chosen on sentences with trees"),
    (lambda: model_of().choose_attention_head([batch_of([3, 4])]), "chosen on sentences with trees"),
    (lambda: model_of(parses_by=(2, 0)), r"attention head: .*\[layer, head\] below \[2, 2\]"),
    (lambda: model_of(parses_by=(-1, 0)), r"attention head: .*\[layer, head\] below \[2, 2\]"),
    (lambda: model_of(backbone=encoder(causal=True)), "MaskedTransformer reads from both sides: set .*causal to false"),
    (lambda: model_of().encode(torch.full((1, 501), 3), torch.tensor([501])), "501 tokens does not fit into 500"),
])  # fmt: skip
def test_what_does_not_go_together_is_refused(act, said):
    with pytest.raises(UserError, match=said):
        act()
