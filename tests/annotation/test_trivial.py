"""Chains, random trees and gold trees."""

import random
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.annotation.controls import Branching, GoldTrees, LeftChain, RandomTree, RightChain, random_tree
from depgen.errors import UserError
from depgen.trees.annotator import Annotator, structure_of
from depgen.trees.constituency import check_constituents, left_branching, right_branching
from depgen.trees.sentence import Sentence
from depgen.trees.tree import check_tree

WORDS = st.lists(st.sampled_from(["she", "saw", "a", "bird", "."]), min_size=1, max_size=40).map(tuple)


def later_dependents(heads):
    """Z by the definition of Yang & Wan (2022): position j reads word j, 0 reads BOS; without eos."""
    sets = [set() for _ in range(len(heads) + 1)]
    for word, head in enumerate(heads, start=1):
        sets[min(word, head)].add(max(word, head))
    return sets


def test_the_left_chain_makes_later_dependents_the_next_word():
    (sentence,) = LeftChain().annotate([Sentence(tuple("abcd"))])
    assert later_dependents(sentence.heads) == [{1}, {2}, {3}, {4}, set()]
    assert sentence.relations == ("root", "dep", "dep", "dep")


def test_the_right_chain_differs_at_the_start_only():
    (sentence,) = RightChain().annotate([Sentence(tuple("abcd"))])
    assert later_dependents(sentence.heads) == [{4}, {2}, {3}, {4}, set()]


@pytest.mark.parametrize("annotator", [LeftChain(), RightChain(), RandomTree(seed=3)])
@settings(deadline=None)
@given(words=WORDS)
def test_every_trivial_tree_is_a_tree_with_one_root(annotator, words):
    (sentence,) = annotator.annotate([Sentence(words)])
    assert sentence.words == words
    check_tree(sentence.heads, "here", single_root=True)
    assert [rel == "root" for rel in sentence.relations] == [head == 0 for head in sentence.heads]


def test_branching_constituents_are_those_of_the_bracketings_of_their_names():
    for side, bracketing in (("left", left_branching), ("right", right_branching)):
        annotator = Branching(side)
        assert structure_of(annotator) == "constituency"
        for length in range(1, 6):
            (sentence,) = annotator.annotate([Sentence(tuple("abcdefg"[:length]))])
            check_constituents(sentence.spans, length, "here")
            assert {span[:2] for span in sentence.spans} == bracketing(length)
    assert Branching("left").fingerprint() != Branching("right").fingerprint()


def test_random_trees_are_uniform_over_the_trees_with_one_root():
    draws = 16_000
    counts = Counter(tuple(random_tree(4, random.Random(seed))) for seed in range(draws))
    assert len(counts) == 4**3  # Cayley: n^(n-2) trees, n roots
    expected = draws / 64
    chi_square = sum((count - expected) ** 2 / expected for count in counts.values())
    assert chi_square < 104  # the 99.9 % quantile for 63 degrees of freedom


def test_the_same_words_get_the_same_random_tree_whatever_stands_around():
    one, other = Sentence(tuple("abcdefgh")), Sentence(tuple("stuvwxyz"))
    alone = RandomTree(seed=1).annotate([one])[0]
    assert RandomTree(seed=1).annotate([other, one])[1] == alone
    assert RandomTree(seed=2).annotate([one])[0] != alone
    assert RandomTree(seed=1).fingerprint() != RandomTree(seed=2).fingerprint()


def test_words_that_join_to_the_same_text_are_told_apart():
    trees = [
        RandomTree().annotate([Sentence(words)])[0].heads for words in (("ab", "c", "d", "e"), ("a", "bc", "d", "e"))
    ]
    seeds = {tuple(tree) for tree in trees}
    assert len(seeds) == 2


def test_gold_trees_are_kept():
    tree = Sentence(("she", "sang"), (2, 0), ("nsubj", "root"))
    bare = Sentence(("she", "sang"), (2, 0))
    assert GoldTrees().annotate([tree, bare]) == [tree, Sentence(("she", "sang"), (2, 0), ("_", "_"))]


def test_gold_trees_of_a_corpus_without_any_are_refused():
    message = r"sentence 2: .* has none: 'she sang'.*1 of the 2.*WithTreesOnly.*SpacyAnnotator"
    with pytest.raises(UserError, match=message):
        GoldTrees().annotate([Sentence(("hi",), (0,)), Sentence(("she", "sang"))])


def test_all_implement_the_protocol_with_fingerprints_of_their_own():
    annotators = [LeftChain(), RightChain(), RandomTree(), GoldTrees()]
    assert all(isinstance(annotator, Annotator) for annotator in annotators)
    assert len({annotator.fingerprint() for annotator in annotators}) == 4


def test_importing_them_loads_nothing_heavy():
    heavy = ("torch", "spacy", "supar", "datasets")
    code = f"import sys, depgen.annotation.controls; print([name for name in {heavy} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"
