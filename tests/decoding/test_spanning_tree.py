"""Trees of the largest score: by enumeration, by other libraries, by one search a root; and heads by probabilities."""

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.decoding.heads import decoded_heads
from depgen.decoding.spanning_tree import maximum_spanning_trees
from depgen.trees.sentence import check_tree
from tests.oracles import all_trees, score_of_tree, tree_by_n_calls


def single_root_trees(length):
    return [heads for heads in all_trees(length) if heads.count(0) == 1]


def tree_of(scores, root_scores=None):
    """The tree of one sentence, once it is certain that it is one."""
    roots = None if root_scores is None else root_scores[None]
    (heads,) = maximum_spanning_trees(scores[None], np.array([len(scores)]), root_scores=roots).tolist()
    check_tree(heads, "the best tree", single_root=True)
    return heads


def random_scores(seed, n, kind):
    """Scores of arcs and of roots."""
    generator = np.random.default_rng((seed, n))
    numbers = generator.normal(size=(n, n + 1))
    if kind == "ties":
        numbers = generator.integers(0, 3, (n, n + 1)).astype(float)
    elif kind == "huge roots":
        numbers[:, 0] *= 1e6
    elif kind == "logs":
        numbers = np.log(generator.dirichlet(np.full(n + 1, 0.05), n) + 1e-9)
    elif kind == "forbidden":
        numbers[generator.random((n, n + 1)) < 0.5] = -np.inf
    return numbers[:, 1:], numbers[:, 0]


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 5),
    st.sampled_from(["normal", "ties", "huge roots", "logs", "forbidden"]),
)
def test_no_tree_is_better(seed, n, kind):
    scores, roots = random_scores(seed, n, kind)
    expected = max(score_of_tree(heads, scores, roots) for heads in single_root_trees(n))
    if expected == -np.inf:
        with pytest.raises(ValueError, match="no tree with a single root"):
            tree_of(scores, roots)
    else:
        assert score_of_tree(tree_of(scores, roots), scores, roots) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("n", [2, 3, 6, 9])
def test_trees_are_those_of_networkx(n):
    for seed in range(5):
        scores, roots = random_scores(seed, n, "normal")
        graph = networkx.DiGraph()
        graph.add_weighted_edges_from((0, i + 1, roots[i] - 1000) for i in range(n))  # as few roots as can be
        graph.add_weighted_edges_from((j + 1, i + 1, scores[i, j]) for i in range(n) for j in range(n) if i != j)
        tree = networkx.maximum_spanning_arborescence(graph, attr="weight")
        assert tree_of(scores, roots) == [head for _, head in sorted((word, head) for head, word in tree.edges)]


@pytest.mark.parametrize("kind", ["normal", "ties", "huge roots", "logs"])
def test_one_search_is_as_good_as_one_for_each_root(kind):
    for seed in range(6):
        scores, roots = random_scores(seed, 6 + 3 * seed, kind)
        expected = score_of_tree(tree_by_n_calls(scores, roots), scores, roots)
        assert score_of_tree(tree_of(scores, roots), scores, roots) == pytest.approx(expected, rel=1e-12, abs=1e-10)


def test_the_single_root_is_exact_whatever_the_range():
    """A penalty is too small for what a second root gains, or so large that differences drown in it."""
    scores = np.array([[0.0, 1e-9, 0.0], [0.0, 0.0, 2e-9], [3e-9, 0.0, 0.0]])
    assert tree_of(scores, np.ones(3)) == [0, 3, 1]
    for gain in (1.0, 1e12, 1e290):
        assert tree_of(scores, np.full(3, gain)).count(0) == 1
        assert tree_of(scores, gain * np.array([0.0, 1.0, 0.0])) == [2, 0, 1]


def test_one_word_is_the_root():
    assert tree_of(np.array([[np.nan]])) == [0]
    assert maximum_spanning_trees(np.zeros((2, 1, 1)), np.array([1, 0])).tolist() == [[0], [-1]]
    assert maximum_spanning_trees(np.zeros((0, 3, 3)), np.zeros(0, dtype=int)).shape == (0, 3)


def test_neither_batch_nor_padding_matters():
    lengths = np.array([7, 1, 12, 3, 3, 0, 9])
    sentences = [random_scores(seed, n, "ties") for seed, n in enumerate(lengths)]
    scores, roots = np.full((7, 14, 14), np.nan, dtype=np.float32), np.full((7, 14), np.inf, dtype=np.float32)
    for item, (arcs, own_roots) in enumerate(sentences):
        scores[item, : len(arcs), : len(arcs)], roots[item, : len(arcs)] = arcs, own_roots
    trees = maximum_spanning_trees(scores, lengths, root_scores=roots)
    for heads, length, (arcs, own_roots) in zip(trees.tolist(), lengths, sentences, strict=True):
        assert heads[length:] == [-1] * (14 - length)
        assert heads[:length] == (tree_of(arcs, own_roots) if length else [])


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e301, -1e301])
def test_what_is_no_score_is_refused(number):
    scores, lengths = np.zeros((2, 3, 3)), np.array([3, 3])
    with pytest.raises(ValueError, match="a sentence is NaN, inf or beyond"):
        maximum_spanning_trees(scores, lengths, root_scores=np.where(np.arange(3) == 1, number, np.zeros((2, 3))))
    scores[1, 2, 0] = number
    with pytest.raises(ValueError, match="a sentence is NaN, inf or beyond"):
        maximum_spanning_trees(scores, lengths)


def test_the_likeliest_heads_are_other_words():
    probabilities = np.zeros((3, 4, 4))
    probabilities[0] = [[0.0, 0.0, 0.1, 0.9], [0.2, 0.0, 0.3, 0.9], [0.0, 0.0, 0.0, 0.9], [0.9] * 4]
    probabilities[2] = 1 - np.eye(4)
    lengths = np.array([3, 1, 4])
    assert decoded_heads(probabilities, lengths, "argmax").tolist() == [[3, 3, 1, -1], [0, -1, -1, -1], [2, 1, 1, 1]]
    places = np.arange(4)
    probabilities[:, places, places] = [[0.2, 0.9, 0.0, 0.9], [0.0] * 4, [0.0, 1.1, 0.0, 0.0]]  # of roots
    assert decoded_heads(probabilities, lengths, "argmax").tolist() == [[0, 0, 1, -1], [0, -1, -1, -1], [2, 0, 1, 1]]
    probabilities[0, :, 3], probabilities[0, 3, :] = np.nan, np.nan
    assert decoded_heads(probabilities, lengths, "argmax").tolist()[0] == [0, 0, 1, -1]
    probabilities[2, 1, 2] = np.nan
    with pytest.raises(ValueError, match="Sentence 3 of the batch has a probability that is NaN"):
        decoded_heads(probabilities, lengths, "argmax")
