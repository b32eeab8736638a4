"""Charts of projective dependency trees, compiled. Slow to import: `depgen.decoding.projective_trees` does so late.

Eisner's (2000) items. `incomplete[h, d]`: an arc from h to d and all words between; `complete[h, e]`: h with its
dependents on the side of e, up to word e. Words are 0-based.
"""

import math

import numpy as np
from jaxtyping import Float64, Int64

from depgen.machine_code import compiled


@compiled
def _log_sum(values: Float64[np.ndarray, " values"]) -> float:
    highest = float(values.max())
    return highest if highest == -np.inf else highest + math.log(np.exp(values - highest).sum())


@compiled
def inside(
    arcs: Float64[np.ndarray, "words words"],
    roots: Float64[np.ndarray, " words"],
    begins: Int64[np.ndarray, " words"],
) -> tuple[Float64[np.ndarray, "words words"], Float64[np.ndarray, "words words"], Float64[np.ndarray, " words"]]:
    """Log-sums over incomplete items, complete items, and all trees with each root. O(n^3).

    Scores are of `arcs[dependent, head]`; the subtree of each word has to begin at `begins`, or anywhere (-1).
    """
    words = len(roots)
    incomplete, complete = np.full((words, words), -np.inf), np.full((words, words), -np.inf)
    attached = np.full((words, words), -np.inf)  # `complete[d, e]` at the left of d, where its subtree may begin at e
    for word in range(words):
        complete[word, word] = 0.0
        if begins[word] == -1 or begins[word] == word:
            attached[word, word] = 0.0
    for width in range(1, words):
        for first in range(words - width):
            last = first + width
            right = complete[first, first:last]
            incomplete[first, last] = _log_sum(right + attached[last, first + 1 : last + 1]) + arcs[last, first]
            incomplete[last, first] = _log_sum(right + complete[last, first + 1 : last + 1]) + arcs[first, last]
            complete[first, last] = _log_sum(
                incomplete[first, first + 1 : last + 1] + complete[first + 1 : last + 1, last]
            )
            complete[last, first] = _log_sum(incomplete[last, first:last] + attached[first:last, first])
            if begins[last] == -1 or begins[last] == first:
                attached[last, first] = complete[last, first]
    return incomplete, complete, roots + complete[:, 0] + complete[:, words - 1]


@compiled
def _drawn(values: Float64[np.ndarray, " values"], uniform: float) -> int:
    """A place with probability in proportion to the exponential of its value."""
    shares = np.cumsum(np.exp(values - values.max()))
    return min(int(np.searchsorted(shares, uniform * shares[-1], side="right")), len(values) - 1)


@compiled
def sampled_heads(
    incomplete: Float64[np.ndarray, "words words"],
    complete: Float64[np.ndarray, "words words"],
    rooted: Float64[np.ndarray, " words"],
    uniforms: Float64[np.ndarray, "samples variates"],
) -> Int64[np.ndarray, "samples words"]:
    """Trees (1-based heads, 0 = root) drawn top down from what `inside` returns; 2n - 1 variates a tree, O(n^2)."""
    words = len(rooted)
    heads = np.zeros((len(uniforms), words), np.int64)
    for sample in range(len(uniforms)):
        root, used = _drawn(rooted, uniforms[sample, 0]), 1
        pending = [(root, 0, True), (root, words - 1, True)]
        while pending:
            head, end, is_complete = pending.pop()
            if head == end:
                continue
            low, high = min(head, end), max(head, end)
            if is_complete:  # the last dependent on this side
                first = low + (head == low)
                last = high + (head == low)
                place = _drawn(incomplete[head, first:last] + complete[first:last, end], uniforms[sample, used])
                pending.append((head, first + place, False))
                pending.append((first + place, end, True))
            else:  # where the words between are divided
                between = complete[low, low:high] + complete[high, low + 1 : high + 1]
                cut = low + _drawn(between, uniforms[sample, used])
                pending.append((low, cut, True))
                pending.append((high, cut + 1, True))
                heads[sample, end] = head + 1
            used += 1
    return heads
