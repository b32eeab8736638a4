"""Coherence of 155 documents of the paper's size at K = H = 128: 24 shuffles each, 1,000 resamples, on two threads."""

from functools import partial

import numpy as np
import pytest
import torch

from depgen.data.vocabulary import Vocabulary
from depgen.evaluation.coherence.arrangements import CoherenceTask, trials
from depgen.evaluation.coherence.assessment import answers
from depgen.evaluation.coherence.scoring import score_trials
from depgen.models.dclm import (
    DCLM,
    AttentionContext,
    CarriedState,
    ContextToContext,
    ContextToOutput,
    HierarchicalContext,
    NoContext,
)
from tests.benchmarks.figures import figure, seconds, write_figures
from tests.evaluation.coherence.toys import Listed

DOCUMENTS, WORDS, SIZE, GOAL = 155, 10_000, 128, 180.0
MODELS = {
    "RNNLM": NoContext,
    "DRNNLM": CarriedState,
    "HRNNLM": HierarchicalContext,
    "ADCLM": AttentionContext,
    "ADCLM, code2015": partial(AttentionContext, variant="code2015"),
    "CODCLM": ContextToOutput,
    "CCDCLM": ContextToContext,
}


def corpus(documents):
    """Documents of 22 sentences of 24 words in the mean, words as frequent as in text."""
    generator = np.random.default_rng(0)
    frequencies = 1 / np.arange(2, WORDS + 2)
    frequencies /= frequencies.sum()

    def sentence():
        return " ".join(f"w{word}" for word in generator.choice(WORDS, generator.poisson(23) + 1, p=frequencies))

    return Listed([[sentence() for _ in range(generator.integers(4, 41))] for _ in range(documents)])


@pytest.mark.usefixtures("two_threads")
def test_coherence():
    vocabulary = Vocabulary.of_words([f"w{word}" for word in range(WORDS)], specials=["start"])
    asked, found = CoherenceTask(), corpus(DOCUMENTS)
    figures, resampled = {}, []
    for name, context in MODELS.items():
        torch.manual_seed(0)
        model = DCLM(vocabulary.size, context=partial(context, size=SIZE), embedding_size=SIZE).eval()

        def assess(model=model):
            pairs = trials(asked, found)
            resampled.append(answers(pairs, score_trials(model, pairs, vocabulary=vocabulary)).accuracies(asked))

        figures[name] = figure(seconds(assess), "s", at_most=GOAL)
    write_figures("coherence", figures)
    assert len(figures) == len(MODELS)
    assert [len(each) for each in resampled] == [asked.resamples] * len(MODELS)
