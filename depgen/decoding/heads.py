"""Heads of words by their probabilities: trees, or each word's likeliest head."""

from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Int

from depgen.decoding.spanning_tree import argmax_heads, maximum_spanning_trees, trees_of_most_heads

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
    and of these so that the sum of log(p + 1e-9) is the largest.
    """
    probabilities = probabilities.astype(np.float64)
    roots = probabilities.diagonal(axis1=1, axis2=2)
    scores, root_scores = np.log(probabilities + SMALLEST), np.log1p(roots / SMALLEST)
    if decoding == "tree":
        return maximum_spanning_trees(scores, lengths, root_scores=root_scores)
    heads = argmax_heads(probabilities, lengths, root_probabilities=roots)
    return trees_of_most_heads(heads, scores, lengths, root_scores=root_scores) if as_trees else heads
