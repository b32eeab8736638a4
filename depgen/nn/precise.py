"""Float64 computed on the device itself, or on the CPU for devices without float64, such as those of Macs."""

import torch
from jaxtyping import Float, Float64, Shaped
from torch import Tensor

WITHOUT_FLOAT64 = {"mps"}
"""Types of devices that refuse float64."""


def precise_device(device: torch.device) -> torch.device:
    """The device itself where it has float64, else the CPU.

    >>> precise_device(torch.device("cuda", 1)), precise_device(torch.device("mps"))
    (device(type='cuda', index=1), device(type='cpu'))
    """
    return torch.device("cpu") if device.type in WITHOUT_FLOAT64 else device


def sum_type(device: torch.device | str) -> torch.dtype:
    """The type in which sums of log-probabilities are kept on a device: float64, or float32 where there is no float64.

    >>> sum_type("cpu"), sum_type("mps")
    (torch.float64, torch.float32)
    """
    return torch.float32 if torch.device(device).type in WITHOUT_FLOAT64 else torch.float64


def precise(values: Shaped[Tensor, "*axes"]) -> Float64[Tensor, "*axes"]:
    """The values in float64, on `precise_device` of theirs."""
    return values.to(precise_device(values.device)).double()  # moved first: mps can't convert


def restored(values: Float[Tensor, "*axes"], like: Tensor) -> Float[Tensor, "*axes"]:
    """Precise values in the type and on the device of another tensor."""
    return values.to(like.dtype).to(like.device)
