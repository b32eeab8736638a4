import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.trees.pieces import piece_edges, piece_heads
from depgen.trees.sentence import check_tree
from tests.trees.trees import head_lists


def literal_rule(heads, word_of_piece, left_dependents):
    pieces = [[p for p, w in enumerate(word_of_piece, start=1) if w == word] for word in range(len(heads))]
    result = []
    for piece, word in enumerate(word_of_piece, start=1):
        head = heads[word]
        if piece != pieces[word][0]:
            result.append(piece - 1)
        elif head <= 0:
            result.append(head)
        elif left_dependents == "first_piece" and word + 1 < head:
            result.append(pieces[head - 1][0])
        else:
            result.append(pieces[head - 1][-1])
    return result


@st.composite
def cut_trees(draw):
    heads = draw(head_lists(min_size=0))
    counts = [draw(st.integers(1, 3)) for _ in heads]
    return heads, [word for word, count in enumerate(counts) for _ in range(count)]


@given(cut_trees(), st.sampled_from(["last_piece", "first_piece"]), st.sets(st.integers(0, 11)))
def test_equals_the_literal_rule(cut, left_dependents, unannotated):
    heads, word_of_piece = cut
    partial = [-1 if index in unannotated else head for index, head in enumerate(heads)]
    assert piece_heads(partial, word_of_piece, left_dependents=left_dependents) == literal_rule(
        partial, word_of_piece, left_dependents
    )
    check_tree(piece_heads(heads, word_of_piece, left_dependents=left_dependents), "pieces")


ATTACHMENTS = ["last_piece", "first_piece"]


@given(cut_trees(), st.sampled_from(ATTACHMENTS), st.sets(st.integers(0, 11)))
def test_edges_of_a_tree_are_attached_as_its_heads(cut, left_dependents, unannotated):
    heads, word_of_piece = cut
    partial = np.array([-1 if index in unannotated else head for index, head in enumerate(heads)], dtype=np.int64)
    words = np.arange(len(heads) + 1)
    offsets, found, edge_of = piece_edges(words, partial, word_of_piece, left_dependents=left_dependents)
    assert found.tolist() == piece_heads(partial, word_of_piece, left_dependents=left_dependents)
    assert offsets.tolist() == list(range(len(word_of_piece) + 1))
    later = [place > 0 and word_of_piece[place - 1] == word for place, word in enumerate(word_of_piece)]
    expected = [-1 if is_later else word for is_later, word in zip(later, word_of_piece, strict=True)]
    assert edge_of.tolist() == expected


@pytest.mark.parametrize("left_dependents", ATTACHMENTS)
def test_a_word_can_have_no_edges_several_or_one_to_itself(left_dependents):
    # word 1 of two pieces hangs on nothing; word 2, of two pieces, on word 1, on itself and on word 3, of two pieces
    found = piece_edges(
        np.array([0, 0, 3, 3]), np.array([1, 2, 3]), [0, 0, 1, 1, 2, 2], left_dependents=left_dependents
    )
    right = 6 if left_dependents == "last_piece" else 5
    assert [each.tolist() for each in found] == [
        [0, 0, 1, 4, 5, 5, 6], [1, 2, 4, right, 3, 5], [-1, 0, 1, 2, -1, -1],
    ]  # fmt: skip
