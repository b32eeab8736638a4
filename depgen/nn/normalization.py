"""Normalisations that torch has not: by the unbiased deviation, and of tokens without padding."""

import math
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

EPSILON, TINY = 1e-6, 1e-30


class DeviationNorm(nn.Module):
    """gain (x - mean) / (deviation + 1e-6) + bias, with the unbiased deviation: not torch's layer normalisation."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gain, self.bias = nn.Parameter(torch.ones(size)), nn.Parameter(torch.zeros(size))

    def forward(self, values: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        """Normalised over the last axis."""
        return torch.addcmul(self.bias, self.gain, _Standardized.apply(values))  # type: ignore[no-untyped-call]


class _Standardized(torch.autograd.Function):
    """n = (x - mean) / (s + 1e-6), s the unbiased deviation, in fewer kernels than autograd's own.

    With torch's r = 1 / biased deviation and c = sqrt(size / (size - 1)): s = c / r, n = (x - mean) r / (c + 1e-6 r).
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:  # noqa: ANN401
        size = values.size(-1)
        by_biased, _, inverse = torch.native_layer_norm(values, [size], None, None, TINY)
        unbiased = math.sqrt(size / (size - 1))
        denominator = unbiased + EPSILON * inverse
        normalized = by_biased / denominator
        ctx.save_for_backward(normalized, inverse / denominator, inverse / (unbiased * (size - 1)))
        return normalized

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ANN401
        """(g - mean(g)) / (s + 1e-6) - n sum(g n) / ((size - 1) s)."""
        normalized, by_shift, by_scale = ctx.saved_tensors
        along = (gradient * normalized).sum(-1, keepdim=True) * by_scale
        return torch.addcmul((gradient - gradient.mean(-1, keepdim=True)) * by_shift, normalized, along, value=-1)


def batch_norm_of_tokens(
    normalize: nn.BatchNorm1d, values: Float[Tensor, "batch length width"], kept: Bool[Tensor, "batch length"] | None
) -> Float[Tensor, "batch length width"]:
    """Batch normalisation whose statistics are those of tokens; zero at padding.

    Args:
        normalize: over the last axis.
        values: one vector a position.
        kept: True at tokens; None: everywhere.
    """
    if kept is None:
        return normalize(values.flatten(0, 1)).view_as(values)  # type: ignore[no-any-return]
    normalized = torch.zeros_like(values)
    normalized[kept] = normalize(values[kept])
    return normalized
