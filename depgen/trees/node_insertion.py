"""Feature tapes by inserting the words of a graph one by one, compiled. Slow to import: `feature_tapes` does so late.

An arc belongs to its later end. When word w comes with its arcs, the shortest path from j to l either was there before,
or leads through w: min(D[j, l], g[j] + f[l]), where f are the paths from w and g those to w. A word costs O(words^2).
"""

import numpy as np
from jaxtyping import Bool, Int32, Int64, UInt8

from depgen.machine_code import compiled

ALL_INSERTED = -1
UNREACHABLE = 1 << 29
"""Longer than any path; the sum of two still fits into 32 bits."""


@compiled
def insert_words(
    heads: Int64[np.ndarray, " edges"],
    dependents: Int64[np.ndarray, " edges"],
    degree_weights: tuple[int, int],
    distance_weights: tuple[int, int],
    largest: int,
    tapes: UInt8[np.ndarray, "features nodes nodes"],
) -> int:
    """Write all rows into `tapes`, which is 0; the number of the first edge that has an end out of range, or -1."""
    nodes = tapes.shape[1]
    arcs = np.zeros((nodes, nodes), np.bool_)
    for edge in range(len(heads)):
        if not (0 <= heads[edge] < nodes and 0 < dependents[edge] < nodes):
            return edge
        arcs[heads[edge], dependents[edge]] = True
    degree = np.zeros(nodes, np.int32)
    distances = np.full((nodes, nodes), UNREACHABLE, np.int32)
    steps = distances.copy()
    for word in range(nodes):
        _add_degrees(arcs, word, degree_weights, degree)
        _add_paths(arcs, word, distance_weights, distances)
        _add_paths(arcs, word, (1, 1), steps)
        for other in range(word + 1):
            tapes[0, word, other] = min(degree[other], largest)
            if steps[0, other] < UNREACHABLE:
                tapes[1, word, other] = min(1 + steps[0, other], largest)
            far = distances[word, other]
            if far < UNREACHABLE:
                tapes[2, word, other] = min(far, largest)
    return ALL_INSERTED


@compiled
def _add_degrees(
    arcs: Bool[np.ndarray, "nodes nodes"], word: int, weights: tuple[int, int], degree: Int32[np.ndarray, " nodes"]
) -> None:
    incoming, outgoing = weights
    for other in range(word + 1):
        if arcs[other, word]:
            degree[other] += outgoing
            degree[word] += incoming
        if arcs[word, other] and other < word:  # a self-loop is one arc
            degree[word] += outgoing
            degree[other] += incoming


@compiled
def _add_paths(
    arcs: Bool[np.ndarray, "nodes nodes"], word: int, weights: tuple[int, int], paths: Int32[np.ndarray, "nodes nodes"]
) -> None:
    """Insert a word into the shortest paths between all words before; of arcs in both directions the cheaper counts."""
    against, along = weights
    towards, onwards = np.full(word, UNREACHABLE, np.int32), np.full(word, UNREACHABLE, np.int32)
    for other in range(word):
        leaves, enters = arcs[word, other], arcs[other, word]
        if leaves or enters:
            both = min(against, along)
            out = both if leaves and enters else (along if leaves else against)
            back = both if leaves and enters else (against if leaves else along)
            for place in range(word):
                onwards[place] = min(onwards[place], out + paths[other, place])
                towards[place] = min(towards[place], back + paths[place, other])
    paths[word, word] = 0
    for start in range(word):
        if towards[start] < UNREACHABLE:
            for end in range(word):
                paths[start, end] = min(paths[start, end], towards[start] + onwards[end])
        paths[start, word], paths[word, start] = towards[start], onwards[start]
