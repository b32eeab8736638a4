"""minicons' methods on our systems: equal to minicons on the same weights by transformers, and to `System.score`."""

import math

import pytest
from minicons.scorer import IncrementalLMScorer
from transformers import GPT2LMHeadModel, PreTrainedTokenizerFast

from depgen.integrations.minicons_scorer import DepgenScorer
from tests.evaluation.test_system import MODELS, system_of
from tests.integrations.conftest import bounding_system
from tests.invented_models import END

TEXTS = ["the cat sat on the mat again", "The quizzical platypus, again!", "mat the"]


def total(scores):
    return scores.sum(0).item()


@pytest.fixture(scope="module")
def scorers(gpt2):
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(gpt2 / "tokenizer.json"), bos_token=END, eos_token=END, pad_token=END
    )
    theirs = IncrementalLMScorer(GPT2LMHeadModel.from_pretrained(gpt2).eval(), "cpu", tokenizer=tokenizer)
    return DepgenScorer(gpt2, device="cpu"), theirs


def test_sums_are_those_of_minicons(scorers):
    ours, theirs = scorers
    expected = theirs.sequence_score(TEXTS, reduction=total, bos_token=True)
    assert ours.sequence_score(TEXTS, reduction=total) == pytest.approx(expected, abs=1e-5)
    after = ["and the cat", "on", "sat"]
    expected = theirs.conditional_score(TEXTS, after, reduction=total, bos_token=True)
    assert ours.conditional_score(TEXTS, after, reduction=total) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", [*MODELS, "bound"])
def test_words_are_those_of_the_system(name, monkeypatch):
    system = bounding_system() if name == "bound" else system_of(MODELS[name])
    monkeypatch.setattr("depgen.integrations.minicons_scorer.load", lambda run, **options: system)
    scorer, texts = DepgenScorer(), ["the cat ran .", "dogs saw a xylophone"]
    words = system.score(texts)
    for with_end in (False, True):
        own = words[with_end | ~words["is_end"]]
        found = scorer.token_score(texts, eos_token=with_end)
        assert [word for text in found for word, _ in text] == own["word"].tolist()
        assert [score for text in found for _, score in text] == pytest.approx(own["log_prob"].tolist(), abs=1e-6)
    bits = [bit for text in scorer.token_score(texts, surprisal=True, base_two=True) for _, bit in text]
    alone = words.loc[~words["is_end"], "log_prob"]
    assert bits == pytest.approx((-alone / math.log(2)).tolist(), abs=1e-6)
    (after,) = scorer.conditional_score("the cat", "ran .", reduction=total)
    assert after == pytest.approx(alone[2:4].sum(), abs=1e-5)
