"""The best dependency tree of each sentence by Chu-Liu/Edmonds' algorithm on dense scores, compiled by numba.

A path of words, each followed by its best head, grows until it meets what hangs on the root already. Where it meets
itself, the cycle becomes one node; the weight of an arc into that is what a tree gains by the arc less what it loses
by breaking the cycle there (Tarjan, 1977; Gabow et al., 1986). A step costs O(n), and there are fewer than 2n.

Slow to import: modules that a command line needs at once import it late.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int, Int64

from depgen.machine_code import compiled

LARGEST = 1e300
"""Beyond that, sums over a sentence might overflow."""

_UNSEEN, _ON_PATH, _ATTACHED = 0, 1, 2


def maximum_spanning_trees(
    scores: Float[np.ndarray, "batch dependents heads"],
    lengths: Int[np.ndarray, " batch"],
    *,
    root_scores: Float[np.ndarray, "batch dependents"] | None = None,
) -> Int[np.ndarray, "batch length"]:
    """The tree with a single root and the largest sum of scores: 1-based heads, 0 = root, -1 at padding.

    Trees may be non-projective. Exact in float64 up to rounding, whatever the range of the scores; at ties, any of the
    best. O(n^2) a sentence, where other implementations search once for each word as the root.

    Args:
        scores: `scores[b, i, j]` of word i depending on word j; -inf forbids it. The diagonal is ignored.
        lengths: words of each sentence.
        root_scores: of each word being the root, -inf where it can't be; all 0 by default.

    Raises:
        ValueError: a sentence has NaN, inf or numbers beyond 1e300 among its scores, or no tree without forbidden arcs.

    >>> maximum_spanning_trees(np.array([[[0.0, 3.0], [2.0, 0.0]]]), np.array([2])).tolist()
    [[2, 0]]
    """
    arcs = np.ascontiguousarray(scores, dtype=np.float64)
    roots = np.zeros(arcs.shape[:2]) if root_scores is None else np.ascontiguousarray(root_scores, dtype=np.float64)
    heads = np.full(arcs.shape[:2], -1)
    for item, length in enumerate(lengths.tolist()):
        _spanning_tree(arcs[item, :length, :length], roots[item, :length], heads[item])
    return heads


class _Nodes(NamedTuple):
    """Nodes are the words, 0-based, then the cycles as they are found; column 0 of an arc is the root, then the words.

    Attributes:
        weights: of the arcs into each outermost node, in the row that `rows` says; -inf from its own words.
        entered: the word of that node where such an arc enters.
        rows: of nodes.
        outermost: the node that a word is in, itself in none.
        parents: the cycle that a node is part of.
        heads: the best arc into a node: where it comes from (0 = the root, then the words).
        words: the word where it enters.
    """

    weights: Float64[np.ndarray, "words columns"]
    entered: Int64[np.ndarray, "words columns"]
    rows: Int64[np.ndarray, " nodes"]
    outermost: Int64[np.ndarray, " words"]
    parents: Int64[np.ndarray, " nodes"]
    heads: Int64[np.ndarray, " nodes"]
    words: Int64[np.ndarray, " nodes"]


@compiled
def _spanning_tree(
    scores: Float64[np.ndarray, "words words"],
    root_scores: Float64[np.ndarray, " words"],
    heads: Int64[np.ndarray, " length"],
) -> None:
    """Write the heads (1-based, 0 = root) of a sentence."""
    nodes = _words_as_nodes(scores, root_scores)
    words = count = len(root_scores)
    for word in range(words):
        for column in range(words + 1):
            weight = nodes.weights[word, column]
            if not abs(weight) <= LARGEST and weight != -np.inf:  # NaN isn't either
                raise ValueError("A score of a sentence is NaN, inf or beyond 1e300.")
    path, states = np.empty(words, np.int64), np.full(2 * words, _UNSEEN, np.uint8)
    for start in range(words):
        node, depth = nodes.outermost[start], 0
        while states[node] == _UNSEEN:
            arcs = nodes.weights[nodes.rows[node]]
            head = _best_head(arcs)
            if arcs[head] == -np.inf:
                raise ValueError("A sentence has no tree with a single root whose arcs all score above -inf.")
            nodes.heads[node], nodes.words[node] = head, nodes.entered[nodes.rows[node], head]
            path[depth], states[node] = node, _ON_PATH
            depth += 1
            if head == 0:
                break
            node = nodes.outermost[head - 1]
            if states[node] == _ON_PATH:
                depth = _contract(nodes, count, path, depth, node)
                node, count = count, count + 1
        for place in range(depth):
            states[path[place]] = _ATTACHED
    _expand(nodes, count, heads)


@compiled
def _words_as_nodes(scores: Float64[np.ndarray, "words words"], root_scores: Float64[np.ndarray, " words"]) -> _Nodes:
    words = len(root_scores)
    weights, entered = np.empty((words, words + 1)), np.empty((words, words + 1), np.int64)
    for word in range(words):  # assigned by slices, this compiles for three times as long
        for column in range(words + 1):
            weights[word, column] = scores[word, column - 1] if column else root_scores[word]
            entered[word, column] = word
        weights[word, word + 1] = -np.inf
    absent = np.full(2 * words, -1)
    return _Nodes(weights, entered, np.arange(2 * words), np.arange(words), absent, absent.copy(), absent.copy())


@compiled
def _best_head(arcs: Float64[np.ndarray, " columns"]) -> int:
    """Where the best arc comes from: from the root (0) only when no other is left.

    To use as few arcs of the root as can be, and among such trees the best, is to make them cheaper than any score: the
    penalty that is exact. No arc between words ever has a share in it, so that there is nothing to calculate.
    """
    best = 0
    for head in range(1, len(arcs)):
        if arcs[head] > arcs[best] or (best == 0 and arcs[head] > -np.inf):
            best = head
    return best


@compiled
def _contract(nodes: _Nodes, cycle: int, path: Int64[np.ndarray, " words"], depth: int, first: int) -> int:
    """Make one node, `cycle`, of the path's end from `first` on; the depth of what is left of the path."""
    row = nodes.rows[cycle] = nodes.rows[path[depth - 1]]
    arcs, entered = nodes.weights[row], nodes.entered[row]
    member = -1
    while member != first:
        depth -= 1
        member = path[depth]
        nodes.parents[member] = cycle
        other = nodes.rows[member]
        lost = nodes.weights[other, nodes.heads[member]]
        for column in range(len(arcs)):
            weight = nodes.weights[other, column] - lost
            if other == row or weight > arcs[column]:
                arcs[column], entered[column] = weight, nodes.entered[other, column]
    for word in range(len(nodes.outermost)):
        if nodes.parents[nodes.outermost[word]] == cycle:
            nodes.outermost[word] = cycle
            arcs[word + 1] = -np.inf
    return depth


@compiled
def _expand(nodes: _Nodes, count: int, heads: Int64[np.ndarray, " length"]) -> None:
    """The outermost arcs break the cycles that they enter; all other arcs of cycles stay."""
    broken = np.zeros(count, np.bool_)
    roots = 0
    for node in range(count - 1, -1, -1):
        if not broken[node]:
            word = nodes.words[node]
            heads[word] = nodes.heads[node]
            roots += heads[word] == 0
            inner = word
            while inner != node:
                broken[inner] = True
                inner = nodes.parents[inner]
    if roots > 1:
        raise ValueError("A sentence has no tree with a single root whose arcs all score above -inf.")
