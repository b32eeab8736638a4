"""Tree regularisation against loops over its formulas."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.training.tree_regularization import TreeRegularization, bracketing_of_chart, possible_cuts
from depgen.trees.attachments import cuts_of
from tests.models.bracketings import all_attachments, spans_of

WHOLE = TreeRegularization(layer=1, share=1.0)
EVERY_TOKEN = [spans_of(each) for n in (3, 4, 5) for each in all_attachments(n) if (0, n) in spans_of(each)]


def orthogonal(states, start, end):
    """|orth(h_end, h_{start-1})|, 0-based; 0 at the beginning and after the end."""
    if start == 0 or end == len(states):
        return 0.0
    context, span = states[start - 1], states[end]
    direction = context / math.sqrt(sum(float(x) ** 2 for x in context))
    rest = [float(x) - float(span @ direction) * float(d) for x, d in zip(span, direction, strict=True)]
    return math.sqrt(sum(x**2 for x in rest))


def independence(states, start, end):
    """SCIN of the tokens from start to end, both included."""
    return orthogonal(states, start, end) + orthogonal(states, end + 1, end + 1)


def loss_by_loops(sentences, trees, word_starts):
    """L_TR of several sentences."""
    total = 0.0
    for states, spans, starts in zip(sentences, trees, word_starts, strict=True):
        losses = []
        for start, middle, end in cuts_of(spans):
            scores = {
                cut: independence(states, start, cut - 1) + independence(states, cut, end - 1)
                for cut in range(start + 1, end)
                if starts[cut]
            }
            if len(scores) > 1:
                losses.append(math.log(sum(map(math.exp, scores.values()))) - scores[middle])
        total += sum(losses) / len(losses) if losses else 0.0
    return total / len(sentences)


def penalty(regularization, sentences, trees, word_starts):
    """The same by the package, in one batch."""
    longest, first, cuts = max(map(len, sentences)), 0, []
    hidden = torch.full((len(sentences), longest, sentences[0].size(1)), 9.0, dtype=torch.float64)
    is_token = torch.zeros(len(sentences), longest, dtype=torch.bool)
    for row, (states, spans, starts) in enumerate(zip(sentences, trees, word_starts, strict=True)):
        hidden[row, : len(states)], is_token[row, : len(states)] = states, True
        cuts.append(possible_cuts(spans, np.array(starts), row=row, first=first))
        first += int(cuts[-1][:, 5].sum())
    chart = regularization.chart(hidden, is_token)
    return regularization(chart, torch.from_numpy(np.concatenate(cuts)), len(sentences))


@given(st.lists(st.sampled_from(EVERY_TOKEN), min_size=1, max_size=4), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_the_penalty_is_that_of_loops(trees, seed):
    torch.manual_seed(seed)
    sentences = [torch.randn(max(end for _, end in spans), 3).double() for spans in trees]
    every = [[True] * len(states) for states in sentences]
    found = penalty(WHOLE, sentences, trees, every)
    assert found.item() == pytest.approx(loss_by_loops(sentences, trees, every), abs=1e-9)


def test_a_tree_of_three_words():
    # h = (1, 0), (0, 2), (3, 0): |orth(h2, h1)| = 2, |orth(h3, h2)| = 3, |orth(h3, h1)| = 0
    states = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]).double()
    # (a (b c)): SCIN(a) = 0 + 2, SCIN(b c) = 0 + 0; ((a b) c): SCIN(a b) = 0 + 3, SCIN(c) = 3 + 0
    for spans, gold in (([(0, 3), (1, 3)], 2.0), ([(0, 3), (0, 2)], 6.0)):
        expected = math.log(math.exp(2) + math.exp(6)) - gold
        found = penalty(WHOLE, [states], [spans], [[True] * 3]).item()
        assert found == pytest.approx(expected, abs=1e-5)  # the root of 0 is 1e-6
    chart = WHOLE.chart(states[None], torch.ones(1, 3, dtype=torch.bool))[0]
    assert bracketing_of_chart(chart, np.ones(3, dtype=bool)) == [(0, 2), (0, 3)]


def test_words_are_not_cut():
    torch.manual_seed(1)
    sentences = [torch.randn(5, 4).double(), torch.randn(3, 4).double()]
    starts = [[True, True, False, True, True], [True, False, True]]
    trees = [[(0, 5), (0, 3), (1, 3), (3, 5)], [(0, 3), (0, 2)]]
    found = penalty(WHOLE, sentences, trees, starts)
    assert found.item() == pytest.approx(loss_by_loops(sentences, trees, starts), abs=1e-9)
    assert possible_cuts(trees[0], np.array(starts[0]))[:, 1:].tolist() == [
        [0, 1, 5, 0, 0],
        [0, 3, 5, 0, 1],
        [0, 4, 5, 0, 0],
    ]
    chart = WHOLE.chart(sentences[0][None], torch.ones(1, 5, dtype=torch.bool))[0]
    found = bracketing_of_chart(chart, np.array(starts[0]))
    assert len(found) == 3
    assert not {2} & {place for span in found for place in span}


def test_only_the_first_entries_of_states_count():
    states = torch.randn(2, 4, 8).double()
    part, is_token = TreeRegularization(layer=1, share=0.5), torch.ones(2, 4, dtype=torch.bool)
    torch.testing.assert_close(part.chart(states, is_token), WHOLE.chart(states[..., :4], is_token))
