"""Agreement of trees and graphs: counts by loops and by SuPar, and by hand."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from supar.utils.metric import ChartMetric

from depgen.metrics.attachment import attachment, compared_edges, compared_words, edge_scores
from depgen.trees.sentence import Sentence
from tests.trees.trees import graphs, head_lists

TREES = st.integers(0, 6).flatmap(
    lambda n: st.tuples(
        head_lists(min_size=n, max_size=n) if n else st.just([]),
        st.lists(st.integers(0, n), min_size=n, max_size=n),  # no tree, as each word's likeliest head
        *[st.lists(st.sampled_from("xyz"), min_size=n, max_size=n)] * 2,
    )
)


def tree(heads, relations=None):
    return Sentence(("w",) * len(heads), tuple(heads), relations and tuple(relations))


def pairs(heads):
    return {frozenset((word, head or word)) for word, head in enumerate(heads, start=1)}


@given(st.lists(TREES, max_size=6))
def test_words_are_those_of_loops_and_sets_of_pairs(sentences):
    words = compared_words(
        [tree(heads, relations) for heads, _, relations, _ in sentences],
        [tree(heads, relations) for _, heads, _, relations in sentences],
    )
    every = [row for one, two, r, s in sentences for row in zip(one, two, r, s, strict=True)]
    assert words["uas"].tolist() == [100 * (one == two) for one, two, *_ in every]
    assert words["las"].tolist() == [100 * (one == two and r == s) for one, two, r, s in every]
    assert words["relation"].tolist() == [row[2] for row in every]
    lengths = [len(each[0]) for each in sentences]
    assert words["length"].tolist() == [n for n in lengths for _ in range(n)]
    by_sentence = words.groupby("sentence")["uda"].sum().reindex(range(len(sentences)), fill_value=0)
    assert by_sentence.tolist() == [100 * len(pairs(one) & pairs(two)) for one, two, *_ in sentences]


def test_a_tree_by_hand():
    # she <- saw -> dogs -> old, with "saw" the root
    gold, rows = tree([2, 0, 4, 2]), {}
    for name, heads in {"turned": [0, 1, 4, 2], "mutual": [2, 1, 4, 2], "same": [2, 0, 4, 2]}.items():
        rows[name] = attachment(compared_words([gold], [tree(heads)]))
    assert (rows["turned"]["uas"], rows["turned"]["uda"]) == (50, 75)
    assert (rows["mutual"]["uas"], rows["mutual"]["uda"]) == (75, 75)  # two words that head one another are one pair
    assert (rows["same"]["uas"], rows["same"]["uda"]) == (100, 100)  # the root is a pair of its own
    assert np.isnan(rows["same"]["las"])
    assert np.isnan([*attachment(compared_words([], [])).values()]).all()


# -- edges ------------------------------------------------------------------------------------------------------------


def counted(gold, found, length):
    """Right, found and gold edges with their labels, then pairs, by a look at everything there could be."""
    places = list(product(range(length + 1), repeat=2))
    names = {name for *_, name in (*gold, *found)}
    labelled = [[(*pair, name) in side for pair in places for name in names] for side in (gold, found)]
    unlabelled = [[any((*pair, name) in side for name in names) for pair in places] for side in (gold, found)]
    return np.array([(sum(map(min, *both)), sum(both[1]), sum(both[0])) for both in (labelled, unlabelled)])


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 5).flatmap(lambda n: st.tuples(graphs(n), graphs(n), st.just(n))), min_size=1, max_size=3)
)
def test_scores_of_edges_are_those_of_loops(drawn):
    scores = edge_scores(compared_edges([each[0] for each in drawn], [each[1] for each in drawn]))
    counts = sum(counted(*each) for each in drawn)
    for kind, (right, found, gold) in zip(("labelled", "unlabelled"), counts.tolist(), strict=True):
        if kind == "labelled":
            assert (scores["gold"], scores["found"]) == (gold, found)
        for key, part, whole in (("precision", right, found), ("recall", right, gold), ("f1", 2 * right, found + gold)):
            expected = 100 * part / whole if whole else float("nan")
            assert scores[f"{kind}_{key}"] == pytest.approx(expected, nan_ok=True)


@settings(max_examples=30)
@given(
    st.integers(2, 6).flatmap(
        lambda n: st.lists(st.lists(st.integers(-1, 1), min_size=n * n, max_size=n * n), min_size=2, max_size=2)
    )
)
def test_scores_of_edges_are_those_of_supar(drawn):
    charts = torch.tensor(drawn).view(2, -1, int(len(drawn[0]) ** 0.5))
    charts[:, 0] = -1
    charts.diagonal(dim1=1, dim2=2).fill_(-1)
    charts[:, 1, 0] = 0
    gold, found = (
        {(head, word, "ab"[chart[word, head]]) for word, head in chart.ge(0).nonzero().tolist()} for chart in charts
    )
    scores, other = edge_scores(compared_edges([gold], [found])), ChartMetric()(charts[1], charts[0])
    theirs = [100 * each for each in (other.up, other.ur, other.uf, other.p, other.r, other.f)]
    assert [*scores.values()][2:] == pytest.approx(theirs)


@settings(max_examples=30)
@given(st.integers(1, 6).flatmap(lambda n: st.tuples(*[head_lists(min_size=n, max_size=n)] * 2)))
def test_trees_as_graphs_have_the_scores_of_trees(drawn):
    relations = [["ab"[head % 2] for head in heads] for heads in drawn]
    edges = [{*zip(heads, range(1, 7), own, strict=False)} for heads, own in zip(drawn, relations, strict=True)]
    graph = edge_scores(compared_edges(edges[:1], edges[1:]))
    scores = attachment(compared_words([tree(drawn[0], relations[0])], [tree(drawn[1], relations[1])]))
    assert [*graph.values()] == pytest.approx([len(drawn[0])] * 2 + [scores["uas"]] * 3 + [scores["las"]] * 3)
