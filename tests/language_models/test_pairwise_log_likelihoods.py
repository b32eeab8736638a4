"""The log-likelihoods of all pairs against one softmax a pair, in float64 and float32, at chunk's edges."""

import pytest
import torch

from depgen.language_models import document
from depgen.language_models.document import pairwise_log_likelihoods

WORDS, CONTEXTS, FEATURES, VOCABULARY = 11, 4, 5, 7


def case(dtype, scale=1.0):
    torch.manual_seed(0)
    sizes = ((WORDS, FEATURES), (CONTEXTS, FEATURES), (VOCABULARY, FEATURES), (VOCABULARY,))
    return [scale * torch.randn(size, dtype=dtype) for size in sizes], torch.randint(VOCABULARY, (WORDS,))


def of_words(own, added, weight, bias, targets):
    """Those of sentences of a word."""
    return pairwise_log_likelihoods(own, added, weight, bias, targets, torch.arange(len(targets)))


def expected(own, added, weight, bias, targets):
    features = (own[:, None] + added).double()
    log_probs = (features @ weight.T.double() + (0 if bias is None else bias.double())).log_softmax(-1)
    return log_probs.gather(2, targets[:, None, None].expand(-1, len(added), 1))[:, :, 0]


@pytest.mark.parametrize("chunk", [1, 3, WORDS, 1 << 10])
def test_each_pair_has_its_own_softmax(monkeypatch, chunk):
    monkeypatch.setitem(document.CHUNK_ELEMENTS, "cpu", 2 * VOCABULARY * chunk)
    tensors, targets = case(torch.float64)
    for bias in (tensors[3], None):
        found = of_words(*tensors[:3], bias, targets)
        torch.testing.assert_close(found, expected(*tensors[:3], bias, targets), rtol=0, atol=1e-12)


def test_logits_far_apart_lose_nothing():
    tensors, targets = case(torch.float64, scale=8.0)  # logits of some hundred nats
    spread = tensors[0] @ tensors[2].T
    assert spread.max() - spread.min() > 400
    found = of_words(*tensors, targets)
    torch.testing.assert_close(found, expected(*tensors, targets), rtol=1e-12, atol=1e-10)


def test_single_precision_is_as_precise_as_its_logits():
    tensors, targets = case(torch.float32)
    found = of_words(*tensors, targets)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, expected(*tensors, targets), rtol=0, atol=2e-6)


@pytest.mark.parametrize("distance", [600, 740, 5000])
def test_logits_too_far_apart_for_a_product_are_added(distance):
    """The likeliest word of a position is not the likeliest of its context, and nothing lies between."""
    own = torch.tensor([[float(distance), 0.0], [1.0, 0.0]], dtype=torch.double)
    added = torch.tensor([[0.0, float(distance)], [0.0, 2.0], [0.5, 0.0]], dtype=torch.double)
    tensors, targets = (own, added, torch.eye(2, dtype=torch.double), None), torch.tensor([0, 1])
    found = of_words(*tensors, targets)
    torch.testing.assert_close(found, expected(*tensors, targets), rtol=1e-12, atol=1e-10)
    assert (found <= 0).all()


@pytest.mark.parametrize("chunk", [2, 1 << 10])
def test_sentences_are_sums_of_their_words(monkeypatch, chunk):
    monkeypatch.setitem(document.CHUNK_ELEMENTS, "cpu", 2 * VOCABULARY * chunk)
    tensors, targets = case(torch.float64)
    sentence_of = torch.tensor([0, 0, 0, 1, 2, 2, 2, 2, 2, 3, 3])
    by_word = expected(*tensors, targets)
    sums = torch.stack([by_word[sentence_of == sentence].sum(0) for sentence in range(4)])
    torch.testing.assert_close(pairwise_log_likelihoods(*tensors, targets, sentence_of), sums, rtol=0, atol=1e-12)


def test_no_word_is_no_row():
    tensors, targets = case(torch.float64)
    assert of_words(tensors[0][:0], *tensors[1:], targets[:0]).shape == (0, CONTEXTS)
