"""Normalisations: of each vector by its unbiased deviation, and of a batch by its tokens alone."""

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

EPSILON, TINY = 1e-6, 1e-30


def batch_norm_of_tokens(
    normalize: nn.BatchNorm1d, values: Float[Tensor, "batch length width"], places: Int[Tensor, " tokens"] | None
) -> Float[Tensor, "batch length width"]:
    """Batch normalisation with the statistics of tokens, not of padding; zero at padding.

    Args:
        normalize: the normalisation, over the last axis.
        values: one vector per position.
        places: of the tokens among all positions, row by row; None: all positions are tokens.
    """
    flat = values.flatten(0, 1)
    if places is None:
        return normalize(flat).view_as(values)  # type: ignore[no-any-return]
    normalized = torch.zeros_like(flat)
    normalized[places] = normalize(flat[places])
    return normalized.view_as(values)


class DeviationNorm(nn.Module):
    """LN(x) = gain (x - mean) / (s + 1e-6) + bias, s the unbiased deviation (torch's layer norm: the biased one)."""

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
