"""Chains, random trees, trees of a shape alone, and a corpus's own."""

import random
import subprocess
import sys
from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.annotation.controls import (
    BalancedTrees,
    Branching,
    GoldTrees,
    LeftChain,
    OneLabel,
    RandomShapes,
    RandomTree,
    RightChain,
    binary_trees,
    random_heads,
    random_tree,
)
from depgen.trees.binarization import binary_dependencies, depths
from depgen.trees.constituency import check_constituents, left_branching, right_branching
from depgen.trees.sentence import Sentence, check_tree, find_cycle

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
        assert annotator.structure == "constituency"
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


def test_all_implement_the_protocol_with_fingerprints_of_their_own():
    shapes = [BalancedTrees(), OneLabel(GoldTrees()), OneLabel(LeftChain()), RandomShapes(GoldTrees())]
    annotators = [LeftChain(), RightChain(), RandomTree(), GoldTrees(), *shapes, RandomShapes(GoldTrees(), 1)]
    assert len({annotator.fingerprint() for annotator in annotators}) == len(annotators)
    assert len({annotator.scheme for annotator in annotators}) == len(annotators)


def test_importing_them_loads_nothing_heavy():
    heavy = ("torch", "spacy", "supar", "datasets")
    code = f"import sys, depgen.annotation.controls; print([name for name in {heavy} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"


# -- trees of a shape alone ---------------------------------------------------------------------------------------

SENTENCE = Sentence(
    ("my", "dog", "also", "likes", "eating", "sausage"), (2, 4, 4, 0, 4, 5),
    ("poss", "nsubj", "advmod", "root", "xcomp", "obj"),
)  # fmt: skip


def all_binary_trees(words):
    """Heads of all trees that are projective and have at most one dependent at each side of a word."""
    found = []
    for heads in product(range(words + 1), repeat=words):
        one_root = heads.count(0) == 1 and all(head != word for word, head in enumerate(heads, 1))
        if one_root and not find_cycle(heads) and is_binary(heads) and is_projective(heads):
            found.append(heads)
    return found


def is_binary(heads):
    sides = Counter((head, word > head) for word, head in enumerate(heads, 1) if head)
    return all(count == 1 for count in sides.values())


def is_projective(heads):
    def dominates(head, word):
        return word == head or (word != 0 and dominates(head, heads[word - 1]))

    return all(
        dominates(head, between)
        for word, head in enumerate(heads, 1)
        if head
        for between in range(min(word, head), max(word, head) + 1)
    )


@pytest.mark.parametrize("words", [1, 2, 3, 4, 5])
def test_binary_trees_are_counted_and_drawn_uniformly(words):
    trees = all_binary_trees(words)
    by_depth = Counter(int(depths(heads).max()) for heads in trees)
    for depth in range(1, words + 1):
        assert binary_trees(words, depth) == sum(count for each, count in by_depth.items() if each <= depth)
        if by_depth[depth]:
            generator = random.Random(depth)
            drawn = Counter(tuple(random_heads(words, depth, generator)) for _ in range(200 * by_depth[depth]))
            assert drawn.keys() == {heads for heads in trees if depths(heads).max() == depth}
            chi_squared = sum((count - 200) ** 2 / 200 for count in drawn.values())
            assert chi_squared < by_depth[depth] + 6 * (2 * by_depth[depth]) ** 0.5 + 10


def test_balanced_trees_have_the_least_depth_and_one_label():
    for words in range(1, 33):
        (found,) = BalancedTrees().annotate([Sentence(("w",) * words)])
        check_tree(found.heads, "here", single_root=True)
        assert is_binary(found.heads)
        assert is_projective(found.heads)
        assert depths(found.heads).max() == words.bit_length()
        assert {*found.relations} <= {"root", "dep"}


def test_one_label_keeps_the_binarised_shape_alone():
    (found,) = OneLabel(GoldTrees()).annotate([SENTENCE])
    assert found.heads == tuple(binary_dependencies(SENTENCE.heads).tolist()) == (2, 4, 2, 0, 4, 5)
    assert found.relations == ("dep", "dep", "dep", "root", "dep", "dep")


def test_random_shapes_are_as_deep_as_the_annotators_trees_and_the_same_each_time():
    annotator = RandomShapes(GoldTrees(), seed=3)
    (found,), (again, _) = annotator.annotate([SENTENCE]), annotator.annotate([SENTENCE, SENTENCE])
    assert found == again
    assert depths(found.heads).max() == depths(binary_dependencies(SENTENCE.heads)).max() == 3
    others = {RandomShapes(GoldTrees(), seed=seed).annotate([SENTENCE])[0].heads for seed in range(20)}
    assert len(others) == 4  # six words on three levels: one of the four deepest places is empty
    (chain,) = RandomShapes(LeftChain()).annotate([SENTENCE])
    assert depths(chain.heads).max() == len(SENTENCE)
