"""Training steps of six document-context language models: 32 segments of Brown's lengths, on two threads."""

from functools import partial

import numpy as np
import pytest
import torch

from depgen.data.batch import ItemBatch, SegmentItem, collate_documents
from depgen.models.dclm import (
    DCLM,
    AttentionContext,
    CarriedState,
    ContextToContext,
    ContextToOutput,
    HierarchicalContext,
    NoContext,
)
from tests.benchmarks.figures import figure, paired_ratio, seconds, write_figures
from tests.vocabularies import NO_WORDS_BUT_START

VOCABULARY, SIZE, SEGMENTS, SENTENCES, START, GOAL = 10_003, 128, 32, 5, 2, 1.5
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MODELS = {
    "RNNLM": NoContext,
    "DRNNLM": CarriedState,
    "HRNNLM": HierarchicalContext,
    "CODCLM": ContextToOutput,
    "CCDCLM": ContextToContext,
    "ADCLM": AttentionContext,
}


class Step:
    """Loss and gradients of one batch; all models read the same words."""

    def __init__(self, name, cell):
        torch.manual_seed(0)
        generator = np.random.default_rng(0)
        lengths = np.maximum(1, generator.gamma(2.5, 9, (SEGMENTS, SENTENCES)).astype(int))  # 22 words on average
        items = [
            SegmentItem(k, [generator.integers(3, VOCABULARY, length) for length in row])
            for k, row in enumerate(lengths)
        ]
        self.tokens = int(lengths.sum() + lengths.size)
        self.batch = collate_documents(ItemBatch(items, self.tokens, NO_WORDS_BUT_START, global_items=SEGMENTS)).to(
            DEVICE
        )
        context = partial(MODELS[name], size=SIZE, cell=cell)
        self.model = DCLM(VOCABULARY, context=context, embedding_size=SIZE).to(DEVICE).train()

    def __call__(self):
        self.model.zero_grad()
        output = self.model.encode(self.batch)
        loss = -self.model._log_probs(output, self.batch).sum()
        extra = self.model.extra_nll(output, self.batch)
        (loss if extra is None else loss + extra).backward()


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("cell", ["standard", "cnn2015"])
def test_training_steps(cell):
    base, figures = Step("RNNLM", cell), {}
    for name in MODELS:
        step = Step(name, cell)
        step()
        figures[f"{name}, words"] = figure(step.tokens / min(seconds(step) for _ in range(3)), "words/s")
        if name != "RNNLM":
            goal = {"at_most": GOAL} if (name, cell) == ("CCDCLM", "standard") else {}
            figures[f"step of {name} / step of RNNLM"] = figure(paired_ratio(base, step, pairs=5), "x", **goal)
    write_figures(f"dclm_{cell}", figures)
    assert all(each.get("met", True) for each in figures.values())
