"""Enhanced graphs in CoNLL-U: read, written, with empty nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.trees.conllu import format_conllu, read_blocks, read_conllu, read_deps, write_conllu
from depgen.trees.sentence import Document, Sentence
from tests.trees.trees import graphs

SAMPLE = """\
# newdoc id = tea
# sent_id = tea-1
# text = Ada likes tea and Max cake.
1\tAda\tAda\tPROPN\tNNP\t_\t2\tnsubj\t2:nsubj\t_
2\tlikes\tlike\tVERB\tVBZ\t_\t0\troot\t0:root\t_
3\ttea\ttea\tNOUN\tNN\t_\t2\tobj\t2:obj\t_
4\tand\tand\tCCONJ\tCC\t_\t5\tcc\t5.1:cc\t_
5\tMax\tMax\tPROPN\tNNP\t_\t2\tconj\t5.1:nsubj\t_
5.1\tlikes\tlike\tVERB\tVBZ\t_\t_\t_\t2:conj:and\tCopyOf=2
6\tcake\tcake\tNOUN\tNN\t_\t5\torphan\t5.1:obj\tSpaceAfter=No
7\t.\t.\tPUNCT\t.\t_\t2\tpunct\t2:punct\t_

# sent_id = tea-2
# text = Don't wait and see
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t3\taux\t3:aux\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t3:advmod|5:advmod\t_
3\twait\twait\tVERB\tVB\t_\t0\troot\t0:root\t_
4\tand\tand\tCCONJ\tCC\t_\t5\tcc\t_\t_
5\tsee\tsee\tVERB\tVB\t_\t3\tconj\t0:root|3:conj:and\t_

# sent_id = tea-3
1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_

"""
TEA = (
    (2, 1, "nsubj"),
    (0, 2, "root"),
    (2, 3, "obj"),
    (2, 4, "conj:and>cc"),
    (2, 5, "conj:and>nsubj"),
    (2, 6, "conj:and>obj"),
    (2, 7, "punct"),
)
WAIT = ((3, 1, "aux"), (3, 2, "advmod"), (5, 2, "advmod"), (0, 3, "root"), (0, 5, "root"), (3, 5, "conj:and"))


@pytest.fixture
def sample(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(SAMPLE)
    return path


def test_graphs_are_read_where_they_are_wanted(sample):
    (document,) = read_conllu(sample, graphs=True)
    assert [sentence.edges for sentence in document.sentences] == [TEA, WAIT, None]
    (bare,) = read_conllu(sample)
    assert [sentence.edges for sentence in bare.sentences] == [None] * 3
    assert [sentence.heads for sentence in bare.sentences] == [sentence.heads for sentence in document.sentences]


def test_another_graph_replaces_deps_and_empty_nodes(sample):
    first, second, third = read_blocks(sample)
    rows = first.with_graph(((0, 2, "root"), (2, 1, "nsubj"), (2, 7, "punct"))[1::-1]).splitlines()
    assert [row.split("\t")[8] for row in rows[3:]] == ["2:nsubj", "0:root", *"_____"]
    assert [row.split("\t")[0] for row in rows[3:]] == list("1234567")
    assert second.with_graph(WAIT[:1]).splitlines()[2:4] == [SAMPLE.splitlines()[14], SAMPLE.splitlines()[15]]
    assert third.with_graph(((0, 1, "root"),)).endswith("\t0\troot\t0:root\t_\n")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # a chain of empty nodes, and one that leads back to the word that it began at
        ("1 0:root|1.2:ref/1.1 1:a/1.2 1.1:b/2 1.2:c", ((0, 1, "root"), (1, 1, "a>b>ref"), (1, 2, "a>b>c"))),
        # two ways through, and an empty node with two heads
        ("1 0:root/1.1 1:a|0:root/2 1.1:b|1:c", ((0, 1, "root"), (0, 2, "root>b"), (1, 2, "a>b"), (1, 2, "c"))),
        # an empty node without a head, one without dependents, and one before the first word
        ("0.1 _/1 0.1:x|0:root/1.1 1:y", ((0, 1, "root"),)),
        # empty nodes that head each other
        ("1 0:root/1.1 1:a|1.2:b/1.2 1.1:c/2 1.2:d", ((0, 1, "root"), (1, 2, "a>c>d"))),
    ],
)
def test_paths_through_empty_nodes_become_edges(rows, expected):
    assert read_deps([row.split() for row in rows.split("/")], str) == expected


@given(edges=graphs(4), tags=st.sampled_from(["xpos", "upos"]))
def test_written_graphs_are_read_again(tmp_path_factory, edges, tags):
    path = tmp_path_factory.mktemp("round") / "trip.conllu"
    written = Document((Sentence(tuple("abcd"), edges=edges),), "d")
    write_conllu([written], path, tags=tags)
    (found,) = read_conllu(path, tags=tags, graphs=True)
    assert found.sentences[0].edges == (edges or None)  # no edges look like no graph
    assert ("|" in format_conllu(written.sentences[0])) == (len({d for _, d, _ in edges}) < len(edges))
