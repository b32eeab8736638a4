"""Strings of words and brackets: there and back again."""

import pytest
from hypothesis import given

from depgen.errors import UserError
from depgen.trees.tree_strings import WORD, closing, constituents_of, is_opening, label_of, opening, symbols_of
from tests.models.labelled_trees import trees

S, NP, VP = range(3)
SENTENCE = [(0, 3, S), (0, 2, NP), (2, 3, VP)]  # (S (NP the dog NP) (VP barks VP) S)


def text_of(symbols, words, labels):
    """A string as text: `(S (NP the dog NP) (VP barks VP) S)`."""
    following = iter(words)
    texts = []
    for symbol in symbols:
        name = "" if symbol == WORD else labels[label_of(symbol)]
        texts.append(next(following) if symbol == WORD else f"({name}" if is_opening(symbol) else f"{name})")
    return " ".join(texts)


@given(trees())
def test_a_tree_comes_back_from_its_string(tree):
    length, spans = tree
    symbols = symbols_of(spans, length)
    assert constituents_of(symbols) == spans
    assert symbols.count(WORD) == length
    assert len(symbols) == length + 2 * len(spans)
    assert (symbols[0], symbols[-1]) == (opening(spans[0][2]), closing(spans[0][2]))


@given(trees())
def test_a_string_is_text_with_matching_brackets(tree):
    length, spans = tree
    words, labels = [f"w{k}" for k in range(length)], ["A", "B", "C"]
    parts = text_of(symbols_of(spans, length), words, labels).split(" ")
    assert [part for part in parts if part[0] == "w"] == words
    around, found = [], []
    for place, part in enumerate(parts):
        if part.startswith("("):
            around.append((part[1:], sum(each[0] == "w" for each in parts[:place])))
        elif part.endswith(")"):
            label, start = around.pop()
            assert part == f"{label})"
            found.append((start, sum(each[0] == "w" for each in parts[:place]), labels.index(label)))
    assert not around
    assert sorted(found) == sorted(spans)


def test_unary_constituents_keep_their_order():
    spans = [(0, 1, S), (0, 1, VP), (0, 1, NP)]
    symbols = symbols_of(spans, 1)
    assert text_of(symbols, ["go"], ["S", "NP", "VP"]) == "(S (VP (NP go NP) VP) S)"
    assert constituents_of(symbols) == spans


def test_a_constituent_is_put_around_a_sentence_that_none_covers():
    assert constituents_of(symbols_of([], 2)) == [(0, 2, 0)]
    assert constituents_of(symbols_of([(0, 1, NP), (1, 2, VP)], 2, root=S)) == [(0, 2, S), (0, 1, NP), (1, 2, VP)]


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
