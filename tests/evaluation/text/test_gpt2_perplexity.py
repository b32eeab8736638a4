import logging
import math

import numpy as np
import pytest
import torch

from depgen.evaluation.text.gpt2_perplexity import corpus_perplexity, lm_perplexity
from depgen.evaluation.text.outcome import NotComputedError

TEXTS = ["The old dog slept .", "it was late", "A cat ran quickly by the river and they saw it .", "  dog and cat "]


def one_by_one(folder, texts):
    """The definition, a text at a time: no BOS, first token unscored, exp(mean nll)."""
    from transformers import AutoTokenizer, GPT2LMHeadModel

    tokenizer, model = AutoTokenizer.from_pretrained(folder), GPT2LMHeadModel.from_pretrained(folder).eval()
    perplexities = []
    for text in texts:
        ids = tokenizer.encode(text.lower().strip(), add_special_tokens=False)
        with torch.no_grad():
            log_probs = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        nll = [-log_probs[place, token].item() for place, token in enumerate(ids[1:])]
        perplexities.append(math.exp(sum(nll) / len(nll)))
    return perplexities


@pytest.mark.parametrize("batch_size", [1, 3, 8])
def test_equals_the_definition_in_any_batch_and_averages_arithmetically(tiny_gpt2, batch_size):
    outcome = lm_perplexity(TEXTS, model=str(tiny_gpt2), batch_size=batch_size)
    expected = one_by_one(tiny_gpt2, TEXTS)
    assert outcome.items.tolist() == pytest.approx(expected, rel=1e-5)
    assert outcome.value == pytest.approx(np.mean(expected), rel=1e-5)
    assert max(expected) / min(expected) > 1.5  # the texts differ, so the order is tested too
    assert "tiny-gpt2" in outcome.settings
    assert "/" not in outcome.settings


def test_a_corpus_is_over_all_tokens_after_bos(tiny_gpt2):
    from transformers import AutoTokenizer, GPT2LMHeadModel

    tokenizer, model = AutoTokenizer.from_pretrained(tiny_gpt2), GPT2LMHeadModel.from_pretrained(tiny_gpt2).eval()
    nll = []
    for text in TEXTS:
        ids = [tokenizer.bos_token_id, *tokenizer.encode(text, add_special_tokens=False)]
        with torch.no_grad():
            log_probs = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        nll += [-log_probs[place, token].item() for place, token in enumerate(ids[1:])]
    found = corpus_perplexity([*TEXTS, ""], model=str(tiny_gpt2), batch_size=3)
    assert found.value == pytest.approx(math.exp(np.mean(nll)), rel=1e-5)
    assert "4 texts" in found.settings
    with pytest.raises(NotComputedError, match="none of the texts"):
        corpus_perplexity([""], model=str(tiny_gpt2))


def test_texts_without_a_perplexity_are_left_out_and_counted(tiny_gpt2, caplog):
    long = "the old dog " * 30
    with caplog.at_level(logging.WARNING):
        outcome = lm_perplexity(["", "it was late", ".", long], model=str(tiny_gpt2))
    assert np.isnan(outcome.items).tolist() == [True, False, True, True]
    assert outcome.value == pytest.approx(outcome.items[1])
    assert "3 of 4 texts: 2 have fewer than two tokens, 1 are too long" in caplog.text
