"""Beams of tokens against all texts on small sizes, greedy decoding, and the networks that carry keys."""

import math
from itertools import product
from zlib import crc32

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.backbones.transformer import Transformer
from depgen.decoding.generation import generate
from depgen.decoding.settings import Sampling, TokenOptions
from depgen.decoding.text_search import likeliest_texts
from depgen.errors import UserError
from tests.decoding.test_generation import transformer_step

EOS, VOCABULARY = 0, 3


class Histories:
    def __init__(self, rows):
        self.rows = rows

    def select(self, rows):
        return Histories([self.rows[row] for row in rows.tolist()])


def next_log_probs(name, history):
    generator = torch.Generator().manual_seed(crc32(repr((name, *history)).encode()))
    return (2 * torch.randn(VOCABULARY, generator=generator, dtype=torch.float64)).log_softmax(0)


def step_of(name):
    def step(tokens, padding, state):
        padded = torch.zeros_like(tokens, dtype=torch.bool) if padding is None else padding
        new = [row[~gone].tolist() for row, gone in zip(tokens, padded, strict=True)]
        rows = new if state is None else [[*old, *more] for old, more in zip(state.rows, new, strict=True)]
        return torch.stack([next_log_probs(name, row) for row in rows]), Histories(rows)

    return step


def best_texts(name, prompt, most, power, number, least=0):
    """By all texts of at least that length: those that end, and after them those that are cut."""
    ended, cut = [], []
    for length in range(least, most + 1):
        for ids in product(range(1, VOCABULARY), repeat=length):
            history = [*prompt]
            total = 0.0
            for token in [*ids, EOS][:most]:
                total += next_log_probs(name, history)[token].item()
                history.append(token)
            drawn = min(length + 1, most)
            (ended if length < most else cut).append((total / drawn**power, list(ids), total))
    every = [*sorted(ended, reverse=True), *sorted(cut, reverse=True)]
    return [(ids, total) for _, ids, total in every[:number]]


def found_texts(name, prompts, most, *, beam_size, power=0.0, **options):
    wanted = TokenOptions(beam_size=beam_size, length_normalization=power)
    texts = likeliest_texts(step_of(name), prompts, eos=EOS, options=wanted, max_new_tokens=most, **options)
    return [(text.ids, text.log_prob) for text in texts]


PROMPTS = st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=3), min_size=1, max_size=3)


