"""Trees of the largest score: by enumeration, by other libraries, by one search a root."""

import subprocess
import sys

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.decoding import spanning_tree
from depgen.decoding.spanning_tree import argmax_heads, maximum_spanning_trees, trees_of_most_heads
from depgen.trees.tree import check_tree
from tests.oracles import all_trees, score_of_tree, tree_by_n_calls


def best_score(scores, root_scores, *, single_root):
    trees = np.array(all_trees(len(scores)))
    arcs = np.concatenate((root_scores[:, None], scores), 1)[np.arange(len(scores)), trees]
    return arcs.sum(1)[((trees == 0).sum(1) == 1) | (not single_root)].max()


def found_tree(scores, root_scores=None, **options):
    """The tree found for one sentence, once it is certain that it is one."""
    roots = None if root_scores is None else root_scores[None]
    (heads,) = maximum_spanning_trees(scores[None], np.array([len(scores)]), root_scores=roots, **options).tolist()
    check_tree(heads, "found", single_root=options.get("single_root", True))
    return heads


def drawn(seed, n, kind):
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
    st.booleans(),
)
def test_no_tree_is_better(seed, n, kind, single_root):
    scores, roots = drawn(seed, n, kind)
    expected = best_score(scores, roots, single_root=single_root)
    if expected == -np.inf:
        with pytest.raises(ValueError, match="has no tree"):
            found_tree(scores, roots, single_root=single_root)
        return
    heads = found_tree(scores, roots, single_root=single_root)
    assert score_of_tree(heads, scores, roots) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("n", [2, 3, 6, 9])
def test_several_roots_as_networkx_finds_them(n):
    for seed in range(5):
        scores, roots = drawn(seed, n, "normal")
        graph = networkx.DiGraph()
        graph.add_weighted_edges_from((0, i + 1, roots[i]) for i in range(n))
        graph.add_weighted_edges_from((j + 1, i + 1, scores[i, j]) for i in range(n) for j in range(n) if i != j)
        tree = networkx.maximum_spanning_arborescence(graph, attr="weight")
        expected = [head for _, head in sorted((dependent, head) for head, dependent in tree.edges)]
        assert found_tree(scores, roots, single_root=False) == expected


@pytest.mark.parametrize("kind", ["normal", "ties", "huge roots", "logs"])
def test_one_search_is_as_good_as_one_for_each_root(kind):
    for seed in range(6):
        scores, roots = drawn(seed, 6 + 3 * seed, kind)
        expected = score_of_tree(tree_by_n_calls(scores, roots), scores, roots)
        found = score_of_tree(found_tree(scores, roots), scores, roots)
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-10)


def test_the_single_root_is_exact_whatever_the_range():
    """A penalty is too small for what a second root gains, or so large that differences drown in it."""
    scores = np.array([[0.0, 1e-9, 0.0], [0.0, 0.0, 2e-9], [3e-9, 0.0, 0.0]])
    assert found_tree(scores, np.ones(3)) == [0, 3, 1]
    for gain in (1.0, 1e12, 1e290):
        assert found_tree(scores, np.full(3, gain)).count(0) == 1
        assert found_tree(scores, np.full(3, gain), single_root=False) == [0, 0, 0]
        assert found_tree(scores, gain * np.array([0.0, 1.0, 0.0])) == [2, 0, 1]


@pytest.mark.slow
def test_a_sentence_of_500_words_as_supar_finds_it():
    from supar.structs.fn import mst

    scores, roots = drawn(0, 500, "logs")
    padded = torch.zeros(1, 501, 501, dtype=torch.double)
    padded[0, 1:, 1:], padded[0, 1:, 0] = torch.from_numpy(scores), torch.from_numpy(roots)
    mask = torch.arange(501)[None] > 0
    expected = mst(padded.clone(), mask)[0, 1:].tolist()
    heads = found_tree(scores, roots)
    assert score_of_tree(heads, scores, roots) == pytest.approx(score_of_tree(expected, scores, roots), abs=1e-9)


def test_a_planted_tree_of_500_words_is_found():
    generator = np.random.default_rng(0)
    planted = [0, *(int(generator.integers(1, word)) for word in range(2, 501))]
    order = generator.permutation(500)
    heads = [0] * 500
    for word, head in enumerate(planted):
        heads[order[word]] = 0 if head == 0 else int(order[head - 1]) + 1
    scores = generator.random((500, 500))
    for word, head in enumerate(heads):
        if head:
            scores[word, head - 1] += 1.0
    roots = (np.array(heads) == 0) * 1000.0
    assert found_tree(scores, roots) == heads


def test_one_word_is_the_root():
    assert found_tree(np.array([[np.nan]])) == [0]
    assert found_tree(np.array([[5.0]]), np.array([-7.0]), single_root=False) == [0]
    assert maximum_spanning_trees(np.zeros((2, 1, 1)), np.array([1, 0])).tolist() == [[0], [-1]]
    assert maximum_spanning_trees(np.zeros((0, 3, 3)), np.zeros(0, dtype=int)).shape == (0, 3)


