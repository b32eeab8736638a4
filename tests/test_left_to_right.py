"""What a language model's evaluation logs."""

import math
from functools import partial

import lightning as L
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from depgen.backbones.transformer import Transformer
from depgen.data.batch import ItemBatch, TokenItem, collate_tokens
from depgen.models.causal_lm import CausalLM

PIECES = [([2, 3, 4, 5], [False, True, True, True]), ([6, 7, 8], [False, False, True]), ([9], [True])]


@pytest.mark.parametrize("verb", ["test", "validate"])
def test_perplexity_of_words_is_that_of_tokens_where_each_token_is_a_word(verb):
    torch.manual_seed(0)
    backbone = partial(Transformer, layers=1, width=8, attention_heads=2, feedforward=8, dropout=0.0)
    model = CausalLM(backbone, 11)
    trainer = L.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    found = {}
    for kind in ("words", "pieces"):
        items = [
            TokenItem(n, np.array(ids, np.int32), None, np.array(ends) if kind == "pieces" else None)
            for n, (ids, ends) in enumerate(PIECES)
        ]
        batches = [ItemBatch(items[:2], 9), ItemBatch(items[2:], 2)]
        loader = DataLoader(batches, batch_size=None, collate_fn=collate_tokens)
        (found[kind],) = getattr(trainer, verb)(model, loader, verbose=False)
    stage = {"test": "test", "validate": "val"}[verb]
    words, pieces = found["words"], found["pieces"]
    assert words[f"{stage}/word_perplexity"] == words[f"{stage}/perplexity"] == pieces[f"{stage}/perplexity"]
    nll = 11 * math.log(words[f"{stage}/perplexity"])  # eight pieces and three ends
    assert pieces[f"{stage}/word_perplexity"] == pytest.approx(math.exp(nll / (5 + 3)), rel=1e-9)
