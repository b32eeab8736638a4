"""Distributions over labelled projective trees against the enumeration of all trees."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from depgen.decoding.projective_trees import ProjectiveTrees
from depgen.trees.binarization import binary_dependencies
from tests.models.projective_trees import all_heads

RELATIONS = ("left", "right")


def crf(words, relations=RELATIONS, seed=0):
    generator = np.random.default_rng(seed)
    labels = generator.normal(size=(words, words, len(relations)))
    labels -= np.logaddexp.reduce(labels, -1, keepdims=True)
    return ProjectiveTrees(generator.normal(size=(words, words)), generator.normal(size=words), labels, relations)


def labelled(words, relations=RELATIONS):
    """All labelled trees: heads and relations."""
    for heads in all_heads(words):
        names = [relations if head else ("root",) for head in heads]
        yield from ((heads, row) for row in itertools.product(*names))


def weight(trees, heads, relations):
    """The exponential of a tree's score, arc by arc."""
    score = 0.0
    for word, (head, relation) in enumerate(zip(heads, relations, strict=True)):
        if head:
            score += trees.arcs[word, head - 1] + trees.labels[word, head - 1, trees.relations.index(relation)]
        else:
            score += trees.roots[word]
    return math.exp(score)


def probabilities(trees):
    found = {tree: weight(trees, *tree) for tree in labelled(len(trees.roots), trees.relations)}
    return {tree: each / sum(found.values()) for tree, each in found.items()}


def keys(found):
    return [(tuple(heads.tolist()), relations) for heads, relations in found]


def test_samples_have_the_probabilities_of_the_enumeration():
    trees, number = crf(3), 4_000
    expected = probabilities(trees)
    found = Counter(keys(trees.sample(number, np.random.default_rng(1))))
    assert found.keys() <= expected.keys()
    for tree, probability in expected.items():
        assert found[tree] / number == pytest.approx(probability, abs=5 * math.sqrt(probability / number) + 1e-9)
    first = trees.sample(5, np.random.default_rng(1))
    assert keys(first) == keys(trees.sample(9, np.random.default_rng(1)))[:5]


@pytest.mark.parametrize("binarization", ["left-right", "none"])
@pytest.mark.parametrize("words", [1, 2, 3, 4, 5])
def test_a_binarised_tree_has_the_probability_of_all_trees_that_become_it(words, binarization):
    trees = crf(words, ("dep",) if words == 5 else RELATIONS)
    expected = Counter()
    for (heads, relations), probability in probabilities(trees).items():
        expected[tuple(binary_dependencies(heads, binarization=binarization).tolist()), relations] += probability
    assert sum(expected.values()) == pytest.approx(1)
    assert binarization == "none" or words < 5 or len(expected) < len(all_heads(words))
    for (heads, relations), probability in expected.items():
        found = trees.log_prob((np.array(heads), relations), binarization=binarization)
        assert math.exp(found) == pytest.approx(probability, rel=1e-9)


def test_an_unknown_relation_has_no_probability():
    assert crf(2).log_prob((np.array([0, 1]), ("root", "other"))) == -math.inf
