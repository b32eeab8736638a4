"""Random numbers that depend only on their place: on no generator, batch, device or restart."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from depgen.nn.precise import precise

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

    Numbers, and integer tensors that broadcast against each other, identify a place.

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
