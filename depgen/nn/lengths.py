"""Lengths of padded rows as masks."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def mask_of(
    lengths: Int[Tensor, "*rows"], longest: int, *, device: torch.device | None = None
) -> Bool[Tensor, "*rows longest"]:
    """True at the first `lengths` of `longest` places of each row, False at padding.

    Args:
        lengths: of the rows.
        longest: number of places.
        device: where the mask is to lie; None: where the lengths do.

    >>> mask_of(torch.tensor([2, 0]), 3).tolist()
    [[True, True, False], [False, False, False]]
    """
    lengths = lengths.to(device or lengths.device, non_blocking=True)
    return torch.arange(longest, device=lengths.device) < lengths[..., None]
