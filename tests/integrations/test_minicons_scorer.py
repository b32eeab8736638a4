"""minicons' methods on our system: equal to minicons on the same weights by the transformers library."""

import pytest
from minicons.scorer import IncrementalLMScorer
from transformers import GPT2LMHeadModel, PreTrainedTokenizerFast

import depgen
from depgen.integrations.minicons_scorer import DepgenScorer
from tests.invented_models import END

TEXTS = ["the cat sat on the mat again", "The quizzical platypus, again!", "mat the"]


@pytest.fixture(scope="module")
def scorers(gpt2):
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(gpt2 / "tokenizer.json"), bos_token=END, eos_token=END, pad_token=END
    )
    theirs = IncrementalLMScorer(GPT2LMHeadModel.from_pretrained(gpt2).eval(), "cpu", tokenizer=tokenizer)
    return DepgenScorer(gpt2, device="cpu"), theirs


@pytest.mark.parametrize(
    "method",
    [
        lambda scorer: scorer.sequence_score(TEXTS, reduction=lambda x: x.sum(0).item(), bos_token=True),
        lambda scorer: [score for text in scorer.token_score(TEXTS, bos_token=True) for _, score in text],
        lambda scorer: [bits for text in scorer.token_score(TEXTS, surprisal=True, base_two=True) for _, bits in text],
        lambda scorer: scorer.conditional_score(TEXTS, ["and the cat", "on", "sat"], bos_token=True),
        lambda scorer: scorer.compute_stats(scorer.prepare_text(TEXTS[:1], bos_token=True, eos_token=True))[0],
        lambda scorer: [score for text in scorer.word_score_tokenized(TEXTS[:1], str.split) for _, score in text],
    ],
)  # fmt: skip
def test_scores_are_those_of_minicons(scorers, method):
    ours, theirs = map(method, scorers)
    assert ours == pytest.approx(theirs, abs=1e-5)
    assert len({*ours}) > 1


def test_sums_are_those_of_the_system(scorers, gpt2):
    ours, _ = scorers
    found = ours.sequence_score(TEXTS, reduction=lambda x: x.sum(0).item(), bos_token=True, eos_token=True)
    assert found == pytest.approx(
        depgen.load(gpt2, device="cpu").score(TEXTS, by="document")["log_prob"].tolist(), abs=1e-5
    )
