"""Documents as rows of an annotated table, and back."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.annotation.trivial import GoldTrees
from depgen.data.rows import annotate_documents, document_of_row
from depgen.trees.sentence import Document, Sentence
from tests.trees.trees import FORMS, constituents, graphs, head_lists

TREE = Sentence(("a", "b", "c"), (2, 0, 2), ("det", "root", "obj"))
GRAPH = replace(TREE, edges=((2, 1, "det"), (3, 1, "ref"), (0, 2, "root")))
BRACKETED = Sentence(("a", "b", "c"), spans=((0, 3, "S"), (1, 3, "VP"), (1, 3, "VP"), (2, 3, "NP")))
EMPTY = Sentence(("d",), (0,), ("root",), edges=())


def test_a_row_gives_its_document_back():
    for annotator, sentences in (
        (None, [Sentence(("a", "b")), Sentence(("c",))]),
        (GoldTrees(), [TREE, TREE]),
        (GoldTrees(structure="graph"), [GRAPH, EMPTY]),
        (GoldTrees(structure="constituency"), [BRACKETED, Sentence(("d",), (0,), ("root",), spans=())]),
    ):
        document = Document(tuple(sentences), "d1")
        assert [document_of_row(row) for row in annotate_documents([document], annotator)] == [document]


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_documents_of_rows_are_those_that_were_annotated(data):
    structure = data.draw(st.sampled_from(["tree", "graph", "constituency"]))
    sentences = [data.draw(annotated_sentences(structure)) for _ in range(data.draw(st.integers(1, 3)))]
    document = Document(tuple(sentences), "drawn")
    (row,) = annotate_documents([document], GoldTrees(structure=structure))
    assert document_of_row(row) == document


@st.composite
def annotated_sentences(draw, structure):
    """A sentence with a tree, or with a graph or constituents and maybe a tree."""
    heads = tuple(draw(head_lists()))
    columns = st.lists(FORMS, min_size=len(heads), max_size=len(heads)).map(tuple)
    sentence = Sentence(draw(columns), heads, draw(columns))
    if structure == "tree":
        return sentence
    bare = Sentence(sentence.words) if draw(st.booleans()) else sentence
    if structure == "constituency":
        return replace(bare, spans=draw(constituents(len(bare))))
    return replace(bare, edges=tuple(draw(graphs(len(bare)))))
