"""Seeds, and randomness that depends on its place alone: on no earlier draw, batch, device or restart.

So a resumed run draws what the unbroken one would have drawn.
"""

import hashlib
import os

import lightning as L
import torch
from jaxtyping import Float, Int
from torch import Tensor

from depgen.nn.precise import precise


def seed_of(text: str) -> int:
    """A seed of 63 bits that depends on every character of a text.

    >>> seed_of("1 2 3") == seed_of("1 2 3"), seed_of("1 2 3") == seed_of("1 23")
    (True, False)
    """
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1


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


_MULTIPLIERS = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)
"""Of splitmix64's finalizer, as signed 64-bit numbers."""
_INCREMENT = -0x61C8864680B583EB


def _mixed(state: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """Splitmix64's finalizer; products wrap around."""
    for shift, multiplier in zip((30, 27), _MULTIPLIERS, strict=True):
        state = (state ^ _shifted(state, shift)) * multiplier
    return state ^ _shifted(state, 31)


def _shifted(state: Int[Tensor, "*shape"], bits: int) -> Int[Tensor, "*shape"]:
    """A logical shift to the right, where torch's keeps the sign."""
    return (state >> bits) & ((1 << (64 - bits)) - 1)


def hashed_uniform(*keys: int | Int[Tensor, "*#shape"]) -> Float[Tensor, "*shape"]:
    """A number in [0, 1) for each place, uniform over places; float64, on `depgen.nn.precise.precise_device`.

    Numbers, and integer tensors that broadcast against each other, identify a place. No generator is used.

    >>> drawn = hashed_uniform(1, torch.arange(3))
    >>> bool((drawn[1:] == hashed_uniform(1, torch.arange(1, 3))).all())
    True
    >>> bool((drawn == hashed_uniform(2, torch.arange(3))).any())
    False
    """
    state = torch.zeros((), dtype=torch.int64)
    for key in keys:
        state = state.to(key.device, non_blocking=True) if isinstance(key, Tensor) else state
        state = _mixed(state * 3 + key + _INCREMENT)
    return precise(_shifted(state, 11)) / (1 << 53)
