"""Dropout, and that of recurrent language models: one mask for a whole text, for a word type, for a recurrent matrix.

Srivastava et al. (2014); Merity, Keskar & Socher (2018), "Regularizing and Optimizing LSTM Language Models". Every mask
is scaled by 1 / (1 - p), and a new one is drawn in each forward pass.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from depgen.errors import UserError

_STEPS = 2**16


def check_probability(p: float) -> float:
    """The probability of dropout itself.

    Raises:
        UserError: it is below 0 or above 1.
    """
    if not 0 <= p <= 1:
        raise UserError(f"dropout: expected a probability between 0 and 1, found {p}.")
    return p


def dropped(values: Float[Tensor, "*axes"], p: float, *, training: bool = True) -> Float[Tensor, "*axes"]:
    """Values of which each is 0 with probability p.

    On a GPU torch's own. On a CPU 16 random bits decide for each value, where torch's own draws a Bernoulli number for
    it and takes 2.5 times as long; p is then rounded to a multiple of 2^-16, and the scale is that of the rounded one.

    Raises:
        UserError: p is no probability.
    """
    check_probability(p)
    if not training or p == 0:
        return values
    below = round(p * _STEPS)
    if values.device.type != "cpu" or below == _STEPS:
        return F.dropout(values, p)
    bits = torch.randint(-(2**63), 2**63 - 1, (-(-values.numel() // 4),)).view(torch.int16)
    kept = bits[: values.numel()].view(values.shape) >= below - _STEPS // 2
    return values * kept.to(values.dtype).mul_(_STEPS / (_STEPS - below))


class Dropout(nn.Module):
    """`dropped` in training mode; in evaluation mode the values themselves.

    Args:
        p: the probability of each value to become 0.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = check_probability(p)

    def forward(self, values: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
        """The values, of which each is 0 with probability `p` in training mode."""
        return dropped(values, self.p, training=self.training)


def locked_dropout(
    values: Float[Tensor, "batch length width"], p: float, *, training: bool
) -> Float[Tensor, "batch length width"]:
    """Dropout whose mask is the same at all positions of a text (variational dropout).

    >>> import torch
    >>> dropped = locked_dropout(torch.ones(1, 3, 8), 0.5, training=True)
    >>> bool((dropped == dropped[:, :1]).all())
    True
    """
    if not training or p == 0:
        return values
    mask = dropped(values.new_ones(values.size(0), 1, values.size(2)), p)
    return values * mask


def word_type_dropout(
    embedding: Float[Tensor, "vocab width"], p: float, *, training: bool
) -> Float[Tensor, "vocab width"]:
    """An embedding matrix in which whole word types are dropped: a dropped type is missing at all of its places."""
    if not training or p == 0:
        return embedding
    return embedding * dropped(embedding.new_ones(embedding.size(0), 1), p)


def weight_dropout(weight: Float[Tensor, "*axes"], p: float, *, training: bool) -> Float[Tensor, "*axes"]:
    """A weight matrix with single connections dropped (DropConnect); the gradient reaches the raw matrix."""
    return dropped(weight, p, training=training)