@pytest.mark.parametrize("threads", [1, 4])
def test_neither_batch_nor_padding_nor_threads_matter(threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(spanning_tree, "_WORK_OF_A_THREAD", 10)
    lengths = np.array([7, 1, 12, 3, 3, 0, 9])
    sentences = [drawn(seed, n, "ties") for seed, n in enumerate(lengths)]
    scores, roots = np.full((7, 14, 14), np.nan, dtype=np.float32), np.full((7, 14), np.inf, dtype=np.float32)
    for item, (arcs, own_roots) in enumerate(sentences):
        scores[item, : len(arcs), : len(arcs)], roots[item, : len(arcs)] = arcs, own_roots
    before = scores.copy()
    found = maximum_spanning_trees(scores, lengths, root_scores=roots)
    np.testing.assert_array_equal(scores, before)
    for heads, length, (arcs, own_roots) in zip(found.tolist(), lengths, sentences, strict=True):
        assert heads[length:] == [-1] * (14 - length)
        assert heads[:length] == (found_tree(arcs, own_roots) if length else [])


def test_what_is_no_score_is_refused():
    scores, lengths = np.zeros((2, 3, 3)), np.array([3, 3])
    for number in (np.nan, np.inf, 1e301, -1e301):
        broken = scores.copy()
        broken[1, 2, 0] = number
        with pytest.raises(ValueError, match=r"Sentence 2 of the batch has a score that is NaN, inf or beyond"):
            maximum_spanning_trees(broken, lengths)
        with pytest.raises(ValueError, match="Sentence 1 of the batch has a score"):
            maximum_spanning_trees(scores, lengths, root_scores=np.where(np.arange(3) == 1, number, np.zeros((2, 3))))
    alone = np.where(np.arange(3) == 0, -np.inf, np.zeros((2, 3, 1)))  # nobody may hang on the first word
    with pytest.raises(ValueError, match="no tree with a single root"):
        maximum_spanning_trees(alone, lengths, root_scores=np.array([[0, -np.inf, -np.inf]] * 2))
    for wrong in (np.array([3, 4]), np.array([3, -1])):
        with pytest.raises(ValueError, match="lengths up to their size"):
            maximum_spanning_trees(scores, wrong)
    with pytest.raises(ValueError, match="square scores"):
        maximum_spanning_trees(scores[:, :2], np.array([2, 2]))


def test_the_best_heads_are_other_words():
    probabilities = np.zeros((3, 4, 4))
    probabilities[0] = [[0.9, 0.0, 0.1, 0.9], [0.2, 0.9, 0.3, 0.9], [0.0, 0.0, 1.0, 0.9], [0.9] * 4]
    probabilities[1] = 1.0
    assert argmax_heads(probabilities, np.array([3, 1, 4])).tolist() == [[3, 3, 1, -1], [0, -1, -1, -1], [2, 1, 1, 1]]
    assert argmax_heads(np.log(probabilities + 1e-9), np.array([3, 1, 4])).tolist()[0] == [3, 3, 1, -1]
    roots = np.array([[0.2, 0.9, 0.0, 0.9], [0.0] * 4, [0.0, 0.1, 0.0, 0.0]])
    found = argmax_heads(probabilities, np.array([3, 1, 4]), root_probabilities=roots).tolist()
    assert found == [[0, 0, 1, -1], [0, -1, -1, -1], [2, 0, 1, 1]]
    probabilities[0, :, 3], probabilities[0, 3, :], probabilities[0, 1, 1] = np.nan, np.nan, np.nan
    assert argmax_heads(probabilities, np.array([3, 1, 4])).tolist()[0] == [3, 3, 1, -1]
    probabilities[2, 1, 2] = np.nan
    with pytest.raises(ValueError, match="Sentence 3 of the batch has a probability that is NaN"):
        argmax_heads(probabilities, np.array([3, 1, 4]))


@pytest.mark.slow
def test_the_compiler_is_imported_only_for_a_tree():
    script = "import sys, depgen.decoding.spanning_tree; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.booleans())
def test_no_tree_keeps_more_heads_or_as_many_with_a_larger_sum(seed, n, knows_roots):
    scores, roots = drawn(seed, n, "logs")
    roots = roots * knows_roots
    heads = argmax_heads(np.exp(scores)[None], np.array([n]), root_probabilities=np.exp(roots)[None] * knows_roots)[0]
    padded, own_roots, own_heads = np.zeros((1, n + 1, n + 1)), np.zeros((1, n + 1)), np.full((1, n + 1), -1)
    padded[0, :n, :n], own_roots[0, :n], own_heads[0, :n] = scores, roots, heads

    def worth(tree):
        arcs = [roots[word] if head == 0 else scores[word, head - 1] for word, head in enumerate(tree)]
        return sum(head == old for head, old in zip(tree, heads, strict=True)), sum(arcs)

    found = trees_of_most_heads(own_heads, padded, np.array([n]), root_scores=own_roots)[0].tolist()
    assert found.pop() == -1
    check_tree(found, "found", single_root=True)
    kept, total = max(worth(tree) for tree in all_trees(n) if list(tree).count(0) == 1)
    assert worth(found) == (kept, pytest.approx(total))
