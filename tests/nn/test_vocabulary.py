"""The chunked log-sum-exp against the dense one."""

import pytest
import torch

from depgen.nn import vocabulary
from depgen.nn.vocabulary import log_softmax_over_vocabulary, vocabulary_logsumexp, word_log_probs, word_scores

WORDS = 11
ROW = 8 * WORDS
"""Bytes of a row of probabilities in float64."""


@pytest.mark.parametrize("chunk", [1, 3, 7, 100])
@pytest.mark.parametrize("kept_rows", [0, 4, 6, 10])
@pytest.mark.parametrize("with_bias", [True, False])
def test_value_and_gradients_equal_the_dense_form(chunk, kept_rows, with_bias, monkeypatch):
    monkeypatch.setitem(vocabulary.KEPT_BYTES, "cpu", kept_rows * ROW)
    torch.manual_seed(0)
    hidden = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(WORDS, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(WORDS, dtype=torch.float64, requires_grad=True) if with_bias else None
    weighting = torch.randn(2, 5, dtype=torch.float64)
    inputs = [x for x in (hidden, weight, bias) if x is not None]

    dense = torch.nn.functional.linear(hidden, weight, bias).logsumexp(-1)
    expected = torch.autograd.grad((dense * weighting).sum(), inputs)
    log_z = vocabulary_logsumexp(hidden, weight, bias, chunk=chunk)
    found = torch.autograd.grad((log_z * weighting).sum(), inputs)

    torch.testing.assert_close(log_z, dense)
    for ours, reference in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, reference)


def test_gradcheck():
    hidden = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda h, w: vocabulary_logsumexp(h, w, chunk=2), (hidden, weight))


def rows_kept(hidden, weight, chunk):
    """How many rows of probabilities are kept for the backward pass."""
    shapes = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda saved: shapes.append(saved.shape) or saved, lambda saved: saved
    ):
        vocabulary_logsumexp(hidden, weight, chunk=chunk)
    return sum(shape[0] for shape in shapes if shape[1:] == (WORDS,))


def test_no_probabilities_are_kept_beyond_the_bound_or_without_a_gradient(monkeypatch):
    hidden, weight = torch.randn(20, 4), torch.randn(WORDS, 4, requires_grad=True)
    assert rows_kept(hidden, weight, 6) == 20
    monkeypatch.setitem(vocabulary.KEPT_BYTES, "cpu", 5 * 4 * WORDS + 3)
    assert [rows_kept(hidden, weight, chunk) for chunk in (1, 3, 6)] == [5, 3, 0]
    assert rows_kept(hidden, weight.detach(), 1) == 0
    with torch.no_grad():
        assert rows_kept(hidden, weight, 1) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("words", [1, 16, 33])
def test_rows_of_scores_begin_at_cache_lines(words, dtype):
    matrix = vocabulary._with_whole_lines(torch.ones(words, 4, dtype=dtype))
    scores = vocabulary._scores(torch.ones(3, 4, dtype=dtype), matrix, words, None)
    assert torch.equal(scores, torch.full((3, words), 4.0, dtype=scores.dtype))
    assert scores.stride(0) * dtype.itemsize % vocabulary.ROW_BYTES == 0


def test_second_derivatives_are_refused():
    weight = torch.randn(4, 2, requires_grad=True)
    (first,) = torch.autograd.grad(
        vocabulary_logsumexp(torch.randn(3, 2), weight).square().sum(), weight, create_graph=True
    )
    with pytest.raises(RuntimeError, match="differentiate twice"):
        first.sum().backward()


def test_large_scores_do_not_overflow():
    hidden, weight = torch.tensor([[1000.0]]), torch.tensor([[1.0], [1.0]])
    assert vocabulary_logsumexp(hidden, weight).item() == pytest.approx(1000 + torch.tensor(2.0).log().item())


@pytest.mark.parametrize("kept_bytes", [0, 2 * 128, 1 << 20])
@pytest.mark.parametrize("chunk", [None, 3])
def test_under_bfloat16_autocast_the_result_is_fp32_and_near(kept_bytes, chunk, monkeypatch):
    monkeypatch.setitem(vocabulary.KEPT_BYTES, "cpu", kept_bytes)
    torch.manual_seed(0)
    hidden, weight = torch.randn(6, 32), torch.randn(50, 32, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        log_z = vocabulary_logsumexp(hidden, weight, chunk=chunk)
    assert log_z.dtype == torch.float32
    torch.testing.assert_close(log_z, (hidden @ weight.T).logsumexp(-1), rtol=0.02, atol=0.05)
    log_z.sum().backward()
    assert weight.grad is not None
    assert weight.grad.dtype == torch.float32
    torch.testing.assert_close(weight.grad, (hidden @ weight.T).softmax(-1).T @ hidden, rtol=0.03, atol=0.03)


def test_no_positions_give_no_normalisers_and_no_gradient():
    weight = torch.randn(5, 3, requires_grad=True)
    log_z = vocabulary_logsumexp(torch.zeros(0, 3), weight)
    assert log_z.shape == (0,)
    log_z.sum().backward()
    assert weight.grad is not None
    assert not weight.grad.any()


def test_word_log_probs_are_entries_of_the_log_softmax():
    torch.manual_seed(0)
    hidden, weight, bias = torch.randn(2, 3, 4), torch.randn(6, 4), torch.randn(6)
    words = torch.randint(6, (2, 3))
    everything = log_softmax_over_vocabulary(hidden, weight, bias)
    torch.testing.assert_close(everything.exp().sum(-1), torch.ones(2, 3))
    torch.testing.assert_close(
        word_log_probs(hidden, weight, bias, words), everything.gather(-1, words[..., None])[..., 0]
    )
    assert word_scores(hidden, weight, bias, words).shape == (2, 3)
