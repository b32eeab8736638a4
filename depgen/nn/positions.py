"""Absolute position embeddings."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from depgen.errors import UserError

LONG = 2048
"""Positions of which sinusoids are kept."""


def sinusoids(
    length: int, width: int, *, fairseq: bool = True, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "length width"]:
    """The table of sinusoidal positions 0 … length - 1: sines in the first half of the axis, cosines in the second.

    An odd width ends with a zero.

    Frequencies are 10000^(-k / (width/2 - 1)) as in fairseq, or the 10000^(-k / (width/2)) of Vaswani et al., computed
    in float64.

    >>> sinusoids(1, 4)
    tensor([[0., 0., 1., 1.]])
    """
    half = width // 2
    steps = max(half - fairseq, 1)
    frequencies = torch.exp(torch.arange(half, dtype=torch.float64) * -(math.log(10000) / steps))
    angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies
    table = torch.zeros(length, width, dtype=dtype)
    table[:, :half] = angles.sin()
    table[:, half : 2 * half] = angles.cos()
    return table


def counted_positions(
    length: int, padding: Bool[Tensor, "batch context"] | None, *, context: int
) -> slice | Int[Tensor, "batch length"]:
    """0-based positions of the last `length` of `context` columns, padding not counted; a slice where rows agree."""
    if padding is None:
        return slice(context - length, context)
    return ((~padding).cumsum(1)[:, -length:] - 1).clamp_min(0)


class SinusoidalPositions(nn.Module):
    """Fixed sinusoids for positions of any size; of those beyond `LONG` a table is made at each call.

    It is not kept: data-parallel training copies buffers between processes, which may need other lengths.
    """

    table: Tensor

    def __init__(self, width: int, *, fairseq: bool = True) -> None:
        super().__init__()
        self.fairseq = fairseq
        self.register_buffer("table", sinusoids(LONG, width, fairseq=fairseq), persistent=False)

    def forward(self, positions: Int[Tensor, "batch length"] | slice, *, stop: int) -> Tensor:
        """Embeddings of positions below `stop`: [batch length width], or [length width] for a slice that rows share.

        The bound is given, since reading the positions would wait for a GPU.
        """
        if stop <= LONG:
            return self.table[positions]
        return sinusoids(stop, self.table.size(1), fairseq=self.fairseq).to(self.table)[positions]


class LearnedPositions(nn.Module):
    """One trained vector per position, drawn from N(0, 1/width) as fairseq does; a longer text is an error."""

    def __init__(self, width: int, *, max_length: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_length, width).normal_(std=width**-0.5))

    def forward(self, positions: Int[Tensor, "batch length"] | slice, *, stop: int) -> Tensor:
        """Embeddings of positions, as `SinusoidalPositions.forward`."""
        if stop > self.weight.size(0):
            raise UserError(
                f"a text of {stop} tokens does not fit into {self.weight.size(0)} learned positions; "
                "shorten it, or train with a larger max_length or with positions: sinusoidal"
            )
        if isinstance(positions, slice):
            return self.weight[positions.start : positions.stop]
        return nn.functional.embedding(positions, self.weight)
