"""Chu-Liu/Edmonds' algorithm on dense scores, compiled. Slow to import: `depgen.decoding.spanning_tree` does so late.

A path of words, each followed by its best head, grows until it meets what hangs on the root already. Where it meets
itself, the cycle becomes one node; the weight of an arc into that is what a tree gains by the arc less what it loses
by breaking the cycle there (Tarjan, 1977; Gabow et al., 1986). A step costs O(n), and there are fewer than 2n.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64, UInt8

from depgen.machine_code import compiled

FOUND, NOT_A_SCORE, NO_TREE = 0, 1, 2
"""How a search ends: NaN or too large a number is no score; the arcs that are not forbidden (-inf) may make no tree."""

LARGEST = 1e300
"""Beyond that, sums over a sentence might overflow."""

_UNSEEN, _ON_PATH, _ATTACHED = 0, 1, 2


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
def spanning_trees(
    scores: Float64[np.ndarray, "batch dependents heads"],
    root_scores: Float64[np.ndarray, "batch dependents"],
    lengths: Int64[np.ndarray, " batch"],
    single_root: bool,
    heads: Int64[np.ndarray, "batch dependents"],
    outcomes: UInt8[np.ndarray, " batch"],
) -> None:
    """Write each sentence's heads (1-based, 0 = root) into `heads`, and how its search ended into `outcomes`."""
    for item in range(len(lengths)):
        length = lengths[item]
        outcomes[item] = _spanning_tree(
            scores[item, :length, :length], root_scores[item, :length], single_root, heads[item]
        )


@compiled
def _spanning_tree(
    scores: Float64[np.ndarray, "words words"],
    root_scores: Float64[np.ndarray, " words"],
    single_root: bool,
    heads: Int64[np.ndarray, " length"],
) -> int:
    nodes = _words_as_nodes(scores, root_scores)
    words = count = len(root_scores)
    for word in range(words):
        for column in range(words + 1):
            weight = nodes.weights[word, column]
            if not abs(weight) <= LARGEST and weight != -np.inf:  # NaN isn't either
                return NOT_A_SCORE
    path, states = np.empty(words, np.int64), np.full(2 * words, _UNSEEN, np.uint8)
    for start in range(words):
        node, depth = nodes.outermost[start], 0
        while states[node] == _UNSEEN:
            arcs = nodes.weights[nodes.rows[node]]
            head = _best_head(arcs, single_root)
            if arcs[head] == -np.inf:
                return NO_TREE
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
    return _expand(nodes, count, single_root, heads)


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
def _best_head(arcs: Float64[np.ndarray, " columns"], single_root: bool) -> int:
    """Where the best arc comes from; with a single root, from there only when no other is left.

    To use as few arcs of the root as can be, and among such trees the best, is to make them cheaper than any score: the
    penalty that is exact. No arc between words ever has a share in it, so that there is nothing to calculate.
    """
    best = 0
    for head in range(1, len(arcs)):
        if arcs[head] > arcs[best] or (best == 0 and single_root and arcs[head] > -np.inf):
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
        kept = nodes.weights[other, nodes.heads[member]]
        for column in range(len(arcs)):
            weight = nodes.weights[other, column] - kept
            if other == row or weight > arcs[column]:
                arcs[column], entered[column] = weight, nodes.entered[other, column]
    for word in range(len(nodes.outermost)):
        if nodes.parents[nodes.outermost[word]] == cycle:
            nodes.outermost[word] = cycle
            arcs[word + 1] = -np.inf
    return depth


@compiled
def _expand(nodes: _Nodes, count: int, single_root: bool, heads: Int64[np.ndarray, " length"]) -> int:
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
    return NO_TREE if single_root and roots > 1 else FOUND
