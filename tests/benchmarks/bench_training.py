"""A training step of DM-Transformer against the Transformer's, at the shape of ROCStories: time, memory, tokens/s.

And attention in bf16, forward and backward, against torch's fused kernel in bf16.
"""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from depgen.backbones.transformer import Transformer
from depgen.data.batch import ItemBatch, TokenItem
from depgen.models.causal_lm import CausalLM
from depgen.models.dmlm import DMLM
from depgen.nn.attention import KeyValues, Visibility, attend
from tests.benchmarks.figures import figure, paired_ratio, seconds, step_memory, write_figures
from tests.vocabularies import NO_WORDS

VOCABULARY, LENGTH, STORIES, GOAL = 31_000, 55, 16, 1.10
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def stories() -> ItemBatch:
    """Random stories with random projective-looking heads: the shape counts, not the words."""
    generator = np.random.default_rng(0)
    items = []
    for index in range(STORIES):
        heads = np.arange(LENGTH) - generator.integers(0, 3, LENGTH)
        heads[heads < 0] = 0
        items.append(TokenItem(index, generator.integers(2, VOCABULARY, LENGTH, np.int32), heads.astype(np.int32)))
    return ItemBatch(items, STORIES * (LENGTH + 1), NO_WORDS)


class Step:
    """One training step of a system: collate, loss, gradients, update."""

    def __init__(self, model, phase):
        self.model = model.to(DEVICE).train()
        self.model.enter_phase(phase)
        self.optimizer = self.model.configure_optimizers()
        self.items = stories()

    def __call__(self):
        batch = self.model.collate(self.items).to(DEVICE)
        if isinstance(self.model, DMLM) and self.model.models_dependencies:
            loss = self.model._dependency_nll(self.model.encode(batch), batch)
        else:
            loss = -self.model.log_probs(batch).masked_fill(~batch.is_word, 0).sum()
        self.optimizer.zero_grad()
        (loss / batch.global_tokens).backward()
        self.optimizer.step()


def test_training_step():
    torch.manual_seed(0)
    base = Step(CausalLM(Transformer, VOCABULARY), 0)
    figures = {}
    tokens = STORIES * (LENGTH + 1)
    figures["Transformer, training"] = figure(tokens / min(seconds(base) for _ in range(3)), "tokens/s")
    memory = step_memory(base)
    for name, phase in (("dependency modelling", 0), ("mixture", 1)):
        twin = Step(DMLM(Transformer, VOCABULARY), phase)
        figures[f"step time, {name} / base"] = figure(paired_ratio(base, twin, pairs=6), "x", at_most=GOAL)
        figures[f"peak memory, {name} / base"] = figure(step_memory(twin) / memory, "x", at_most=GOAL)
    write_figures("training", figures)
    assert memory > 0


@pytest.mark.parametrize(("length", "goal"), [(25, 0.7), (51, 0.7), (128, 0.9)])
def test_attention_in_bf16(length, goal):
    """2,048 tokens in 4 heads of 64."""
    projected = torch.randn(2048 // length, length, 3, 4, 64, dtype=torch.bfloat16, device=DEVICE, requires_grad=True)
    visibility = Visibility(None, True)

    def by_torch():
        queries, keys, values = projected.permute(2, 0, 3, 1, 4)
        F.scaled_dot_product_attention(queries, keys, values, is_causal=True).sum().backward()

    def by_attend():
        queries, keys, values = projected.permute(2, 0, 3, 1, 4)
        attend(queries, KeyValues.of(keys, values), visibility)[0].sum().backward()

    ratio = figure(paired_ratio(by_torch, by_attend, pairs=30), "x", at_most=goal)
    write_figures(f"attention_{length}", {"forward and backward / torch's kernel in bf16": ratio})
    assert DEVICE == "cuda" or ratio["met"]
