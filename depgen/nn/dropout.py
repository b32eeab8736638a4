"""Dropout, and that of recurrent language models: one mask for a whole text, or for a word type.

Srivastava et al. (2014); Merity, Keskar & Socher (2018), "Regularizing and Optimizing LSTM Language Models". Every mask
is scaled by 1 / (1 - p), and a new one is drawn in each forward pass.
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from depgen.errors import UserError


def check_probability(p: float) -> float:
    """The probability of dropout itself.

    Raises:
        UserError: it is below 0 or above 1.
    """
    if not 0 <= p <= 1:
        raise UserError(f"dropout: expected a probability between 0 and 1, found {p}.")
    return p


class Dropout(nn.Dropout):
    """Torch's, which refuses what is no probability in the user's terms.

    Args:
        p: the probability of each value to become 0.
    """

    def __init__(self, p: float) -> None:
        super().__init__(check_probability(p))


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
    mask = F.dropout(values.new_ones(values.size(0), 1, values.size(2)), p)
    return values * mask


def word_type_dropout(
    embedding: Float[Tensor, "vocab width"], p: float, *, training: bool
) -> Float[Tensor, "vocab width"]:
    """An embedding matrix in which whole word types are dropped: a dropped type is missing at all of its places."""
    if not training or p == 0:
        return embedding
    return embedding * F.dropout(embedding.new_ones(embedding.size(0), 1), p)
