"""Sampled texts against a plain loop; beams of tokens against all texts on small sizes, and greedy decoding."""

import logging
import math
from dataclasses import replace
from itertools import product
from zlib import crc32

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.backbones.transformer import Transformer, TransformerState
from depgen.decoding.generation import generate
from depgen.decoding.sampling import sample
from depgen.decoding.settings import BeamOptions, Sampling, TokenOptions
from depgen.errors import UserError

EOS = 0


class Histories:
    """A state that remembers every row's tokens."""

    def __init__(self, rows):
        self.rows = rows

    def select(self, rows):
        return Histories([self.rows[row] for row in rows.tolist()])


def stepping(log_probs_of):
    """A step whose distribution is a function of all tokens of a row."""

    def step(tokens, padding, state):
        padded = torch.zeros_like(tokens, dtype=torch.bool) if padding is None else padding
        new = [row[~gone].tolist() for row, gone in zip(tokens, padded, strict=True)]
        rows = new if state is None else [[*old, *more] for old, more in zip(state.rows, new, strict=True)]
        return torch.stack([log_probs_of(row) for row in rows]), Histories(rows)

    return step


def texts_of(step, prompts, options, *, most, number=1, **others):
    """Tokens and log-probabilities of the texts."""
    seeds = range(len(prompts) * number)
    texts = generate(step, prompts, eos=EOS, options=options, seeds=seeds, max_new_tokens=most, number=number, **others)
    assert all(text.structure is None for text in texts)
    return [text.ids for text in texts], [text.log_prob for text in texts]


# -- sampled texts ----------------------------------------------------------------------------------------------------


def count_down(prompts, sizes=None, *, most=50, **changes):
    """Texts that count down from the last token of the prompt to eos; the sizes of the step's batches go to `sizes`."""

    def one_less(history):
        assert history == sorted(history, reverse=True), "padding seen as a token, or rows mixed up"
        return torch.full((40,), -math.inf).index_fill(0, torch.tensor(max(history[-1] - 1, 0)), 0.0)

    def step(tokens, padding, state):
        if sizes is not None:
            sizes.append(len(tokens))
        return stepping(one_less)(tokens, padding, state)

    ids, log_probs = texts_of(step, prompts, Sampling(), most=most, **{"batch_size": 4, **changes})
    assert not any(log_probs), "there is never a choice"
    return ids


def test_texts_come_in_the_order_of_the_prompts_without_eos():
    prompts = [[9, 5], [3], [39, 20, 11, 7], [1], [30, 2], [8]]
    assert count_down(prompts) == [list(range(prompt[-1] - 1, 0, -1)) for prompt in prompts]
    assert count_down([]) == []


def test_finished_texts_leave_the_batch():
    sizes: list[int] = []
    count_down([[2], [4], [8], [30]], sizes)
    assert (sizes[0], sizes[5], sizes[-1], len(sizes)) == (4, 2, 1, 30)


def test_cut_texts_are_counted(caplog):
    with caplog.at_level(logging.WARNING):
        texts = count_down([[3], [20], [30], [6]], most=5)
    assert texts == [[2, 1], [19, 18, 17, 16, 15], [29, 28, 27, 26, 25], [5, 4, 3, 2, 1]]
    assert "3 of 4 texts were cut at 5 new tokens" in caplog.text  # the last one had no room for its eos


def transformer_step(model: Transformer):
    def step(tokens, padding, state: TransformerState | None):
        output = model(tokens, padding=padding, state=state, carry=True)
        return (output.hidden[:, -1] @ model.output_weight.T).log_softmax(-1), output.state

    return step


def plain_text(model, prompt, seed, sampling, most, least):
    """One text by the book, with its log-probability: the whole prefix is run again for each token."""
    generator, text, total = torch.Generator().manual_seed(seed), [], 0.0
    for _ in range(most):
        hidden = model(torch.tensor([[*prompt, *text]])).hidden[:, -1]
        log_probs = (hidden @ model.output_weight.T).log_softmax(-1)
        possible = log_probs.clone()
        if len(text) < least:
            possible[:, EOS] = -torch.inf
        token = sample(possible, sampling, [generator]).item()
        total += log_probs[0, token].item()
        if token == EOS:
            break
        text.append(token)
    return text, total


@pytest.mark.slow
@pytest.mark.parametrize("least", [0, 12])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(top_p=0.8, temperature=1.2)], ids=str)
@torch.no_grad()
def test_batches_of_any_size_give_the_texts_of_the_plain_loop(sampling, least):
    torch.manual_seed(0)
    # In double precision: of hundreds of draws at 1e-7 one may well fall between two tokens that change places.
    model = Transformer(30, layers=2, width=16, attention_heads=2, feedforward=32, tied=False).double().eval()
    prompts = [[EOS, *range(1, 1 + item % 7)] for item in range(16)]
    expected = [plain_text(model, prompt, seed, sampling, 30, least) for seed, prompt in enumerate(prompts)]
    assert len({len(text) for text, _ in expected}) > 3
    assert min(len(text) for text, _ in expected) >= least
    options = TokenOptions(top_p=sampling.top_p, temperature=sampling.temperature, min_new_tokens=least)
    for batch_size in (1, 7, 64):
        ids, log_probs = texts_of(transformer_step(model), prompts, options, most=30, batch_size=batch_size)
        assert ids == [text for text, _ in expected]
        assert log_probs == pytest.approx([total for _, total in expected], abs=1e-9)


# -- texts that are searched for --------------------------------------------------------------------------------------

VOCABULARY = 3


def next_log_probs(name, history):
    generator = torch.Generator().manual_seed(crc32(repr((name, *history)).encode()))
    return (2 * torch.randn(VOCABULARY, generator=generator, dtype=torch.float64)).log_softmax(0)


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


