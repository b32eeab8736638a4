"""Operations on arrays of heads (1-based, 0 = root), compiled. Slow to import: `binarization` does so late."""

import numpy as np
from jaxtyping import Int64

from depgen.machine_code import compiled


@compiled
def depths_of(heads: Int64[np.ndarray, " words"]) -> Int64[np.ndarray, " words"]:
    """The number of words from the root to each word."""
    depths = np.zeros(len(heads), np.int64)
    path = np.zeros(len(heads) + 1, np.int64)
    for start in range(len(heads)):
        word, steps = start + 1, 0
        while word > 0 and depths[word - 1] == 0:
            path[steps] = word
            steps += 1
            word = heads[word - 1]
        depth = 0 if word == 0 else depths[word - 1]
        for step in range(steps - 1, -1, -1):
            depth += 1
            depths[path[step] - 1] = depth
    return depths


@compiled
def bounds_of(heads: Int64[np.ndarray, " words"]) -> Int64[np.ndarray, "2 words"]:
    """The first and the last word of the subtree of each word, 1-based."""
    words = len(heads)
    bounds = np.zeros((2, words), np.int64)
    bounds[0] = np.arange(1, words + 1)
    bounds[1] = bounds[0]
    order = np.argsort(-depths_of(heads))
    for place in order:
        head = heads[place]
        if head > 0:
            bounds[0, head - 1] = min(bounds[0, head - 1], bounds[0, place])
            bounds[1, head - 1] = max(bounds[1, head - 1], bounds[1, place])
    return bounds


@compiled
def binarize(heads: Int64[np.ndarray, " words"], inside_out: bool) -> Int64[np.ndarray, " words"]:
    """Heads of the binarised tree; see `depgen.trees.binarization.binarized`."""
    words = len(heads)
    bounds = bounds_of(heads)
    found = heads.copy()
    nearest = np.zeros((2, words + 1), np.int64)  # of each head: its dependent before the present word, by side
    for word in range(1, words + 1):
        head = heads[word - 1]
        if head == 0:
            continue
        side = 0 if word < head else 1
        before = nearest[side, head]
        if before and side == 0 and inside_out:
            found[before - 1] = bounds[0, word - 1]  # the first word of the subtree after that dependent
        elif before:
            found[word - 1] = bounds[0, word - 1] - 1  # the last word of the subtree before
        nearest[side, head] = word
    return found


@compiled
def lift(heads: Int64[np.ndarray, " words"]) -> int:
    """Make a tree with one root projective, in place; how many arcs were lifted."""
    words = len(heads)
    lifts = 0
    while True:
        shortest, chosen = words + 1, -1
        for place in range(words):
            head = heads[place]
            length = abs(head - place - 1)
            if head == 0 or length < 2 or length >= shortest:
                continue
            for between in range(min(head, place + 1) + 1, max(head, place + 1)):
                above = between
                while above != 0 and above != head:
                    above = heads[above - 1]
                if above == 0:
                    shortest, chosen = length, place
                    break
        if chosen < 0:
            return lifts
        heads[chosen] = heads[heads[chosen] - 1]
        lifts += 1


@compiled
def regular_trees(
    heads: Int64[np.ndarray, " tokens"], offsets: Int64[np.ndarray, " trees_and_one"], inside_out: bool, moves: bool
) -> tuple[Int64[np.ndarray, " tokens"], Int64[np.ndarray, " trees"]]:
    """The depths of all words after lifting and binarising; and what each tree needed: 1 = a single root, 2 = lifting.

    Args:
        heads: of all trees, one after the other, each counted within its tree.
        offsets: where each tree begins, and the end.
        inside_out: see `binarize`.
        moves: whether trees are binarised at all.
    """
    depths = np.zeros(len(heads), np.int64)
    needs = np.zeros(len(offsets) - 1, np.int64)
    for tree in range(len(offsets) - 1):
        own = heads[offsets[tree] : offsets[tree + 1]].copy()
        root = 0
        for place in range(len(own)):
            if own[place] == 0 and root:
                own[place] = root
                needs[tree] = 1
            elif own[place] == 0:
                root = place + 1
        if lift(own):
            needs[tree] += 2
        if moves:
            own = binarize(own, inside_out)
        depths[offsets[tree] : offsets[tree + 1]] = depths_of(own)
    return depths, needs


@compiled
def level_sizes(
    depths: Int64[np.ndarray, " tokens"], offsets: Int64[np.ndarray, " trees_and_one"]
) -> tuple[Int64[np.ndarray, " trees_and_one"], Int64[np.ndarray, " levels"], Int64[np.ndarray, " levels"]]:
    """Where the levels of each tree begin, and the end; the words down to each level, and those at it."""
    firsts = np.zeros(len(offsets), np.int64)
    for tree in range(len(offsets) - 1):
        deepest = 0
        for place in range(offsets[tree], offsets[tree + 1]):
            deepest = max(deepest, depths[place])
        firsts[tree + 1] = firsts[tree] + deepest
    at = np.zeros(firsts[-1], np.int64)
    for tree in range(len(offsets) - 1):
        for place in range(offsets[tree], offsets[tree + 1]):
            at[firsts[tree] + depths[place] - 1] += 1
    down_to = at.copy()
    for tree in range(len(offsets) - 1):
        for level in range(firsts[tree] + 1, firsts[tree + 1]):
            down_to[level] += down_to[level - 1]
    return firsts, down_to, at
