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
    *,
    as_trees: bool = False,
) -> Int[np.ndarray, "batch length"]:
    """Heads by a `HeadNetwork`'s probabilities; in one that knows no roots, every word is as good a root.

    With `as_trees`, argmax heads are changed where they form no tree with a single root: as few of them as possible,
    and of these so that the sum of log(p + 1e-9) is the largest. So each cycle loses one arc.

    >>> cycle = np.array([[[0.0, 0.9, 0.1], [0.6, 0.0, 0.4], [0.2, 0.8, 0.0]]])
    >>> [decoded_heads(cycle, np.array([3]), "argmax", as_trees=as_trees).tolist() for as_trees in (False, True)]
    [[[2, 1, 2]], [[2, 0, 2]]]
    """
    from depgen.decoding.spanning_tree import maximum_spanning_trees  # late: it imports a compiler

    probabilities = probabilities.astype(np.float64)
    roots = probabilities.diagonal(axis1=1, axis2=2)
    scores, root_scores = np.log(probabilities + SMALLEST), np.log1p(roots / SMALLEST)
    if decoding == "tree":
        return maximum_spanning_trees(scores, lengths, root_scores=root_scores)
    heads = _argmax_heads(probabilities, lengths)
    if not as_trees or not heads.size:
        return heads
    both = np.concatenate([root_scores[:, :, None], scores], axis=2)
    bonus = 1 + (1 + heads.shape[1]) * (np.nanmax(both) - np.nanmin(both))  # one head more outweighs all others' scores
    rows, words = np.nonzero(heads >= 0)
    both[rows, words, heads[rows, words]] += bonus
    return maximum_spanning_trees(both[:, :, 1:], lengths, root_scores=both[:, :, 0])


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
