"""Beams against exhaustive search on small sizes; items together against items alone; what pruning may not change."""

import math
from collections import defaultdict
from dataclasses import dataclass
from unittest import mock
from zlib import crc32

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from depgen.decoding.beam import WAIT, Beam, pruned, representatives, with_next_word
from depgen.errors import UserError
from depgen.nn.rows import Rows

INF = math.inf


VALUES = st.one_of(st.integers(-4, 0).map(float), st.just(-INF))


@st.composite
def matrices(draw):
    """Scores, candidates and items of hypotheses, with many equal values; every item has a possible candidate."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    candidates = draw(st.integers(1, 5))
    items = [item for item, size in enumerate(sizes) for _ in range(size)]
    rows = draw(
        st.lists(st.lists(VALUES, min_size=candidates, max_size=candidates), min_size=len(items), max_size=len(items))
    )
    scores = draw(st.lists(st.integers(-3, 0).map(float), min_size=len(items), max_size=len(items)))
    for item in range(len(sizes)):
        rows[items.index(item)][0] = 0.0
    return torch.tensor(scores).double(), torch.tensor(rows), torch.tensor(items)


def literally_pruned(scores, log_probs, items, beam_size):
    """The best of each item by a sorted list."""
    found = []
    for item in sorted(set(items.tolist())):
        every = [
            (-(scores[row].item() + log_probs[row, candidate].item()), row, candidate)
            for row in range(len(items))
            for candidate in range(log_probs.shape[1])
            if items[row] == item
        ]
        kept = sorted(each for each in every if each[0] < INF)[:beam_size]
        found += [(item, row, candidate, -cost) for cost, row, candidate in kept]
    return found


@given(matrices(), st.integers(1, 7))
@settings(max_examples=100, deadline=None)
def test_pruning_is_that_of_a_sorted_list(hypotheses, beam_size):
    best = pruned(*hypotheses, beam_size=beam_size)
    columns = (best.items, best.rows, best.candidates, best.scores)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    assert rows == literally_pruned(*hypotheses, beam_size)
    assert best.scores.dtype == torch.float64


def test_an_item_whose_candidates_are_impossible_is_named():
    log_probs = torch.tensor([[0.0, -1.0], [-INF, -INF], [-INF, -INF], [-INF, -2.0]])
    with pytest.raises(UserError, match=r"item 1: all candidates of its 2 hypotheses have the log-probability -inf"):
        pruned(torch.zeros(4).double(), log_probs, torch.tensor([0, 1, 1, 2]), beam_size=3)
    with pytest.raises(UserError, match="item 0: all candidates of its 1 hyp"):
        pruned(torch.tensor([-INF]).double(), torch.zeros(1, 2), torch.tensor([0]), beam_size=3)
    with pytest.raises(UserError, match="NaN"):
        pruned(torch.zeros(1).double(), torch.tensor([[0.0, math.nan]]), torch.tensor([0]), beam_size=2)


@pytest.mark.slow
def test_scores_are_summed_in_double_precision():
    beam = Beam.of(Choices([()]), 1)
    for _ in range(3000):
        beam = beam.expanded(torch.tensor([[-10.1]]), Choices.chosen, beam_size=1)
    assert beam.scores.item() == pytest.approx(3000 * torch.tensor(-10.1).double().item(), rel=1e-12)


class Choices:
    """A state that remembers what was chosen."""

    def __init__(self, histories):
        self.histories = histories

    def select(self, rows):
        return Choices([self.histories[row] for row in rows.tolist()])

    def chosen(self, best):
        pairs = zip(self.select(best.rows).histories, best.candidates.tolist(), strict=True)
        return Choices([history if candidate == WAIT else (*history, candidate) for history, candidate in pairs])


def random_log_probs(*parts, size, possible=False):
    """A distribution that depends on its name alone; one candidate is impossible unless all are `possible`."""
    generator = torch.Generator().manual_seed(crc32(repr(parts).encode()))
    drawn = torch.randn(size, generator=generator, dtype=torch.float64)
    if not possible:
        drawn[torch.randint(size, (), generator=generator)] = -INF
    return drawn.log_softmax(0)


# -- given tokens, structure chosen between them ----------------------------------------------------------------------

COUNTS = 3


def token_log_prob(name, history, place):
    return random_log_probs("token", name, history, place, size=5, possible=True)[0 if place else 1].item()


def marginal_prefixes(name, length):
    """By all structures: the log-probability of each prefix of the tokens."""
    beams, found = {(): 0.0}, []
    for place in range(length):
        scored = {history: score + token_log_prob(name, history, place) for history, score in beams.items()}
        found.append(torch.tensor([*scored.values()], dtype=torch.float64).logsumexp(0).item())
        beams = {
            (*history, count): score + log_prob
            for history, score in scored.items()
            for count, log_prob in enumerate(random_log_probs("count", name, history, size=COUNTS).tolist())
            if log_prob > -INF
        }
    return found, beams


def searched_prefixes(sentences, beam_size):
    """The same by beams over sentences of several lengths at once, and the hypotheses of each at its end."""
    beam, found, ends = Beam.of(Choices([()] * len(sentences)), len(sentences)), defaultdict(list), {}
    for place in range(max(length for _, length in sentences)):
        names = [sentences[item][0] for item in beam.items.tolist()]
        histories = beam.state.histories
        tokens = [token_log_prob(name, history, place) for name, history in zip(names, histories, strict=True)]
        beam = beam.scored(torch.tensor(tokens, dtype=torch.float64), beam.state)
        for item, marginal in enumerate(beam.marginals(len(sentences)).tolist()):
            if marginal > -INF:
                found[item].append(marginal)
        pairs = zip(names, histories, strict=True)
        counts = torch.stack([random_log_probs("count", name, history, size=COUNTS) for name, history in pairs])
        beam = beam.expanded(counts, Choices.chosen, beam_size=beam_size)
        over = torch.tensor([sentences[item][1] == place + 1 for item in beam.items.tolist()])
        for row in over.nonzero()[:, 0].tolist():
            ends.setdefault(beam.items[row].item(), {})[beam.state.histories[row]] = beam.scores[row].item()
        beam = beam.only(~over)
    return [found[item] for item in range(len(sentences))], [ends[item] for item in range(len(sentences))]


SENTENCES = st.lists(st.tuples(st.integers(0, 99), st.integers(1, 5)), min_size=1, max_size=3)


@given(SENTENCES)
@settings(max_examples=30, deadline=None)
def test_a_beam_that_is_wide_enough_is_exhaustive(sentences):
    prefixes, ends = searched_prefixes(sentences, COUNTS**5)
    for (name, length), found, end in zip(sentences, prefixes, ends, strict=True):
        expected, beams = marginal_prefixes(name, length)
        assert found == pytest.approx(expected, abs=1e-9)
        assert end == pytest.approx(beams, abs=1e-9)


@given(SENTENCES, st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_sentences_are_searched_together_as_alone(sentences, beam_size):
    together = searched_prefixes(sentences, beam_size)
    alone = [searched_prefixes([sentence], beam_size) for sentence in sentences]
    assert together[0] == [prefixes for (prefixes,), _ in alone]
    assert together[1] == [ends for _, (ends,) in alone]
    wide, _ = searched_prefixes(sentences, COUNTS**5)
    for found, bound in zip(together[0], wide, strict=True):
        assert all(one <= other + 1e-9 for one, other in zip(found, bound, strict=True))


def test_the_best_hypothesis_of_each_item():
    scores = torch.tensor([-3.0, -1.0, -1.0, -2.0, -9.0, -5.0]).double()
    items = torch.tensor([0, 0, 0, 2, 2, 5])
    beam = Beam(Choices([(row,) for row in range(6)]), items, items, scores)
    assert beam.best().tolist() == [1, 3, 5]
    assert beam.only(beam.best()).state.histories == [(1,), (3,), (5,)]
    expected = [math.log(math.exp(-3) + 2 * math.exp(-1)), -INF, math.log(math.exp(-2) + math.exp(-9)), -INF, -INF, -5]
    assert beam.marginals(6).tolist() == pytest.approx(expected, abs=1e-12)


# -- beginnings in common ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source(Rows):
    """A state that says where each row is from."""

    source: Tensor


def test_representatives_begin_alike():
    generator = np.random.default_rng(0)
    lengths = torch.from_numpy(generator.integers(1, 5, 40))
    targets = torch.from_numpy(generator.integers(2, 4, (40, 5)))
    opens = torch.from_numpy(generator.random((40, 5)) < 0.7)
    opens &= torch.arange(5) < lengths[:, None]
    targets[torch.arange(40), lengths - 1] = 0
    found = representatives(targets, opens, lengths).tolist()

    def beginning(item, count):
        return targets[item, :count].tolist(), opens[item, 1 : count + 1].tolist(), count == lengths[item]

    for item, length in enumerate(lengths.tolist()):
        for count in range(1, length + 1):
            alike = (
                each
                for each in range(40)
                if lengths[each] >= count and beginning(each, count) == beginning(item, count)
            )
            assert found[item][count] == next(alike)
        assert found[item][0] == 0
        assert found[item][length + 1 :] == [item] * (5 - length)
    assert len({row[2] for row in found}) > 4, "several beginnings"


def test_each_new_leader_takes_the_hypotheses_of_the_one_before():
    items, scores = torch.tensor([0, 0, 2, 2, 2]), torch.tensor([-1.0, -2, -3, -4, -5]).double()
    beam = Beam(Source(torch.arange(5)), items, items, scores)
    before, after = torch.tensor([0, 0, 2, 0, 4, 2]), torch.tensor([0, 1, 2, 1, 4, 5])
    found = beam.regrouped(before, after)
    assert found.items.tolist() == found.on_cpu.tolist() == [0, 0, 1, 1, 2, 2, 2, 5, 5, 5]
    assert found.state.source.tolist() == [0, 1, 0, 1, 2, 3, 4, 2, 3, 4]
    assert found.scores.tolist() == [-1, -2, -1, -2, -3, -4, -5, -3, -4, -5]
    assert beam.regrouped(before, before) is beam


# -- words after structural actions -----------------------------------------------------------------------------------

ACTIONS = 4
PRODUCES = [False, False, True, True]
"""Two structural actions and two words."""


def action_log_probs(name, history):
    return random_log_probs("action", name, history, size=ACTIONS)


def searched(names, words, most, *, beam_size, **options):
    beam = Beam.of(Choices([()] * len(names)), len(names))

    def expand(beam, waits):
        pairs = zip(beam.items.tolist(), beam.state.histories, strict=True)
        return torch.stack([action_log_probs(names[item], history) for item, history in pairs])

    for _ in range(words):
        beam = with_next_word(
            beam, expand, Choices.chosen, produces=PRODUCES, beam_size=beam_size, max_actions=most, **options
        )
    found = [{} for _ in names]
    for item, history, score in zip(beam.items.tolist(), beam.state.histories, beam.scores.tolist(), strict=True):
        found[item][history] = score
    return found


def naive_words(name, words, most, *, beam_size, word_beam_size, fast_track):
    """A beam of lists: of each action the best hypotheses, and the best words in addition; no one is dropped early.

    A beam as wide as all hypotheses holds all of them.
    """
    beam = [(0.0, ())]
    for _ in range(words):
        waiting, active = [], beam
        for _ in range(most):
            if not active:
                break
            longer = [
                (score + log_prob, (*history, action), action >= 2)
                for score, history in active
                for action, log_prob in enumerate(action_log_probs(name, history).tolist())
                if log_prob > -INF
            ] + [(score, history, True) for score, history in waiting]
            longer.sort(key=lambda each: -each[0])
            kept = set(longer[:beam_size]) | {*[each for each in longer if each[2]][:fast_track]}
            waiting = [(score, history) for score, history, done in longer if done and (score, history, True) in kept]
            active = [
                (score, history) for score, history, done in longer if (score, history, done) in kept and not done
            ]
        beam = sorted(waiting, reverse=True)[:word_beam_size]
    return {history: score for score, history in beam}


@pytest.mark.slow
@given(
    st.integers(0, 999), st.sampled_from([2, 3, 4, 5, 10_000]), st.sampled_from([1, 2, 3, 5, None]), st.integers(0, 3)
)
@settings(max_examples=60, deadline=None)
def test_words_on_the_fast_track_are_kept_and_no_hopeless_hypothesis_matters(name, beam_size, word_beam_size, track):
    options = {"beam_size": beam_size, "word_beam_size": word_beam_size, "fast_track": track}
    most = 12 if beam_size < 10 else 3
    found = searched([name, name + 1], 2, most, **options)
    assert found == [pytest.approx(naive_words(each, 2, most, **options), abs=1e-9) for each in (name, name + 1)]


def test_of_words_that_are_as_likely_the_first_are_kept_and_what_comes_after_them_is_pruned_at_once():
    expanded = []

    def expand(beam, waits):
        expanded.append(beam)
        return torch.tensor([[-3.0, -2, -2, -2], [-3, -2, -2, -INF]])[beam.items]

    beam, options = Beam.of(Choices([(), ()]), 2), {"beam_size": 6, "max_actions": 2, "produces": [False, *[True] * 3]}
    with mock.patch("depgen.decoding.beam.pruned", wraps=pruned) as prunings:
        found = with_next_word(beam, expand, Choices.chosen, word_beam_size=2, **options)
    assert found.state.histories == [(1,), (2,)] * 2
    assert prunings.call_count == len(expanded) == 1


def test_a_word_that_is_not_produced_is_named():
    def expand(beam, waits):
        words = torch.tensor([-0.1, -INF])[beam.items]
        return torch.stack((torch.full_like(words, -0.2), words), 1)

    beam, options = Beam.of(Choices([(), ()]), 2), {"beam_size": 4, "max_actions": 3, "produces": [False, True]}
    with pytest.raises(UserError, match="item 1: no hypothesis has produced the next word after 3 actions"):
        with_next_word(beam, expand, Choices.chosen, **options)
