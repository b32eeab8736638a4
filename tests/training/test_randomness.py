from unittest.mock import create_autospec

import lightning as L
import torch

from depgen.training.randomness import StepSeed, shared_seed, step_seed


def test_seeds_differ_by_every_part_of_the_place():
    seeds = {
        step_seed(s, step, batch, rank)
        for s in range(3)
        for step in range(5)
        for batch in range(5)
        for rank in range(2)
    }
    assert len(seeds) == 3 * 5 * 5 * 2
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_what_was_drawn_before_does_not_matter():
    trainer = create_autospec(L.Trainer, instance=True, global_step=4, global_rank=0)
    draws = []
    for _ in range(2):
        torch.rand(len(draws) + 1)
        StepSeed().on_train_batch_start(trainer, L.LightningModule(), None, 9)
        draws.append(torch.rand(3))
    assert torch.equal(*draws)


def test_a_shared_seed_changes_with_run_step_and_batch(monkeypatch):
    seeds = set()
    for seed in ("3", "4"):
        monkeypatch.setenv("PL_GLOBAL_SEED", seed)
        assert shared_seed(1, 0) == shared_seed(1, 0)
        seeds |= {shared_seed(step, batch) for step in range(2) for batch in range(2)}
    assert len(seeds) == 8
