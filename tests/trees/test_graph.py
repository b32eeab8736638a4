"""Graphs: what is refused, and contraction against paths that networkx finds."""

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.errors import UserError
from depgen.trees.graph import check_graph, contract, sorted_edges, without_relations
from depgen.trees.removal import keep_words
from depgen.trees.sentence import Sentence
from tests.trees.trees import graphs, head_lists


def is_graph(edges, length, *, self_loops):
    """Whether a networkx multigraph over the words and the root can hold the edges, each once."""
    graph = networkx.MultiDiGraph()
    graph.add_nodes_from(range(length + 1))
    for head, dependent, label in edges:
        if graph.has_edge(head, dependent, key=label):
            return False
        graph.add_edge(head, dependent, key=label)
    loops = networkx.number_of_selfloops(graph) > 0
    return (
        len(graph) == length + 1 and graph.in_degree(0) == 0 and (self_loops or not loops) and "" not in labels(graph)
    )


def labels(graph):
    return {label for *_, label in graph.edges(keys=True)}


ANY_EDGES = st.lists(st.tuples(st.integers(-1, 5), st.integers(-1, 5), st.sampled_from(["a", "b", ""])), max_size=5)


@given(edges=ANY_EDGES | graphs(4, max_edges=5), length=st.integers(3, 5), self_loops=st.booleans())
def test_refuses_exactly_what_is_no_graph(edges, length, self_loops):
    try:
        check_graph(edges, length, "here", self_loops=self_loops)
    except UserError:
        assert not is_graph(edges, length, self_loops=self_loops)
    else:
        assert is_graph(edges, length, self_loops=self_loops)


@given(st.lists(st.permutations([(0, 2, "top"), (1, 2, "a"), (1, 2, "b"), (2, 1, "a"), (3, 1, "a")]), min_size=1))
def test_the_order_is_by_dependent_head_and_label(orders):
    expected = ((2, 1, "a"), (3, 1, "a"), (0, 2, "top"), (1, 2, "a"), (1, 2, "b"))
    assert {sorted_edges(order) for order in orders} == {expected}
    with pytest.raises(AssertionError):
        Sentence(("x", "y", "z"), edges=expected[::-1])


def paths(edges, gone):
    """Every path from a node that stays, through nodes that go, to a node that stays: found by networkx."""
    graph = networkx.MultiDiGraph()
    graph.add_nodes_from(gone)
    for head, dependent, label in edges:  # a node that stays is a source and a sink, so that no path runs through it
        ends = (head if head in gone else ("from", head), dependent if dependent in gone else ("to", dependent))
        graph.add_edge(*ends, key=label)
    sources = [node for node in graph if node not in gone and node[0] == "from"]
    sinks = [node for node in graph if node not in gone and node[0] == "to"]
    for source in sources:
        for path in networkx.all_simple_edge_paths(graph, source, sinks):
            yield source[1], path[-1][1][1], tuple(label for *_, label in path)


@given(edges=graphs(4, max_edges=12) | graphs(6, max_edges=10), gone=st.sets(st.integers(1, 4), max_size=3))
def test_contraction_gives_an_edge_for_every_path(edges, gone):
    found = contract(edges, gone)
    assert found == sorted_edges(
        {(head, dependent, ">".join(labels)) for head, dependent, labels in paths(edges, gone)}
    )


@given(edges=graphs(6, max_edges=10), kept=st.lists(st.booleans(), min_size=6, max_size=6))
def test_words_that_stay_get_the_heads_that_paths_through_words_left_out_lead_to(edges, kept):
    words = tuple("123456")
    result = keep_words(Sentence(words, edges=edges, tags=words), kept)
    named = {(h and int(result.words[h - 1]), int(result.words[d - 1]), label) for h, d, label in result.edges}
    gone = {number for number, keep in enumerate(kept, start=1) if not keep}
    assert named == {(h, d, each[-1]) for h, d, each in paths(edges, gone) if h != d}
    check_graph(result.edges, len(result), "cut")


@given(head_lists().flatmap(lambda heads: st.tuples(st.just(heads), st.lists(st.booleans(), min_size=len(heads)))))
def test_a_tree_as_a_graph_is_cut_as_the_tree_is(drawn):
    heads, kept = drawn[0], drawn[1][: len(drawn[0])]
    relations = tuple(f"r{number}" for number in range(1, len(heads) + 1))
    edges = sorted_edges((head, number, f"r{number}") for number, head in enumerate(heads, start=1))
    result = keep_words(Sentence(relations, tuple(heads), relations, edges=edges), kept, orphans="roots")
    expected = [(h, d, r) for d, (h, r) in enumerate(zip(result.heads, result.relations, strict=True), start=1)]
    assert result.edges == tuple(expected)


FUNCTION = ["punct", "det", "case", "mark", "aux", "cop", "cc", "expl", "discourse", "reparandum", "fixed", "goeswith"]


@pytest.mark.parametrize(
    ("label", "stays"),
    [
        ("nsubj", True), ("nsubj:pass", True), ("aux", False), ("aux:pass", False), ("det:predet", False),
        ("auxiliary", True), ("obl:case", True), ("conj:and>nsubj", True), ("conj:and>aux:pass", False),
        ("aux>nsubj", True), ("conj>conj>cc:preconj", False), ("root", True),
    ],
)  # fmt: skip
def test_the_relation_to_the_dependent_decides_what_stays(label, stays):
    assert without_relations([(2, 1, label)], FUNCTION) == (((2, 1, label),) if stays else ())


def test_a_subtype_can_be_left_out_alone():
    edges = ((2, 1, "nmod"), (2, 3, "nmod:poss"), (2, 4, "nmod:possessive"), (2, 5, "nmod:poss:x"))
    assert without_relations(edges, ["nmod:poss"]) == (edges[0], edges[2])
    assert without_relations(edges, []) == edges
