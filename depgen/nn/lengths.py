"""Lengths of padded rows as masks."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def mask_of(lengths: Int[Tensor, "*rows"], longest: int) -> Bool[Tensor, "*rows longest"]:
    """True at the first `lengths` of `longest` places of each row, False at padding.

    >>> mask_of(torch.tensor([2, 0]), 3).tolist()
    [[True, True, False], [False, False, False]]
    """
    return torch.arange(longest, device=lengths.device) < lengths[..., None]
