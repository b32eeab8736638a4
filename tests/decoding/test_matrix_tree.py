"""Marginals of trees with a single root: by enumeration, by SuPar, by sums and derivatives."""

import numpy as np
import pytest
import torch

from depgen.decoding.matrix_tree import tree_marginals
from tests.oracles import all_trees, score_of_tree


def drawn(seed, n, *, batch=1, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    numbers = scale * torch.randn(batch, n, n + 1, dtype=torch.double, generator=generator)
    return numbers[:, :, 1:].clone(), numbers[:, :, 0].clone()


def of_words(scores, roots):
    """The marginals where nothing is padding."""
    return tree_marginals(scores, roots, torch.ones(roots.shape, dtype=torch.bool))


def by_enumeration(scores, roots):
    """The marginals of one sentence's arcs and roots."""
    n = len(roots)
    trees = [heads for heads in all_trees(n) if heads.count(0) == 1]
    weights = np.array([score_of_tree(heads, scores, roots) for heads in trees])
    weights = np.exp(weights - weights.max())
    marginals = np.zeros((n, n + 1))
    for heads, weight in zip(trees, weights / weights.sum(), strict=True):
        marginals[np.arange(n), heads] += weight
    return marginals[:, 1:], marginals[:, 0]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_they_are_sums_over_all_trees(n, scale):
    for seed in range(4):
        scores, roots = drawn(seed, n, scale=scale)
        arcs, own_roots = of_words(scores, roots)
        expected_arcs, expected_roots = by_enumeration(scores[0].numpy(), roots[0].numpy())
        np.testing.assert_allclose(arcs[0].numpy(), expected_arcs, atol=1e-9)
        np.testing.assert_allclose(own_roots[0].numpy(), expected_roots, atol=1e-9)


@pytest.mark.parametrize("n", [2, 9, 30])
def test_supar_has_the_same(n):
    from supar.structs import MatrixTree

    scores, roots = drawn(0, n, batch=3)
    padded = torch.zeros(3, n + 1, n + 1, dtype=torch.double)
    padded[:, 1:, 1:], padded[:, 1:, 0] = scores, roots
    expected = MatrixTree(padded.clone(), torch.tensor([n] * 3)).marginals
    arcs, own_roots = of_words(scores, roots)
    torch.testing.assert_close(arcs, expected[:, 1:, 1:].detach(), atol=1e-9, rtol=0)
    torch.testing.assert_close(own_roots, expected[:, 1:, 0].detach(), atol=1e-9, rtol=0)


def test_the_derivatives_are_those_of_finite_differences():
    scores, roots = drawn(2, 4, batch=2)
    words = torch.tensor([[True] * 4, [True, True, False, False]])
    weights = torch.randn(2, 4, 5, dtype=torch.double, generator=torch.Generator().manual_seed(0))

    def mixed(scores, roots):
        arcs, own_roots = tree_marginals(scores, roots, words)
        return (weights[:, :, 1:] * arcs).sum(), (weights[:, :, 0] * own_roots).sum()

    assert torch.autograd.gradcheck(mixed, (scores.requires_grad_(), roots.requires_grad_()))


def test_padding_and_diagonal_do_not_matter():
    long, short = drawn(3, 6), drawn(4, 3)
    scores, roots = torch.full((2, 8, 8), 1e30, dtype=torch.double), torch.full((2, 8), -1e30, dtype=torch.double)
    for item, (arcs, own_roots) in enumerate((long, short)):
        n = own_roots.shape[1]
        scores[item, :n, :n], roots[item, :n] = arcs[0], own_roots[0]
        scores[item].fill_diagonal_(7.0)
    words = torch.arange(8) < torch.tensor([[6], [3]])
    arcs, own_roots = tree_marginals(scores, roots, words)
    for item, (alone, n) in enumerate(((of_words(*long), 6), (of_words(*short), 3))):
        torch.testing.assert_close(arcs[item, :n, :n], alone[0][0])
        torch.testing.assert_close(own_roots[item, :n], alone[1][0])
        assert arcs[item].sum() == pytest.approx(n - 1)
        assert (own_roots[item, n:] == 0).all()


def test_one_word_is_the_root_and_learns_nothing_from_it():
    scores, roots = torch.zeros(1, 1, 1, requires_grad=True), torch.tensor([[-300.0]], requires_grad=True)
    arcs, own_roots = of_words(scores, roots)
    assert (arcs.tolist(), own_roots.tolist()) == ([[[0.0]]], [[1.0]])
    (arcs.sum() + own_roots.sum()).backward()
    assert (scores.grad.tolist(), roots.grad.tolist()) == ([[[0.0]]], [[0.0]])


def test_extreme_scores_are_neither_overflow_nor_underflow():
    arcs, roots = of_words(torch.tensor([[[0.0, 1000.0], [1000.0, 0.0]]]), torch.zeros(1, 2))
    assert (arcs.tolist(), roots.tolist()) == ([[[0.0, 0.5], [0.5, 0.0]]], [[0.5, 0.5]])
    chain = torch.full((1, 5, 5), -1000.0)
    for word in range(1, 5):
        chain[0, word, word - 1] = 1000.0
    arcs, roots = of_words(chain.requires_grad_(), torch.tensor([[1000.0, -1000.0, 0.0, 0.0, 0.0]]))
    torch.testing.assert_close(arcs[0], torch.diag(torch.ones(4), -1))
    torch.testing.assert_close(roots[0], torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0]))
    arcs.square().sum().backward()
    assert torch.isfinite(chain.grad).all()


def test_forbidden_arcs_have_no_share():
    scores, roots = drawn(6, 4)
    scores[0, 2, :], roots[0, [0, 1, 3]] = -torch.inf, -torch.inf  # the third word is the root
    arcs, own_roots = of_words(scores, roots)
    expected_arcs, _ = by_enumeration(scores[0].numpy(), roots[0].numpy())
    np.testing.assert_allclose(arcs[0].numpy(), expected_arcs, atol=1e-12)
    assert own_roots[0].tolist() == [0.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("pull", [20.0, 40.0, 300.0])
def test_words_that_take_each_other_for_heads_leave_a_tree(pull):
    scores = torch.zeros(1, 4, 4)
    scores[0, 1, 2] = scores[0, 2, 1] = pull
    scores.requires_grad_()
    arcs, roots = tree_marginals(scores, torch.zeros(1, 4), torch.ones(1, 4, dtype=torch.bool))
    assert arcs.sum().item() == pytest.approx(3, abs=1e-5)
    assert roots.sum().item() == pytest.approx(1, abs=1e-5)
    assert arcs[0, 1, 2].item() == pytest.approx(arcs[0, 2, 1].item(), abs=1e-5)
    arcs.square().sum().backward()
    assert scores.grad.isfinite().all()
