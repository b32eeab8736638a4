"""Documents as rows of an annotated table, and back; annotators that break their promises."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.annotation.controls import GoldTrees, LeftChain
from depgen.data.rows import annotate_documents, document_of_row
from depgen.errors import UserError
from depgen.trees.sentence import Document, Sentence
from tests.annotation.annotators import Refusing
from tests.trees.trees import FORMS, constituents, graphs, head_lists

TREE = Sentence(("a", "b", "c"), (2, 0, 2), ("det", "root", "obj"))
GRAPH = replace(TREE, edges=((2, 1, "det"), (3, 1, "ref"), (0, 2, "root")))
SPANS = ((0, 3, "S"), (1, 3, "VP"), (1, 3, "VP"), (2, 3, "NP"))
BRACKETED = Sentence(("a", "b", "c"), spans=SPANS)


def gold(structure="tree", *, leaves_out=False):
    """The sentences' own trees, which may be broken; with `leaves_out`, sentences may have none."""
    annotator = Changing(lambda sentence: sentence)
    annotator.structure, annotator.leaves_out = structure, leaves_out
    return annotator


class Changing(LeftChain):
    scheme = "changing"

    def __init__(self, change):
        self.change = change

    def annotate(self, sentences):
        return [self.change(sentence) for sentence in sentences]


class Wrong(LeftChain):
    """Gives back one sentence more or less."""

    def __init__(self, more):
        self.more = more

    def annotate(self, sentences):
        return [*super().annotate(sentences), Sentence(("x",), (0,))] if self.more else sentences[:-1]


@pytest.mark.parametrize(
    ("annotator", "sentences"),
    [
        (None, [Sentence(("a", "b")), Sentence(("c",))]),
        (gold("graph", leaves_out=True), [Sentence(("d",)), GRAPH]),
        (gold("constituency", leaves_out=True), [Sentence(("d",)), BRACKETED]),
    ],
)
def test_a_row_gives_its_document_back(annotator, sentences):
    document = Document(tuple(sentences), "d1")
    (row,) = annotate_documents([document], annotator)
    assert document_of_row(row) == document


def test_a_sentence_without_a_tree_has_heads_of_minus_1():
    document = Document((replace(TREE, heads=(-1, -1, -1)), TREE), "d1")
    (row,) = annotate_documents([document], gold(leaves_out=True))
    assert row["heads"] == [-1, -1, -1, 2, 0, 2]
    assert document_of_row(row).sentences == (Sentence(TREE.words), TREE)


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


@pytest.mark.parametrize(
    ("annotator", "sentence", "message"),
    [
        (Changing(lambda s: replace(s, words=s.words[::-1])), TREE, "d1, sentence 2: .* changed the words"),
        (gold(), Sentence(("a",)), "d1, sentence 2: .* gave no heads"),
        (gold(), replace(TREE, heads=(2, 1, 2)), r"d1, sentence 2 \(changing\): .*no root"),
        (gold(), replace(TREE, heads=(-1, -1, -1)), r"sentence 2 .*: token 1 has head -1"),
        (gold(leaves_out=True), replace(TREE, heads=(-1, 0, -1)), r"sentence 2 .*: token 1 has head -1"),
        (gold("graph"), replace(TREE, edges=((5, 1, "x"),)), r"token 1 \(a\) has head 5, but the sentence has 3"),
        (gold("graph"), replace(TREE, edges=((1, 1, "x"),)), r"token 1 \(a\) is its own head"),
        (gold("graph"), replace(GRAPH, heads=(1, 0, 2)), "token 1 is its own head"),
        (gold("graph"), TREE, "d1, sentence 2: the annotator .* gave no edges"),
        (gold("constituency"), TREE, "d1, sentence 2: the annotator .* gave no spans"),
        (gold("constituency"), replace(TREE, spans=((0, 2, "NP"), (1, 3, "VP"))), r"VP over words .*crosses NP"),
        (Refusing(), Sentence(("all", "laughed")), r"^d1, sentence 2: no laughing\.$"),
        (Wrong(False), TREE, "^d1 .* was given 2 sentences and gave back 1"),
        (Wrong(True), TREE, "^d1 .* was given 2 sentences and gave back 3"),
        (None, None, "^d2: expected words"),
    ],
)
def test_a_broken_annotator_is_named_with_the_sentence(annotator, sentence, message):
    first = replace(GRAPH, words=("x",), heads=(0,), relations=("root",), edges=(), spans=())
    document = Document((first,) if sentence is None else (first, sentence), "d1")
    with pytest.raises(UserError, match=message):
        annotate_documents([document, Document((Sentence(()),), "d2")][: 2 if sentence is None else 1], annotator)
