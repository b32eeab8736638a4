"""Graphs grown by rows equal the tapes of each graph; rows that are selected, that wait, and that are padding."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.decoding.graph_state import GraphState
from depgen.trees.feature_tapes import LARGEST, TapeOptions, arcs_by_later_word, feature_tapes

OPTIONS = [TapeOptions(), TapeOptions((1, 1), (10, 1)), TapeOptions((7, 70), (7, 70))]


def of(*arcs):
    """Heads and dependents."""
    return np.array([head for head, _ in arcs], int), np.array([dependent for _, dependent in arcs], int)


def word_arcs(graphs, word, words):
    """What `inserted` takes of one word of each graph, with columns up to the word before."""
    both = [arcs_by_later_word(*graph, words) for graph in graphs]
    return (torch.from_numpy(np.stack([each[side][word - 1, :word] for each in both])) for side in (0, 1))


def with_a_word(state, from_earlier, to_earlier):
    """The state with one word more in each row."""
    inserts = torch.ones_like(state.lengths, dtype=torch.bool)
    return state.inserted(from_earlier, to_earlier, inserts=inserts, words=state.words + 1)


def states_of(graphs, words, options=OPTIONS[0]):
    """The states after 0, 1, ... words."""
    found = [GraphState.empty(len(graphs), options)]
    for word in range(1, words + 1):
        found.append(with_a_word(found[-1], *word_arcs(graphs, word, words)))
    return found


@st.composite
def several_graphs(draw, max_words=7, max_rows=4):
    """Words, and graphs over as many: arcs both ways, of several labels, words without any; no self-loops."""
    words = draw(st.integers(1, max_words))
    ends = st.tuples(st.integers(0, words), st.integers(1, words)).filter(lambda arc: arc[0] != arc[1])
    graphs = st.lists(ends, max_size=2 * words).map(lambda arcs: of(*arcs))
    return words, draw(st.lists(graphs, min_size=1, max_size=max_rows))


@pytest.mark.slow
@settings(deadline=None)
@given(several_graphs(), st.sampled_from(OPTIONS), st.data())
def test_features_of_rows_that_are_selected_are_rows_of_the_tapes(drawn, options, data):
    words, graphs = drawn
    state = GraphState.empty(len(graphs), options)
    for word in range(words + 1):
        if word:
            rows = data.draw(st.lists(st.integers(0, len(graphs) - 1), min_size=1, max_size=5))
            state, graphs = state.select(torch.tensor(rows)), [graphs[row] for row in rows]
            state = with_a_word(state, *word_arcs(graphs, word, words))
        tapes = [feature_tapes(*graph, words, options) for graph in graphs]
        assert state.words == word
        assert state.features.dtype == torch.uint8
        assert state.features.tolist() == np.stack([tape[:, word, : word + 1] for tape in tapes], 1).tolist()
    for edges, (heads, dependents) in zip(state.edges(torch.arange(len(graphs))), graphs, strict=True):
        arcs = {*zip(dependents.tolist(), heads.tolist(), strict=True)}
        assert [edge[:2] for edge in edges] == [(head, dependent) for dependent, head in sorted(arcs)]


@pytest.mark.slow
@settings(deadline=None)
@given(several_graphs(), st.data())
def test_rows_may_wait(drawn, data):
    words, graphs = drawn
    state, lengths = GraphState.empty(len(graphs), OPTIONS[0]), np.zeros(len(graphs), int)
    while lengths.min() < words:
        inserts = np.array(data.draw(st.lists(st.booleans(), min_size=len(graphs), max_size=len(graphs))))
        inserts |= not inserts.any()
        inserts &= lengths < words
        sides = np.zeros((2, len(graphs), state.words + 1), bool)
        for row in np.flatnonzero(inserts):
            word = lengths[row] + 1
            for side, arcs in enumerate(arcs_by_later_word(*graphs[row], words)):
                sides[side, row, :word] = arcs[word - 1, :word]
        lengths += inserts
        state = state.inserted(*torch.from_numpy(sides), inserts=torch.from_numpy(inserts), words=int(max(lengths)))
        assert state.lengths.tolist() == lengths.tolist()
        assert state.words == max(lengths)
        for row, (graph, length) in enumerate(zip(graphs, lengths, strict=True)):
            tape = feature_tapes(*graph, words, OPTIONS[0])
            assert state.features[:, row].tolist() == tape[:, length, : state.words + 1].tolist()


def test_long_paths_are_clipped_and_differ_from_no_path():
    words = 200
    heads = np.r_[np.arange(words - 1), np.zeros(words - 2, int)]
    dependents = np.r_[np.arange(1, words), np.arange(2, words)]
    chain, star = (heads[: words - 1], dependents[: words - 1]), (heads, dependents)
    states = states_of([chain, star], words)
    tapes = [feature_tapes(*graph, words, OPTIONS[0]) for graph in (chain, star)]
    for t in (150, words - 1, words):
        assert states[t].features.tolist() == np.stack([tape[:, t, : t + 1] for tape in tapes], 1).tolist()
    assert states[words - 1].features[1, 0, -1] == states[words].features[0, 1, 0] == LARGEST
    assert states[words].features[2, 0, :-1].unique().tolist() == [0]


@pytest.mark.gpu
def test_graphs_on_a_gpu_are_those_on_the_cpu():
    arcs = torch.rand(2, 6, 20, 20, generator=torch.Generator().manual_seed(0)) < 0.1
    arcs[1, :, :, 0] = False
    here, there = GraphState.empty(6, OPTIONS[0]), GraphState.empty(6, OPTIONS[0], device="cuda")
    for t in range(20):
        here = with_a_word(here, *arcs[:, :, t, : t + 1])
        there = with_a_word(there, *arcs[:, :, t, : t + 1].cuda())
        assert torch.equal(there.features.cpu(), here.features)
