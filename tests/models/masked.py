"""Batches of sentences and training steps without a trainer, shared by the tests of masked language models."""

import os
from types import SimpleNamespace
from unittest.mock import patch

import torch

from depgen.data.batch import WordBatch

EOS, UNK, MASK = 0, 1, 2


def batch_of(*sentences, heads=None, items=None, length=None):
    """Sentences as a batch, padded to `length` words; `heads` are trees, one a sentence."""
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    tokens = torch.full((len(sentences), length or int(lengths.max())), UNK)
    given = torch.full_like(tokens, -1)
    for row, sentence in enumerate(sentences):
        tokens[row, : len(sentence)] = torch.tensor(sentence)
        if heads is not None:
            given[row, : len(sentence)] = torch.tensor(heads[row])
    return WordBatch(
        tokens=tokens,
        lengths=lengths,
        items=torch.arange(len(sentences)) if items is None else torch.tensor(items),
        unk=UNK,
        mask_id=MASK,
        heads=None if heads is None else given,
    )


def alone(model):
    """The model as one process trains it, its log a dictionary: `model.logged`."""
    model._trainer = SimpleNamespace(world_size=1, global_step=0)
    model.logged = {}
    model.log = lambda name, value, **_: model.logged.__setitem__(name, value)
    return model


def trained(model, batches, *, steps, rate=3e-3, seed=0):
    """Losses of so many steps of Adam over the batches in turn."""
    alone(model).train()
    torch.manual_seed(seed)
    optimizer = torch.optim.Adam(model.trained_parameters(), lr=rate)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        with patch.dict(os.environ, {"PL_GLOBAL_SEED": str(seed)}):  # which the masked words are drawn from
            loss = model.training_step(batches[step % len(batches)], step)
        loss.backward()
        assert all(torch.isfinite(each.grad).all() for each in model.parameters() if each.grad is not None)
        optimizer.step()
        losses.append(loss.item())
    return losses
