"""Dropouts of recurrent language models: one mask for a whole text, for a word type, for a recurrent matrix.

Merity, Keskar & Socher (2018), "Regularizing and Optimizing LSTM Language Models". Every mask is scaled by 1 / (1 - p)
and drawn anew in each forward pass.
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


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
    """An embedding matrix in which whole word types are dropped: a word is missing wherever it stands."""
    if not training or p == 0:
        return embedding
    return embedding * F.dropout(embedding.new_ones(embedding.size(0), 1), p)


def weight_dropout(weight: Float[Tensor, "*axes"], p: float, *, training: bool) -> Float[Tensor, "*axes"]:
    """A weight matrix with single connections dropped (DropConnect); the gradient reaches the raw matrix."""
    return F.dropout(weight, p, training)
