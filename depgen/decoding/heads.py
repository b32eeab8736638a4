"""Heads of words by their probabilities: trees, or each word's likeliest head."""

from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Int

Decoding = Literal["argmax", "tree"]
DECODINGS: tuple[Decoding, ...] = get_args(Decoding)
SMALLEST = 1e-9
"""Added to probabilities before their logarithm is taken, as in the code of Shen et al. (2022): all below tie."""


def decoded_heads(
    probabilities: Float[np.ndarray, "batch dependents heads"],
    lengths: Int[np.ndarray, " batch"],
    decoding: Decoding,
) -> Int[np.ndarray, "batch length"]:
    """Heads by a `HeadNetwork`'s probabilities; in one that knows no roots, every word is as good a root.

    >>> cycle = np.array([[[0.0, 0.9, 0.1], [0.6, 0.0, 0.4], [0.2, 0.8, 0.0]]])
    >>> [decoded_heads(cycle, np.array([3]), decoding).tolist() for decoding in ("argmax", "tree")]
    [[[2, 1, 2]], [[2, 0, 2]]]
    """
    from depgen.decoding.spanning_tree import maximum_spanning_trees  # late: it imports a compiler

    probabilities = probabilities.astype(np.float64)
    if decoding == "argmax":
        return _argmax_heads(probabilities, lengths)
    roots = probabilities.diagonal(axis1=1, axis2=2)
    return maximum_spanning_trees(np.log(probabilities + SMALLEST), lengths, root_scores=np.log1p(roots / SMALLEST))


def _argmax_heads(
    probabilities: Float[np.ndarray, "batch dependents heads"], lengths: Int[np.ndarray, " batch"]
) -> Int[np.ndarray, "batch length"]:
    """Each word's most probable head among the other words, tree or not: 1-based heads, 0 = root, -1 at padding.

    As Shen et al. (2022) evaluate: a sentence of one word is its own root, and no other word ever is one; but words
    that are likelier to be a root, on the diagonal, than to have any of these heads are.
    """
    places = np.arange(probabilities.shape[1])
    is_word = places < lengths[:, None]
    others = is_word[:, None, :] & (places[:, None] != places)
    candidates = np.where(others & is_word[:, :, None], probabilities, -np.inf)
    for item in np.flatnonzero(np.isnan(candidates).any((1, 2))):
        raise ValueError(f"Sentence {item + 1} of the batch has a probability that is NaN.")
    heads = np.where(probabilities.diagonal(axis1=1, axis2=2) > candidates.max(2), 0, 1 + candidates.argmax(2))
    heads[lengths == 1] = 0
    return np.where(is_word, heads, -1)