def searched(name, prompts, most, *, beam_size, power=0.0, least=0, **others):
    options = TokenOptions(beam_size=beam_size, length_normalization=power, min_new_tokens=least)
    return texts_of(stepping(lambda history: next_log_probs(name, history)), prompts, options, most=most, **others)


PROMPTS = st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=3), min_size=1, max_size=3)


@given(
    st.integers(0, 999), PROMPTS, st.integers(1, 4), st.sampled_from([0.0, 0.5, 1.0]), st.integers(1, 3),
    st.integers(0, 3),
)  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_a_beam_that_is_wide_enough_finds_the_best_texts(name, prompts, most, power, number, least):
    least, number = min(least, most), min(number, 2 if least else 3)
    ids, totals = searched(name, prompts, most, beam_size=100, power=power, number=number, least=least)
    expected = [text for prompt in prompts for text in best_texts(name, prompt, most, power, number, least)]
    assert ids == [ids for ids, _ in expected]
    assert totals == pytest.approx([total for _, total in expected], abs=1e-9)


@given(st.integers(0, 999), PROMPTS, st.integers(1, 4), st.sampled_from([0.0, 1.0]))
@settings(max_examples=40, deadline=None)
def test_prompts_are_searched_together_as_alone(name, prompts, beam_size, power):
    options = {"beam_size": beam_size, "power": power}
    together = searched(name, prompts, 6, **options)
    assert together == searched(name, prompts, 6, batch_size=1, **options)
    alone = [searched(name, [prompt], 6, **options) for prompt in prompts]
    assert together == ([ids for (ids,), _ in alone], [total for _, (total,) in alone])


@given(st.integers(0, 999), PROMPTS)
@settings(max_examples=40, deadline=None)
def test_a_beam_of_one_is_greedy(name, prompts):
    step = stepping(lambda history: next_log_probs(name, history))
    greedy = texts_of(step, prompts, Sampling(greedy=True), most=5, batch_size=2)
    assert searched(name, prompts, 5, beam_size=1) == greedy


def test_equal_texts_come_in_the_order_of_their_tokens():
    even = stepping(lambda history: torch.full((4,), -math.log(4)).double())
    ids, _ = texts_of(even, [[1], [2]], BeamOptions(beam_size=16), most=3, number=8)
    assert ids == 2 * [[], [1], [2], [3], [1, 1], [1, 2], [1, 3], [2, 1]]


def test_what_is_cut_comes_last_and_too_few_texts_are_refused(caplog):
    endless = stepping(lambda history: torch.tensor([0.1, 0.9, 0.0]).log())
    ids, log_probs = texts_of(endless, [[1]], BeamOptions(beam_size=3), most=2, number=3)
    assert ids == [[], [1], [1, 1]]
    assert log_probs == pytest.approx([math.log(p) for p in (0.1, 0.09, 0.81)], rel=1e-6)
    assert "1 of 3 texts were cut at 2 new tokens" in caplog.text
    with pytest.raises(UserError, match="has found 3 texts of a prompt, and 4 are wanted"):
        texts_of(endless, [[1]], BeamOptions(beam_size=5), most=2, number=4)
    with pytest.raises(UserError, match="A beam of 3 hypotheses has no 4 texts"):
        texts_of(endless, [[1]], BeamOptions(beam_size=3), most=2, number=4)


@pytest.mark.parametrize("beam_size", [2, 5])
@torch.no_grad()
def test_carried_keys_find_what_whole_prefixes_do(beam_size):
    torch.manual_seed(0)
    model = Transformer(12, layers=2, width=16, attention_heads=2, feedforward=32, tied=False).double().eval()
    torch.nn.init.normal_(model.output_weight, std=0.5)
    whole = stepping(lambda history: transformer_step(model)(torch.tensor([history]), None, None)[0][0])
    prompts, options = [[EOS, 3, 4], [EOS], [EOS, 5, 5, 1, 2], [EOS, 7]], BeamOptions(beam_size=beam_size)
    ids, log_probs = texts_of(transformer_step(model), prompts, options, most=9, number=2)
    expected, expected_log_probs = texts_of(whole, prompts, options, most=9, number=2)
    assert ids == expected
    assert log_probs == pytest.approx(expected_log_probs, abs=1e-9)
    assert max(map(len, ids)) > 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_p": 0.0}, "top-p"),
        ({"top_p": 1.1}, "top-p"),
        ({"top_k": -1}, "top_k: expected at least 0"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"beam_size": 0}, "beam_size: expected at least 1"),
        ({"beam_size": 2, "top_p": 0.5}, "leave out top_p"),
        ({"length_normalization": 1.0}, "give beam_size too"),
        ({"beam_size": 2, "length_normalization": -1.0}, "length_normalization"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        TokenOptions(**options)


# -- unknown words ----------------------------------------------------------------------------------------------------

UNKNOWN = torch.tensor([0.0, 0.8, 0.12, 0.08]).log()


@pytest.mark.parametrize(
    "options", [Sampling(greedy=True), BeamOptions(beam_size=2), Sampling(top_p=0.9), Sampling()], ids=str
)
def test_unknown_words_are_written_only_where_options_say_so(options):
    """Token 1 is the unknown one; log-probabilities are those of the distribution that has it."""
    step = stepping(lambda history: UNKNOWN)
    texts, log_probs = texts_of(step, [[2]] * 40, options, most=5, unk=1)
    assert {token for text in texts for token in text} <= {2, 3}
    assert log_probs == pytest.approx([UNKNOWN[text].sum().item() for text in texts])
    with_unknown, _ = texts_of(step, [[2]] * 40, replace(options, unknown=True), most=5, unk=1)
    assert any(1 in text for text in with_unknown)
