"""Strings of words and brackets: there and back again."""

import pytest
from hypothesis import given

from depgen.errors import UserError
from depgen.trees.tree_strings import WORD, closing, constituents_of, opening, symbols_of
from tests.models.labelled_trees import trees

S, NP, VP = range(3)


@given(trees())
def test_a_tree_comes_back_from_its_string(tree):
    length, spans = tree
    symbols = symbols_of(spans, length)
    assert constituents_of(symbols) == spans
    assert symbols.count(WORD) == length
    assert len(symbols) == length + 2 * len(spans)
    assert (symbols[0], symbols[-1]) == (opening(spans[0][2]), closing(spans[0][2]))


def test_a_string_is_written_by_hand():
    assert symbols_of([(0, 3, S), (0, 2, NP), (2, 3, VP)], 3) == [  # (S (NP the dog NP) (VP barks VP) S)
        opening(S), opening(NP), WORD, WORD, closing(NP), opening(VP), WORD, closing(VP), closing(S),
    ]  # fmt: skip
    chain = symbols_of([(0, 1, S), (0, 1, VP), (0, 1, NP)], 1)
    assert chain == [opening(S), opening(VP), opening(NP), WORD, closing(NP), closing(VP), closing(S)]


def test_a_constituent_is_put_around_a_sentence_that_none_covers():
    assert constituents_of(symbols_of([], 2)) == [(0, 2, 0)]
    assert constituents_of(symbols_of([(0, 1, NP), (1, 2, VP)], 2)) == [(0, 2, S), (0, 1, NP), (1, 2, VP)]


def test_brackets_that_are_open_at_the_end_close_there():
    assert constituents_of([opening(S), opening(NP), WORD, closing(NP), opening(VP), WORD]) == [
        (0, 2, S),
        (0, 1, NP),
        (1, 2, VP),
    ]


@pytest.mark.parametrize(
    ("spans", "place"),
    [
        ([(0, 3, S), (0, 2, NP), (1, 3, VP)], r"\(1, 3\)"),
        ([(0, 3, S), (2, 4, NP)], r"\(2, 4\)"),
        ([(0, 3, S), (1, 1, NP)], r"\(1, 1\)"),
        ([(0, 3, S), (1, 2, NP), (0, 2, VP)], r"\(0, 2\)"),
        ([(0, 3, S), (7, 9, NP)], r"\(7, 9\)"),
    ],
)
def test_what_is_no_tree_is_refused(spans, place):
    with pytest.raises(UserError, match=place):
        symbols_of(spans, 3)
