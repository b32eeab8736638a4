"""Bracketings against recursion on nested lists, on nltk's trees, and on cases counted by hand."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk import Tree

from depgen.errors import UserError
from depgen.trees.constituency import (
    bracketing,
    bracketing_of_distances,
    check_constituents,
    format_bracketing,
    format_constituents,
    left_branching,
    random_bracketing,
    read_bracketed,
    right_branching,
    unlabelled_spans,
    without_tags,
)
from depgen.trees.removal import kept_constituents
from depgen.trees.sentence import Sentence
from tests.trees.trees import constituents

TREES = r"""
( (S
    (NP-SBJ (DT The) (JJ old) (NN cat) )
    (, ,)
    (VP (VBD saw)
      (NP (-NONE- *T*-1) )
      (NP (NP (CD 3\/4) ) (PP (IN of) (NP (DT a) (NN dog) ))))
    (. .) ))
(X (UH yes) (. !))
( (S (NP (-NONE- *)) (VP (VB go))) )
"""


def write(tmp_path, text):
    path = tmp_path / "wsj_0001.mrg"
    path.write_text(text)
    return path


# -- reading ------------------------------------------------------------------------------------------------------


def test_trees_are_read(tmp_path):
    first, second, third = read_bracketed(write(tmp_path, TREES))
    assert first.words == ("The", "old", "cat", ",", "saw", "*T*-1", r"3\/4", "of", "a", "dog", ".")
    assert first.tags == ("DT", "JJ", "NN", ",", "VBD", "-NONE-", "CD", "IN", "DT", "NN", ".")
    assert first.spans == (
        (0, 11, "S"), (0, 3, "NP"), (4, 10, "VP"), (5, 6, "NP"),
        (6, 10, "NP"), (6, 7, "NP"), (7, 10, "PP"), (8, 10, "NP"),
    )  # fmt: skip
    assert bracketing(first.spans) == {(0, 11), (0, 3), (4, 10), (6, 10), (7, 10), (8, 10)}
    assert (second.words, second.spans) == (("yes", "!"), ((0, 2, "X"),))
    assert third.spans == ((0, 2, "S"), (0, 1, "NP"), (1, 2, "VP"))
    assert without_tags(third, {"-NONE-"}).spans == ((0, 1, "S"), (0, 1, "VP"))


def test_words_without_meaning_leave_the_tree(tmp_path):
    first, second, third = (without_tags(tree, {"-NONE-", ",", "."}) for tree in read_bracketed(write(tmp_path, TREES)))
    assert first.words == ("The", "old", "cat", "saw", r"3\/4", "of", "a", "dog")
    assert first.tags == ("DT", "JJ", "NN", "VBD", "CD", "IN", "DT", "NN")
    assert bracketing(first.spans) == {(0, 8), (0, 3), (3, 8), (4, 8), (5, 8), (6, 8)}
    assert (second.words, second.spans) == (("yes",), ((0, 1, "X"),))
    assert (third.words, bracketing(third.spans)) == (("go",), frozenset())


def test_spans_are_those_of_nltk(tmp_path):
    path = write(tmp_path, TREES)
    texts = ["(S" + TREES.split("( (S")[1].split("(X")[0].rstrip()[:-1], "(X (UH yes) (. !))"]
    for text, found in zip(texts, read_bracketed(path), strict=False):
        tree = Tree.fromstring(text)
        assert tuple(tree.leaves()) == found.words
        spans = set()
        for place in tree.treepositions():
            if isinstance(tree[place], Tree) and len(tree[place].leaves()) > 1:
                start = sum(len(tree[(*place[:k], i)].leaves()) if isinstance(tree[(*place[:k], i)], Tree) else 1
                            for k in range(len(place)) for i in range(place[k]))  # fmt: skip
                spans.add((start, start + len(tree[place].leaves())))
        assert spans == bracketing(found.spans)


def test_comments_failed_parses_and_no_break_spaces_are_read(tmp_path):
    text = "# doc (1)\n(S (CD 10\u00a0000) (NNS dogs))\n  # doc (2)\n(())\n( () )\n(S\u00a0 (# #)\n(CD 1))"
    one, *failed, other = read_bracketed(write(tmp_path, text))
    assert (one.words, one.spans) == (("10\u00a0000", "dogs"), ((0, 2, "S"),))
    assert failed == [Sentence((), tags=(), spans=())] * 2
    assert (other.words, other.tags, other.spans) == (("#", "1"), ("#", "CD"), ((0, 2, "S"),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (NP (DT the)\n", "mrg:1: expected 2 closing brackets more, found the end of the file"),
        ("(S (DT the))\n)", "mrg:2: expected an opening bracket, found \\)"),
        ("(S the (NN cat))", r"mrg:1: expected \(TAG word\) or \(LABEL constituents\), found \(S the \.\.\.\)"),
        ("(S ())", r"found \(S \.\.\.\)"),
        ("\n", "expected bracketed trees, found none"),
    ],
)
def test_what_is_no_tree_is_refused(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        list(read_bracketed(write(tmp_path, text)))


# -- bracketings --------------------------------------------------------------------------------------------------


def nested(distances, words, lone_word):
    """Shen et al. (2018) by recursion, on nested lists."""
    if len(words) < 2:
        return words[0] if words else None
    if not lone_word:
        cut = 1 + max(range(len(words) - 1), key=lambda k: distances[k + 1])
        return [nested(distances[:cut], words[:cut], False), nested(distances[cut:], words[cut:], False)]
    cut = max(range(len(words)), key=lambda k: distances[k])
    rest = nested(distances[cut + 1 :], words[cut + 1 :], True)
    right = words[cut] if rest is None else [words[cut], rest]
    left = nested(distances[:cut], words[:cut], True)
    return right if left is None else [left, right]


def spans_of_nested(tree, start=0):
    """Spans of a nested list of words, and where it ends."""
    if not isinstance(tree, list):
        return set(), start + 1
    spans, end = set(), start
    for part in tree:
        within, end = spans_of_nested(part, end)
        spans |= within
    return spans | {(start, end)}, end


def written(tree):
    return f"({' '.join(map(written, tree))})" if isinstance(tree, list) else tree


@given(st.lists(st.integers(0, 4).map(float), min_size=1, max_size=9), st.booleans())
def test_distances_are_cut_as_the_recursion_cuts_them(distances, lone_word):
    words = [f"w{k}" for k in range(len(distances))]
    tree = nested(distances, words, lone_word)
    found = bracketing_of_distances(np.array(distances), lone_word=lone_word)
    assert found == spans_of_nested(tree)[0]
    assert format_bracketing(words, found) == written(tree)
    assert len(found) == len(distances) - 1  # binary


def test_branching_trees_are_those_of_falling_and_rising_distances():
    for length in range(7):
        falling, rising = np.arange(length, 0.0, -1), np.arange(float(length))
        assert right_branching(length) == bracketing_of_distances(falling)
        assert left_branching(length) == bracketing_of_distances(rising)


def test_random_trees_are_cut_evenly_and_repeat_with_their_seed():
    generator = np.random.default_rng(0)
    drawn = Counter(random_bracketing(4, generator) for _ in range(3000))
    shares = {format_bracketing("abcd", tree): count / 3000 for tree, count in drawn.items()}
    expected = {"(a (b (c d)))": 1 / 6, "(a ((b c) d))": 1 / 6, "((a b) (c d))": 1 / 3,
                "((a (b c)) d)": 1 / 6, "(((a b) c) d)": 1 / 6}  # fmt: skip
    assert shares == pytest.approx(expected, abs=0.03)
    assert random_bracketing(20, np.random.default_rng(7)) == random_bracketing(20, np.random.default_rng(7))


@given(st.integers(1, 6).flatmap(lambda length: st.tuples(st.just(length), constituents(length))))
def test_nltk_reads_what_is_written_with_labels(drawn):
    length, parts = drawn
    words = [f"w{place}" for place in range(length)]
    tree = Tree.fromstring(format_constituents(words, [(0, length, "ROOT"), *parts]))
    found = [(subtree.label(), subtree.leaves()) for subtree in tree.subtrees()]
    assert found == [("ROOT", words), *((label, words[start:end]) for start, end, label in parts)]


def test_brackets_among_the_words_do_not_count_as_brackets():
    assert format_bracketing(["(", "a", ")"], right_branching(3)) == "(-LRB- (a -RRB-))"
    assert format_bracketing(["(see", "below)"], right_branching(2)) == "(-LRB-see below-RRB-)"


# -- agreement ----------------------------------------------------------------------------------------------------


def test_agreement_counted_by_hand():
    gold = [frozenset({(0, 5), (0, 2), (2, 5)}), frozenset({(0, 4), (1, 4)}), frozenset({(0, 2)})]
    predicted = [right_branching(5), left_branching(4), right_branching(2)]
    # inner spans: {02, 25} and {15, 25, 35}: 1 of 2 + 3; {14} and {02, 03}: none of 1 + 2; none on either side
    assert unlabelled_spans(gold, predicted, [5, 4, 2]).tolist() == [[2, 5], [0, 3], [0, 0]]


# -- constituents with labels -------------------------------------------------------------------------------------


def test_the_outermost_of_constituents_over_the_same_words_comes_first(tmp_path):
    (tree,) = read_bracketed(write(tmp_path, "( (FRAG-TTL=1 (ADVP|PRT (RB so) (RB far))) )"))
    assert tree.spans == ((0, 2, "FRAG"), (0, 2, "ADVP|PRT"))
    (several,) = read_bracketed(write(tmp_path, "( (S (UH yes)) (S (UH no)) )"))
    assert several.spans == ((0, 2, "TOP"), (0, 1, "S"), (1, 2, "S"))


@pytest.mark.parametrize(
    ("constituents", "message"),
    [
        ([(0, 4, "S")], r"here: constituent S over words 1 to 4 .*, but the sentence has 3 words"),
        ([(1, 1, "S")], r"over words 2 to 1 .*3 words"),
        ([(0, 3, " ")], r"has no label"),
        ([(1, 3, "VP"), (0, 3, "S")], r"S over words 1 to 3 .* comes after VP"),
        ([(0, 3, "S"), (0, 2, "NP"), (1, 3, "VP")], r"VP over words 2 to 3 \(cat sat\) crosses NP over"),
    ],
)
def test_constituents_that_are_none_are_refused(constituents, message):
    with pytest.raises(UserError, match=message):
        check_constituents(constituents, 3, "here", words=("the", "cat", "sat"))


@given(length=st.integers(1, 8), seed=st.integers(0, 1000))
def test_constituents_of_any_tree_are_taken_and_lose_words(length, seed):
    generator = np.random.default_rng(seed)
    spans = random_bracketing(length, generator) | {(start, start + 1) for start in range(length)}
    constituents = sorted(((*span, "X") for span in spans), key=lambda each: (each[0], -each[1]))
    check_constituents(constituents, length, "here")
    kept = generator.random(length) < 0.6
    left = kept_constituents(constituents, kept.tolist())
    assert {type(place) for start, end, _ in left for place in (start, end)} <= {int}
    check_constituents(left, int(kept.sum()), "here")
    numbers = np.flatnonzero(kept).tolist()
    within = Counter(tuple(w for w in numbers if start <= w < end) for start, end, _ in constituents)
    assert Counter(tuple(numbers[start:end]) for start, end, _ in left) == Counter(
        {words: count for words, count in within.items() if words}
    )