@given(st.integers(0, 999), PROMPTS, st.integers(1, 4), st.sampled_from([0.0, 0.5, 1.0]), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_a_beam_that_is_wide_enough_finds_the_best_texts(name, prompts, most, power, number):
    found = found_texts(name, prompts, most, beam_size=100, power=power, number=number)
    expected = [text for prompt in prompts for text in best_texts(name, prompt, most, power, number)]
    assert [ids for ids, _ in found] == [ids for ids, _ in expected]
    assert [total for _, total in found] == pytest.approx([total for _, total in expected], abs=1e-9)


@given(st.integers(0, 999), PROMPTS, st.integers(1, 4), st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_a_search_finds_the_best_texts_that_are_long_enough(name, prompts, most, least):
    least = min(least, most)
    found = found_texts(name, prompts, most, beam_size=100, number=2, min_new_tokens=least)
    assert [ids for ids, _ in found] == [
        ids for prompt in prompts for ids, _ in best_texts(name, prompt, most, 0.0, 2, least)
    ]


@given(st.integers(0, 999), PROMPTS, st.integers(1, 4), st.sampled_from([0.0, 1.0]))
@settings(max_examples=40, deadline=None)
def test_prompts_are_searched_together_as_alone(name, prompts, beam_size, power):
    options = {"beam_size": beam_size, "power": power}
    together = found_texts(name, prompts, 6, **options)
    assert together == found_texts(name, prompts, 6, batch_size=1, **options)
    assert together == [found_texts(name, [prompt], 6, **options)[0] for prompt in prompts]


@given(st.integers(0, 999), PROMPTS)
@settings(max_examples=40, deadline=None)
def test_a_beam_of_one_is_greedy(name, prompts):
    greedy = generate(
        step_of(name), prompts, eos=EOS, sampling=Sampling(greedy=True), seeds=range(len(prompts)), max_new_tokens=5,
        batch_size=2,
    )  # fmt: skip
    assert found_texts(name, prompts, 5, beam_size=1) == [(text.ids, text.log_prob) for text in greedy]


def test_equal_texts_come_in_the_order_of_their_tokens():
    def even(tokens, padding, state):
        return torch.full((len(tokens), 4), -math.log(4)).double(), Histories([[]] * len(tokens))

    options = TokenOptions(beam_size=16)
    texts = likeliest_texts(even, [[1], [2]], eos=EOS, options=options, max_new_tokens=3, number=8)
    assert [text.ids for text in texts] == 2 * [[], [1], [2], [3], [1, 1], [1, 2], [1, 3], [2, 1]]


def test_what_is_cut_comes_last_and_too_few_texts_are_refused(caplog):
    def endless(tokens, padding, state):
        log_probs = torch.tensor([0.1, 0.9, 0.0]).log().expand(len(tokens), -1)
        return log_probs, Histories([[]] * len(tokens))

    options = {"eos": EOS, "options": TokenOptions(beam_size=3), "max_new_tokens": 2}
    texts = likeliest_texts(endless, [[1]], number=3, **options)
    assert [text.ids for text in texts] == [[], [1], [1, 1]]
    assert [text.log_prob for text in texts] == pytest.approx([math.log(p) for p in (0.1, 0.09, 0.81)], rel=1e-6)
    assert "1 of 3 texts were cut at 2 new tokens" in caplog.text
    with pytest.raises(UserError, match="has found 3 texts of a prompt, and 4 are wanted"):
        likeliest_texts(endless, [[1]], number=4, **{**options, "options": TokenOptions(beam_size=5)})
    with pytest.raises(UserError, match="A beam of 3 hypotheses has no 4 texts"):
        likeliest_texts(endless, [[1]], number=4, **options)


@pytest.mark.parametrize("beam_size", [2, 5])
@torch.no_grad()
def test_carried_keys_find_what_whole_prefixes_do(beam_size):
    torch.manual_seed(0)
    model = Transformer(12, layers=2, width=16, attention_heads=2, feedforward=32, tied=False).double().eval()
    torch.nn.init.normal_(model.output_weight, std=0.5)

    def whole(tokens, padding, state):
        rows = tokens if state is None else torch.cat((state[0].tokens, tokens), 1)
        gone = torch.zeros_like(tokens, dtype=torch.bool) if padding is None else padding
        gone = gone if state is None else torch.cat((state[0].gone, gone), 1)
        hidden = model(rows, padding=gone).hidden[:, -1]
        return (hidden @ model.output_weight.T).log_softmax(-1), Whole((Prefix(rows, gone),))

    prompts = [[EOS, 3, 4], [EOS], [EOS, 5, 5, 1, 2], [EOS, 7]]
    options = {"eos": EOS, "options": TokenOptions(beam_size=beam_size), "max_new_tokens": 9, "number": 2}
    found, expected = (likeliest_texts(step, prompts, **options) for step in (transformer_step(model), whole))
    assert [text.ids for text in found] == [text.ids for text in expected]
    assert [text.log_prob for text in found] == pytest.approx([text.log_prob for text in expected], abs=1e-9)
    assert max(len(text.ids) for text in found) > 3


class Prefix:
    def __init__(self, tokens, gone):
        self.tokens, self.gone = tokens, gone


class Whole(tuple):
    """All tokens so far."""

    def select(self, rows):
        return Whole((Prefix(self[0].tokens[rows], self[0].gone[rows]),))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 0}, "beam_size: expected at least 1, found 0"),
        ({"beam_size": 2, "top_p": 0.5}, "leave out top_p, temperature, top_k and greedy, or beam_size"),
        ({"beam_size": 2, "greedy": True}, "leave out top_p"),
        ({"length_normalization": 1.0}, "give beam_size too"),
        ({"beam_size": 2, "length_normalization": -1.0}, "length_normalization: expected 0 or more, found -1.0"),
        ({"min_new_tokens": -1}, "min_new_tokens: expected at least 0, found -1"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        TokenOptions(**options)
