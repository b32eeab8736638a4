"""What every system has from its base: the scores of what was tested, or none."""

import types

import torch

from depgen.language_models.base import LanguageModel


def system(*, world_size=1):
    model = LanguageModel()
    model._trainer = types.SimpleNamespace(world_size=world_size)
    return model


def test_a_system_that_keeps_no_scores_has_none():
    model = system()
    assert model.test_scores() is None
    model.keep_scores(torch.tensor([2, 0]), torch.tensor([1.5, 0.5], dtype=torch.float64), torch.tensor([3, 1]))
    model.keep_scores(torch.tensor([1]), torch.tensor([4.0]), torch.tensor([6]), torch.tensor([2]))
    items, nll, tokens, words = model.test_scores()
    assert (items.tolist(), nll.tolist(), tokens.tolist()) == ([0, 1, 2], [0.5, 4.0, 1.5], [1, 6, 3])
    assert words.tolist() == [1, 2, 3], "a token is a word unless said"
    model.on_test_epoch_start()
    assert model.test_scores() is None


def test_a_device_that_has_tested_nothing_leaves_the_others_scores(monkeypatch):
    theirs = [torch.tensor([1]), torch.tensor([2.0], dtype=torch.float64), torch.tensor([4]), torch.tensor([3])]

    def gathered(shares, own):
        shares[:] = [own, theirs]

    monkeypatch.setattr(torch.distributed, "all_gather_object", gathered)
    items, nll, tokens, words = system(world_size=2).test_scores()
    assert (items.tolist(), nll.tolist(), tokens.tolist(), words.tolist()) == ([1], [2.0], [4], [3])
