"""What every system has from its base: the scores of what was tested, or none."""

import types

import torch

from depgen.language_model import LanguageModel


def system(*, world_size=1):
    model = LanguageModel()
    model._trainer = types.SimpleNamespace(world_size=world_size)
    return model


def test_a_system_that_keeps_no_scores_has_none():
    model = system()
    assert model.test_scores() is None
    model.keep_scores(torch.tensor([2, 0]), torch.tensor([1.5, 0.5], dtype=torch.float64), torch.tensor([3, 1]))
    items, nll, tokens = model.test_scores()
    assert (items.tolist(), nll.tolist(), tokens.tolist()) == ([0, 2], [0.5, 1.5], [1, 3])
    model.on_test_epoch_start()
    assert model.test_scores() is None


def test_a_device_that_has_tested_nothing_leaves_the_others_scores(monkeypatch):
    theirs = [torch.tensor([1]), torch.tensor([2.0], dtype=torch.float64), torch.tensor([4])]

    def gathered(shares, own):
        shares[:] = [own, theirs]

    monkeypatch.setattr(torch.distributed, "all_gather_object", gathered)
    items, nll, tokens = system(world_size=2).test_scores()
    assert (items.tolist(), nll.tolist(), tokens.tolist()) == ([1], [2.0], [4])
