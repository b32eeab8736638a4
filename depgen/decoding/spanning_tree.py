"""The best dependency tree, or each word's best head, given how good every word is as every other's head."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float, Int

_WORK_OF_A_THREAD = 200_000
"""The number of arcs from which a separate thread saves time."""


def maximum_spanning_trees(
    scores: Float[np.ndarray, "batch dependents heads"],
    lengths: Int[np.ndarray, " batch"],
    *,
    root_scores: Float[np.ndarray, "batch dependents"] | None = None,
    single_root: bool = True,
) -> Int[np.ndarray, "batch length"]:
    """The tree of the largest sum of scores over each sentence: 1-based heads, 0 = root, -1 at padding.

    Trees may be non-projective. Exact in float64 up to rounding, whatever the range of the scores; at ties, any of the
    best. O(n^2) a sentence with a single root too, for which other implementations search once a word; sentences are
    shared out between as many threads as torch uses.

    Args:
        scores: `scores[b, i, j]` of word i depending on word j; -inf forbids it. The diagonal is ignored.
        lengths: words of each sentence.
        root_scores: of each word being a root, -inf where it can't be; all 0 by default.
        single_root: one word is the root; false: one or more are, which only the scores decide.

    Raises:
        ValueError: a sentence has NaN, inf or numbers beyond 1e300 among its scores, or no tree without forbidden arcs.

    >>> maximum_spanning_trees(np.array([[[0.0, 3.0], [2.0, 0.0]]]), np.array([2])).tolist()
    [[2, 0]]
    """
    from depgen.decoding.chu_liu_edmonds import FOUND, LARGEST, NO_TREE, spanning_trees

    batch, longest, columns = scores.shape
    if columns != longest or lengths.min(initial=0) < 0 or lengths.max(initial=0) > longest:
        raise ValueError(f"Expected square scores and lengths up to their size, found {scores.shape}, {lengths}.")
    arcs = np.ascontiguousarray(scores, dtype=np.float64)
    roots = np.zeros((batch, longest)) if root_scores is None else np.ascontiguousarray(root_scores, dtype=np.float64)
    words, heads = lengths.astype(np.int64), np.full((batch, longest), -1)
    outcomes = np.full(batch, FOUND, dtype=np.uint8)

    def search(part: slice) -> None:
        spanning_trees(arcs[part], roots[part], words[part], single_root, heads[part], outcomes[part])

    parts = _parts(words, torch.get_num_threads())
    if len(parts) == 1:
        search(parts[0])
    else:
        with ThreadPoolExecutor(len(parts)) as pool:
            list(pool.map(search, parts))
    for item in np.flatnonzero(outcomes != FOUND):
        kind = "with a single root " if single_root else ""
        raise ValueError(
            f"Sentence {item + 1} of the batch has no tree {kind}whose arcs all score above -inf."
            if outcomes[item] == NO_TREE
            else f"Sentence {item + 1} of the batch has a score that is NaN, inf or beyond {LARGEST:g}."
        )
    return heads


def argmax_heads(
    probabilities: Float[np.ndarray, "batch dependents heads"],
    lengths: Int[np.ndarray, " batch"],
    *,
    root_probabilities: Float[np.ndarray, "batch dependents"] | None = None,
) -> Int[np.ndarray, "batch length"]:
    """Each word's most probable head among the other words, tree or not: 1-based heads, 0 = root, -1 at padding.

    As Shen et al. (2022) evaluate: a sentence of one word is its own root, and no other word ever is one; but words
    that are likelier to be a root than to have any of these heads are.

    Raises:
        ValueError: NaN among a sentence's probabilities.

    >>> argmax_heads(np.array([[[0.9, 0.1], [0.2, 0.8]]]), np.array([2])).tolist()
    [[2, 1]]
    """
    places = np.arange(probabilities.shape[1])
    is_word = places < lengths[:, None]
    others = is_word[:, None, :] & (places[:, None] != places)
    candidates = np.where(others & is_word[:, :, None], probabilities, -np.inf)
    for item in np.flatnonzero(np.isnan(candidates).any((1, 2))):
        raise ValueError(f"Sentence {item + 1} of the batch has a probability that is NaN.")
    heads = 1 + candidates.argmax(2)
    heads[lengths == 1] = 0
    if root_probabilities is not None:
        heads[root_probabilities > candidates.max(2)] = 0
    return np.where(is_word, heads, -1)


def trees_of_most_heads(
    heads: Int[np.ndarray, "batch length"],
    scores: Float[np.ndarray, "batch dependents heads"],
    lengths: Int[np.ndarray, " batch"],
    *,
    root_scores: Float[np.ndarray, "batch dependents"],
) -> Int[np.ndarray, "batch length"]:
    """The tree with a single root that keeps as many of the given heads as any: 1-based heads, 0 = root, -1 at padding.

    Of several such trees, one of the largest sum of scores. So each cycle of the given heads loses one arc. O(n^2) a
    sentence.

    Args:
        heads: one a word, tree or not, as of `argmax_heads`.
        scores: finite; see `maximum_spanning_trees`.
        lengths: words of each sentence.
        root_scores: finite; see `maximum_spanning_trees`.

    >>> cycle, scores = np.array([[2, 1, 2]]), np.log([[[1, 0.9, 0.1], [0.6, 1, 0.4], [0.2, 0.8, 1]]])
    >>> trees_of_most_heads(cycle, scores, np.array([3]), root_scores=np.zeros((1, 3))).tolist()
    [[2, 0, 2]]
    """
    longest = heads.shape[1]
    if not heads.size:
        return heads
    both = np.concatenate([root_scores[:, :, None], scores], axis=2)
    bonus = 1 + (1 + longest) * (np.nanmax(both) - np.nanmin(both))  # one head more outweighs all others' scores
    rows, words = np.nonzero(np.arange(longest) < lengths[:, None])
    both[rows, words, heads[rows, words]] += bonus
    return maximum_spanning_trees(both[:, :, 1:], lengths, root_scores=both[:, :, 0])


def _parts(lengths: Int[np.ndarray, " batch"], threads: int) -> list[slice]:
    """Consecutive sentences of about equal work, in as many parts as pay."""
    work = np.cumsum(lengths**2)
    total = int(work[-1]) if len(work) else 0
    count = max(1, min(threads, total // _WORK_OF_A_THREAD))
    starts = np.searchsorted(work, total * np.arange(1, count) / count)
    return [slice(start, stop) for start, stop in pairwise([0, *starts.tolist(), len(work)])]
