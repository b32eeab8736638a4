"""Trees of a shape alone: balanced, of one label, and random ones that are as deep as others."""

import random
from collections import Counter
from itertools import product

import pytest

from depgen.annotation.controls import (
    BalancedTrees,
    GoldTrees,
    LeftChain,
    OneLabel,
    RandomShapes,
    binary_trees,
    random_heads,
)
from depgen.trees.binarization import binary_dependencies, depths
from depgen.trees.sentence import Sentence
from depgen.trees.tree import check_tree, find_cycle

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


def test_fingerprints_tell_all_apart():
    made = [
        BalancedTrees(),
        OneLabel(GoldTrees()),
        OneLabel(LeftChain()),
        RandomShapes(GoldTrees()),
        RandomShapes(GoldTrees(), 1),
    ]
    assert len({each.fingerprint() for each in made}) == len({each.scheme for each in made}) == len(made)
