from unittest.mock import create_autospec

import lightning as L
import numpy as np
import pytest
import torch
from scipy import stats

from depgen.errors import LARGEST_SEED, UserError, checked_seed
from depgen.training.randomness import StepSeed, hashed_uniform, shared_seed, step_seed


def test_what_every_generator_takes_is_a_seed():
    assert [checked_seed(seed) for seed in (0, 1, LARGEST_SEED)] == [0, 1, LARGEST_SEED]
    for seed in (-1, LARGEST_SEED + 1):
        with pytest.raises(UserError, match=f"training.seed: expected a seed from 0 to 4294967295, found {seed}"):
            checked_seed(seed, "training.seed")


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


PASSES, ITEMS, PLACES = 5, 400, 50


@pytest.fixture(scope="module")
def drawn():
    """[pass, item, place], as evaluation asks for them."""
    items, places = torch.arange(ITEMS)[:, None], torch.arange(PLACES)[None, :]
    return torch.stack([hashed_uniform(0, number, items, places) for number in range(PASSES)]).numpy()


def chained(*keys):
    """The same with Python's own whole numbers."""
    state = 0
    for key in keys:
        state = (state * 3 + key + 0x9E3779B97F4A7C15) % 2**64
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) % 2**64
        state ^= state >> 31
    return (state >> 11) / 2**53


def test_it_is_splitmix64_of_whole_numbers(drawn):
    """Its first output from state 0 as Vigna's reference prints it, and chains of several keys."""
    assert float(hashed_uniform(0)) == (0xE220A8397B1DCDAF >> 11) / 2**53
    for number, item, place in [(0, 0, 0), (4, 399, 49), (2, 17, 3), (1, 256, 31)]:
        assert drawn[number, item, place] == chained(0, number, item, place)


def test_uniform(drawn):
    assert 0 <= drawn.min() <= drawn.max() < 1
    for axes in [(), (0,), (1,), (2,)]:  # all together, each pass, each item, each place by itself
        parts = [drawn] if not axes else np.moveaxis(drawn, axes[0], 0)
        values = [stats.chisquare(np.histogram(part, bins=16, range=(0, 1))[0]).pvalue for part in parts]
        assert min(values) > 1e-3 / len(values)
        assert len(values) < 40 or stats.kstest(values, "uniform").pvalue > 1e-4
    assert stats.kstest(drawn.ravel(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["pass", "item", "place"])
@pytest.mark.parametrize("apart", [1, 2, 3])
def test_neighbours_are_not_correlated(drawn, axis, apart):
    rows = np.moveaxis(drawn, axis, 0)
    one, other = rows[:-apart].ravel(), rows[apart:].ravel()
    assert abs(np.corrcoef(one, other)[0, 1]) < 4 / one.size**0.5
    joint = np.histogram2d(one, other, bins=8, range=[(0, 1), (0, 1)])[0]
    assert stats.chisquare(joint.ravel()).pvalue > 1e-4
