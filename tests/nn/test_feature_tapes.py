"""Tapes against shortest paths in the graph over each prefix; graphs grown by rows equal the tapes of each graph."""

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from depgen.errors import UserError
from depgen.nn.feature_tapes import FEATURES, LARGEST, GraphState, TapeOptions, arcs_by_later_word, feature_tapes
from tests import oracles_of_gilt as oracle


@st.composite
def arc_lists(draw, max_words=9):
    """Words, heads and dependents: self-loops, arcs both ways, arcs of several labels, words without any."""
    words = draw(st.integers(0, max_words))
    ends = st.tuples(st.integers(0, words), st.integers(1, max(words, 1)))
    arcs = draw(st.lists(ends, max_size=2 * words)) if words else []
    return words, np.array([head for head, _ in arcs], int), np.array([dependent for _, dependent in arcs], int)


def arcs_of(*pairs):
    return np.array([head for head, _ in pairs], int), np.array([dependent for _, dependent in pairs], int)


@settings(deadline=None)  # the first call compiles
@given(arc_lists(), st.sampled_from([(1, 10), (1, 1), (10, 1), (7, 70)]))
@example((3, *arcs_of((0, 2), (1, 2), (2, 1), (2, 3), (3, 3))), (1, 10))
@example((2, *arcs_of((0, 1), (0, 2), (0, 2), (1, 2), (1, 2))), (7, 70))
def test_tapes_are_those_of_the_graph_over_each_prefix(graph, weights):
    words, heads, dependents = graph
    for degree, distance in ((weights, (1, 10)), ((1, 10), weights)):
        found = feature_tapes(heads, dependents, words, TapeOptions(degree, distance))
        assert found.dtype == np.uint8
        arcs = set(zip(heads.tolist(), dependents.tolist(), strict=True))
        assert found.tolist() == oracle.tapes(arcs, words, degree_weights=degree, distance_weights=distance).tolist()


def test_the_tapes_of_a_sentence_of_five_words():
    tapes = feature_tapes(*arcs_of((0, 3), (3, 1), (2, 1), (3, 5), (4, 5)), 5, TapeOptions())
    degree, depth, distance = tapes.tolist()
    nothing = [0, 0, 0, 0, 0, 0]
    three = [10, 2, 10, 11, 0, 0]
    assert degree == [nothing, nothing, [0, 1, 10, 0, 0, 0], three, three, [10, 2, 10, 21, 10, 2]]
    assert depth == 3 * [[1, 0, 0, 0, 0, 0]] + 2 * [[1, 3, 4, 2, 0, 0]] + [[1, 3, 4, 2, 4, 3]]
    before = [nothing, nothing, [0, 10, 0, 0, 0, 0]]
    assert distance == [*before, [1, 10, 11, 0, 0, 0], nothing, [2, 11, 12, 1, 1, 0]]


@pytest.mark.parametrize(("arcs", "words", "feature", "expected"), [
    (((0, 1), (0, 2)), 2, "distance", {1: [1, 0, 0], 2: [1, 11, 0]}),  # a path may lead through the root
    (((1, 2), (2, 1), (2, 3)), 3, "degree", {3: [0, 11, 21, 1]}),
    (((1, 2), (2, 1), (2, 3)), 3, "distance", {2: [0, 1, 0, 0], 3: [0, 2, 1, 0]}),  # of arcs both ways the smaller
    (((1, 1), (1, 1)), 2, "degree", {2: [0, 11, 0]}),  # a self-loop counts once in and once out
    (((1, 1), (1, 1)), 2, "depth", {2: [1, 0, 0]}),  # and is no path
    (((1, 1), (1, 1)), 2, "distance", {2: [0, 0, 0]}),
])  # fmt: skip
def test_rows_of_small_graphs(arcs, words, feature, expected):
    tape = feature_tapes(*arcs_of(*arcs), words, TapeOptions())[FEATURES.index(feature)]
    assert {t: tape[t].tolist() for t in expected} == expected


def test_large_values_are_clipped_and_differ_from_no_path():
    words = 200
    heads = np.r_[np.arange(words - 1), np.zeros(words - 2, int)]
    dependents = np.r_[np.arange(1, words), np.arange(2, words)]  # a chain, all on the root; the last word has no arc
    chain = feature_tapes(heads[: words - 1], dependents[: words - 1], words, TapeOptions())
    assert chain[1, words - 1, [148, 149, 150, 199]].tolist() == [149, 150, 150, 150]
    assert chain[2, words - 1, [0, 49, 50, 199]].tolist() == [150, 150, 149, 0]
    assert not chain[2, words].any()
    assert feature_tapes(heads, dependents, words, TapeOptions())[0, words, [0, 1, words]].tolist() == [LARGEST, 11, 0]


def test_sentences_without_arcs_and_without_words():
    none = np.array([], int)
    assert feature_tapes(none, none, 0, TapeOptions()).tolist() == [[[0]], [[1]], [[0]]]
    assert feature_tapes(none, none, 2, TapeOptions())[2].max() == 0


@given(arc_lists())
def test_arcs_belong_to_their_later_word(graph):
    words, heads, dependents = graph
    arcs = {*zip(heads.tolist(), dependents.tolist(), strict=True)}
    from_earlier, to_earlier = arcs_by_later_word(heads, dependents, words)
    assert from_earlier.tolist() == [
        [(j, i) in arcs and j < i for j in range(words + 1)] for i in range(1, words + 1)
    ]  # fmt: skip
    assert to_earlier.tolist() == [
        [(i, j) in arcs and j <= i for j in range(words + 1)] for i in range(1, words + 1)
    ]  # fmt: skip
    counts = from_earlier.sum(1) + np.tril(to_earlier).sum(1)  # j <= i - 1: without self-loops
    assert counts.tolist() == [sum(max(arc) == i and arc != (i, i) for arc in arcs) for i in range(1, words + 1)]


@pytest.mark.parametrize("arc", [(999, 2), (2, 999), (-1, 1), (2, 0), (4, 1), (1, 4)])
def test_an_arc_of_a_word_that_there_is_not(arc):
    with pytest.raises(UserError, match=rf"edge 2 .* from {arc[0]} to {arc[1]}: .* to 3.* annotate again"):
        feature_tapes(*arcs_of((0, 1), arc), 3, TapeOptions())


@pytest.mark.parametrize("options", [{"degree_weights": (0, 10)}, {"distance_weights": (1, 151)}])
def test_options_out_of_range(options):
    with pytest.raises(UserError, match=f"{next(iter(options))}: .* from 1 to 150"):
        TapeOptions(**options)


OPTIONS = [TapeOptions(), TapeOptions((1, 1), (10, 1)), TapeOptions((7, 70), (7, 70))]


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
    graphs = st.lists(ends, max_size=2 * words).map(lambda arcs: arcs_of(*arcs))
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
