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
    text = "/".join(str(number) for number in (seed, *place))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


class StepSeed(L.Callback):
    """Seeds torch before each training batch from (seed, step, batch, rank).

    No generator state needs to stand in a checkpoint, and validation, workers and restarts change nothing.
    """

    def __init__(self, seed: int | None = None) -> None:
        """Start from `seed`; None = the one that `seed_everything` has set."""
        self.seed = seed

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """Seed."""
        seed = self.seed if self.seed is not None else int(os.environ.get("PL_GLOBAL_SEED", "0"))
        torch.manual_seed(step_seed(seed, trainer.global_step, batch_idx, trainer.global_rank))
