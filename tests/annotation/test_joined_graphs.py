"""Several graphs as one: whose edges they are, who is refused, and the table on disk."""

import pytest

from depgen.annotation.joined_graphs import JoinedGraphs
from depgen.annotation.other_graphs import GraphsOfOtherSentences
from depgen.annotation.trivial import GoldTrees, LeftChain, RightChain
from depgen.data.rows import annotate_documents, document_of_row
from depgen.errors import UserError
from depgen.trees.annotator import has_self_loops, leaves_out
from depgen.trees.graph import joined_graphs, parted_graphs
from depgen.trees.sentence import Document, Sentence

GOLD = GoldTrees(structure="graph")
SENTENCE = Sentence(("a", "b"), heads=(2, 0), relations=("x", "root"), edges=((1, 1, "loop"), (2, 1, "x"), (1, 2, "y")))


class Leaves:
    """Gives a sentence of one word nothing."""

    scheme, leaves_out = "leaves", True

    def fingerprint(self):
        return "leaves"

    def annotate(self, sentences):
        return [LeftChain().annotate([each])[0] if len(each) > 1 else each for each in sentences]


def test_a_graph_and_a_tree_become_one_that_parts_again_after_the_table():
    annotator = JoinedGraphs({"gold": GOLD, "chain": LeftChain()})
    assert has_self_loops(annotator)
    assert not leaves_out(annotator)
    (row,) = annotate_documents([Document((SENTENCE,), "one")], annotator)
    (found,) = document_of_row(row).sentences
    assert found.heads is None
    gold, chain = parted_graphs(found.edges, ["gold", "chain"])
    assert (tuple(gold), tuple(chain)) == (SENTENCE.edges, ((0, 1, "root"), (1, 2, "dep")))
    assert joined_graphs([gold, chain], ["gold", "chain"]) == found.edges


def test_a_sentence_that_an_annotator_leaves_out_has_no_graph():
    annotator = JoinedGraphs({"one": LeftChain(), "other": Leaves()})
    assert leaves_out(annotator)
    found = annotator.annotate([Sentence(("a",)), Sentence(("a", "b"))])
    assert [each.edges is None for each in found] == [True, False]


def test_a_sentence_with_a_word_without_head_has_no_graph():
    annotator = JoinedGraphs({"gold": GoldTrees(), "chain": LeftChain()})
    found = annotator.annotate([Sentence(("a", "b"), heads=(-1, 0)), Sentence(("a", "b"), heads=(2, 0))])
    assert [each.edges for each in found] == [
        None, ((0, 1, "chain/root"), (2, 1, "gold/_"), (0, 2, "gold/_"), (1, 2, "chain/dep"))
    ]  # fmt: skip


def test_the_fingerprint_is_of_names_and_annotators():
    chains = {"a": LeftChain(), "b": RightChain()}
    others = [{"a": LeftChain(), "c": RightChain()}, {"a": RightChain(), "b": LeftChain()}]
    assert JoinedGraphs(chains).fingerprint() == JoinedGraphs(dict(chains)).fingerprint()
    assert len({JoinedGraphs(each).fingerprint() for each in [chains, *others]}) == 3


@pytest.mark.parametrize(("graphs", "message"), [
    ({}, "found none"), ({"a/b": LeftChain()}, "without '/'"), ({"": LeftChain()}, "without '/'"),
    ({"a": GraphsOfOtherSentences(GOLD)}, "GraphsOfOtherSentences"),
    ({"a": GoldTrees(structure="constituency")}, "its own tree or graph"),
])  # fmt: skip
def test_impossible_graphs_are_refused(graphs, message):
    with pytest.raises(UserError, match=message):
        JoinedGraphs(graphs)
