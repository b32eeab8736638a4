"""Randomness that depends on the step alone, so that a resumed run draws what the unbroken one would have drawn."""

import hashlib
import os

import lightning as L
import torch


def step_seed(seed: int, *place: int) -> int:
    """A seed for one place in a run: the same at each visit, unrelated to that of its neighbours.

    >>> step_seed(1, 5, 0) == step_seed(1, 5, 0), step_seed(1, 5, 0) == step_seed(1, 6, 0)
    (True, False)
    """
    text = "/".join(map(str, (seed, *place)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def run_seed() -> int:
    """The seed that `seed_everything` has set; 0 without one."""
    return int(os.environ.get("PL_GLOBAL_SEED", "0"))


def shared_seed(step: int | None, batch_idx: int) -> int:
    """A seed of a training batch that all devices share; where no step is known, drawn from torch's generator."""
    return int(torch.randint(1 << 62, ())) if step is None else step_seed(run_seed(), step, batch_idx)


class StepSeed(L.Callback):
    """Seeds torch before each training batch from (seed, step, batch, rank).

    A checkpoint needs no generator state, and validation, workers and restarts change nothing.
    """

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """Seed."""
        torch.manual_seed(step_seed(run_seed(), trainer.global_step, batch_idx, trainer.global_rank))
