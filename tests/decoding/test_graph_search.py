"""Searches over two graphs of a sentence: which numbers of arcs are tried, and numbers that are given."""

from dataclasses import replace
from functools import partial
from itertools import product

import pytest
import torch

from depgen.backbones.transformer import Transformer
from depgen.data.vocabulary import Vocabulary
from depgen.decoding import beam
from depgen.models.gilt import GiLT

LETTERS = Vocabulary.of_words("abcdefghijk")
MOST = 3
BOTH = torch.arange(2)
TOKENS = torch.tensor([3, 4])
OPENS = torch.tensor([True, True])


@pytest.fixture(scope="module")
def model():
    """A system that tries the likeliest number of arcs alone, unless others are given."""
    torch.manual_seed(0)
    network = partial(Transformer, layers=2, width=8, attention_heads=2, feedforward=12, dropout=0.0)
    made = GiLT(network, 14, graphs=["tree", "content"], feature_size=4, max_count=MOST, counts_per_hypothesis=1)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return made.double().eval()


def second_words(model):
    """The state after one word in each of two rows, and what a second word may have."""
    state = model.beginning(torch.full_like(TOKENS, LETTERS.eos), words=2)
    first = model.choices(state, TOKENS, OPENS)
    state = model.step(state, TOKENS, first, BOTH, first.arcs(BOTH, BOTH))
    return state, model.choices(state, TOKENS.flip(0), OPENS)


@torch.no_grad()
@pytest.mark.parametrize("most", [1, 2, MOST + 1, None])
def test_each_graph_has_one_of_its_likeliest_numbers(model, most):
    _, choices = second_words(model)
    found = choices.log_probs(most).view(2, MOST + 1, MOST + 1)
    for row in (0, 1):
        of_graphs = [each.log_probs[row].tolist() for each in choices.of_graphs]
        likeliest = [sorted(range(MOST + 1), key=lambda count, each=each: -each[count])[:most] for each in of_graphs]
        for one, other in product(range(MOST + 1), repeat=2):
            tried = one in likeliest[0] and other in likeliest[1]
            expected = of_graphs[0][one] + of_graphs[1][other] if tried else -torch.inf
            assert found[row, one, other].item() == pytest.approx(expected)


@pytest.mark.slow
def test_numbers_that_are_given_are_those_of_the_graphs(model, monkeypatch):
    monkeypatch.setitem(beam.SLOTS, "cpu", 12)  # four sentences at once
    wide = MOST + 1
    given = [
        [first[0] * wide + first[1], second[0] * wide + second[1]]
        for first, second in product(product((0, 1), repeat=2), product(range(wide), repeat=2))
    ]
    graphs = model.parse([TOKENS.tolist()] * len(given), vocabulary=LETTERS, beam_size=1, choices=given)
    word = LETTERS.word_of_token(TOKENS.numpy())
    assert [model.tapes.choices(word, each) for each in graphs] == given


@torch.no_grad()
def test_selected_rows_have_their_own_choices_of_a_token_that_waits(model):
    state, choices = second_words(model)
    tokens, kept = replace(state, pending=(TOKENS.flip(0), choices)).select(torch.tensor([1])).pending
    assert tokens.tolist() == [3]
    torch.testing.assert_close(kept.log_probs(), choices.log_probs()[1:])
    for count in (1, MOST):
        chosen = torch.tensor([count * (MOST + 2)])
        for one, other in zip(
            kept.arcs(torch.tensor([0]), chosen), choices.arcs(torch.tensor([1]), chosen), strict=True
        ):
            assert all(map(torch.equal, one, other))
