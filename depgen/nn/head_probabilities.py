"""Probabilities of syntactic heads, as systems that parse share them."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def without_own_place(
    probabilities: Float[Tensor, "batch dependents heads"], is_word: Bool[Tensor, "batch length"]
) -> Float[Tensor, "batch dependents heads"]:
    """The probabilities with zeros on the diagonal and at padding, not normalised again.

    A word that is its own head has no head, so each row keeps the missing mass as "no head".

    >>> without_own_place(torch.full((1, 2, 2), 0.5), torch.tensor([[True, True]])).tolist()
    [[[0.0, 0.5], [0.5, 0.0]]]
    """
    others = ~torch.eye(is_word.shape[1], dtype=torch.bool, device=is_word.device)
    return probabilities.masked_fill(~(others & is_word[:, :, None] & is_word[:, None, :]), 0)
