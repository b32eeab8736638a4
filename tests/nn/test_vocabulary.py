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
