from hypothesis import given
from hypothesis import strategies as st

from depgen.trees.joining import joined_heads, merge_sentences
from depgen.trees.sentence import Document, Sentence
from depgen.trees.tree import check_tree
from tests.trees.trees import documents, head_lists


@given(st.lists(head_lists(), min_size=1, max_size=4))
def test_arcs_stay_within_their_sentence_but_for_the_roots(trees):
    document = Document(tuple(Sentence(("w",) * len(heads), tuple(heads)) for heads in trees), "d")
    roots, previous = joined_heads(document), joined_heads(document, joining="previous_sentence")
    offset = 0
    for heads in trees:
        for word, head in enumerate(heads, start=offset + 1):
            assert roots[word - 1] == (offset + head if head else 0)
            assert previous[word - 1] == offset + head  # a root's head, 0 in its sentence, is the word before it
        offset += len(heads)
    check_tree(roots, "joined")
    check_tree(previous, "joined")


def test_sentences_without_heads_stay_unannotated():
    document = Document((Sentence(("a", "b"), (2, 0)), Sentence(("c",)), Sentence(("d", "e"), (0, 1))), "d")
    assert joined_heads(document) == [2, 0, -1, 0, 4]
    assert joined_heads(document, joining="previous_sentence") == [2, 0, -1, 3, 4]


@given(documents())
def test_a_merged_document_has_the_same_words(document):
    merged = merge_sentences(document)
    assert merged.identifier == document.identifier
    (sentence,) = merged.sentences
    assert sentence.words == tuple(document.words())
    assert sentence.heads is None
    assert (sentence.tags is None) == any(part.tags is None for part in document.sentences)
