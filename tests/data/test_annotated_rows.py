"""Documents as rows of an annotated table, and back."""

from dataclasses import replace

from depgen.annotation.trivial import GoldTrees
from depgen.data.annotated_rows import annotate_documents, document_of_row
from depgen.trees.sentence import Document, Sentence

TREE = Sentence(("a", "b", "c"), (2, 0, 2), ("det", "root", "obj"))
GRAPH = replace(TREE, edges=((2, 1, "det"), (3, 1, "ref"), (0, 2, "root")))
EMPTY = Sentence(("d",), (0,), ("root",), edges=())


def test_a_row_gives_its_document_back():
    for annotator, sentences in (
        (None, [Sentence(("a", "b")), Sentence(("c",))]),
        (GoldTrees(), [TREE, TREE]),
        (GoldTrees(structure="graph"), [GRAPH, EMPTY]),
    ):
        document = Document(tuple(sentences), "d1")
        assert [document_of_row(row) for row in annotate_documents([document], annotator)] == [document]
