"""Stacks that grow column by column against the positions of whole strings."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.decoding.bracket_state import BracketState
from depgen.nn.stack_attention import stack_attention
from depgen.trees.tree_strings import NOTHING, ROWS, WORD, positions_of, symbols_of
from tests.models.labelled_trees import trees


def grown(symbols):
    """The states after each column of a string, but its last bracket."""
    states = [BracketState.beginning(1)]
    for symbol in symbols[:-1]:
        now = torch.tensor([symbol])
        if symbol > WORD and symbol % 2 == 0:
            states.append(states[-1].composed(torch.tensor([True])))
        states.append(states[-1].pushed(now))
    return states


@given(trees())
@settings(max_examples=40, deadline=None)
def test_columns_are_what_positions_say(tree):
    length, spans = tree
    symbols = symbols_of(spans, length)
    found = dict(zip(ROWS, torch.from_numpy(positions_of(symbols)).long(), strict=True))
    composes = (found["targets"] == NOTHING) & (found["symbols"] > WORD)
    whole = stack_attention(found["leaves"][None], composes[None], found["depths"][None])
    states = grown(symbols)
    assert len(states) == len(composes)
    for place, state in enumerate(states):
        assert state.seen[0].tolist() == whole.visible[0, place, : place + 1].tolist()
        seen = state.seen[0]
        assert torch.equal(state.distances[0].clamp(-1, 62)[seen], whole.distances[0, place, : place + 1][seen])
        if not composes[place]:
            assert state.closable.tolist() == [int(found["closable"][place])]
            assert state.openings.tolist() == [int(found["openings"][place])]
            before = slice(1, place + 1)
            assert torch.equal(state.symbols[0], found["symbols"][before][~composes[before]])


@given(trees(most_words=5), trees(most_words=5), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_rows_do_not_depend_on_each_other_and_columns_off_the_stack_do_not_matter(one, other, random):
    strings = [symbols_of(spans, length)[:-1] for length, spans in (one, other)]
    left, steps = [list(reversed(each)) for each in strings], []  # the symbols of both, with gaps
    while any(left):
        steps.append(torch.tensor([each.pop() if each and random.random() < 0.7 else NOTHING for each in left]))
    state = BracketState.beginning(2)
    for symbols in steps:
        closes = (symbols > WORD) & (symbols % 2 == 0)
        if closes.any():
            state = state.composed(closes)
        state = state.pushed(symbols)
        if random.random() < 0.5:
            state, kept = state.compacted()
            assert 1 + kept.size(1) == state.depths.size(1) == 1 + int(state.on_stack.sum(1).max())
            assert not state.on_stack[:, 0].any()
    for row, string in enumerate(strings):
        alone = grown([*string, 0])[-1]
        own = state.on_stack[row]
        assert torch.equal(state.depths[row][own], alone.depths[alone.on_stack])
        assert torch.equal(state.labels[row][own & state.is_open[row]], alone.labels[alone.is_open])
        assert state.closable[row] == alone.closable[0]
        assert state.open_brackets[row] == alone.open_brackets[0]
        assert [each for each in state.symbols[row].tolist() if each != NOTHING] == string
    swapped = state.select(torch.tensor([1, 0, 1]))
    assert torch.equal(swapped.closable, state.closable[[1, 0, 1]])
