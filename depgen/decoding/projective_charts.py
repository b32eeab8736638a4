"""Charts of projective dependency trees, compiled. Slow to import: `depgen.decoding.projective_trees` does so late.

Eisner's (2000) items. `incomplete[h, d]`: an arc from h to d and all words between; `complete[h, e]`: h with its
dependents on the side of e, up to word e. Words are 0-based; scores are `arcs[dependent, head]` in nats. A root joins
the two complete items of a word, so that each tree has one root. It has one derivation.
"""

import heapq
import math

import numpy as np
from jaxtyping import Float64, Int32, Int64

from depgen.machine_code import compiled


@compiled
def _log_sum(values: Float64[np.ndarray, " values"], number: int) -> float:
    """The logarithm of the sum of the exponentials of the first values."""
    highest, total = -np.inf, 0.0
    for place in range(number):
        highest = max(highest, values[place])
    if highest == -np.inf:
        return highest
    for place in range(number):
        total += math.exp(values[place] - highest)
    return highest + math.log(total)


@compiled
def _log_add(one: float, other: float) -> float:
    highest = max(one, other)
    return highest if highest == -np.inf else highest + math.log1p(math.exp(min(one, other) - highest))


@compiled
def inside(
    arcs: Float64[np.ndarray, "words words"], roots: Float64[np.ndarray, " words"]
) -> tuple[Float64[np.ndarray, "words words"], Float64[np.ndarray, "words words"], Float64[np.ndarray, " words"]]:
    """Log-sums over the derivations of incomplete items, of complete items, and of all trees with each root. O(n^3)."""
    words = len(roots)
    incomplete, complete = np.full((words, words), -np.inf), np.full((words, words), -np.inf)
    rooted, values = np.empty(words), np.empty(words)
    for word in range(words):
        complete[word, word] = 0.0
    for width in range(1, words):
        for first in range(words - width):
            last = first + width
            for cut in range(width):
                values[cut] = complete[first, first + cut] + complete[last, first + cut + 1]
            halves = _log_sum(values, width)
            incomplete[first, last] = halves + arcs[last, first]
            incomplete[last, first] = halves + arcs[first, last]
            for cut in range(width):
                values[cut] = incomplete[first, first + cut + 1] + complete[first + cut + 1, last]
            complete[first, last] = _log_sum(values, width)
            for cut in range(width):
                values[cut] = incomplete[last, first + cut] + complete[first + cut, first]
            complete[last, first] = _log_sum(values, width)
    for word in range(words):
        rooted[word] = roots[word] + complete[word, 0] + complete[word, words - 1]
    return incomplete, complete, rooted


@compiled
def _drawn(values: Float64[np.ndarray, " values"], number: int, uniform: float) -> int:
    """A place among the first values with probability in proportion to the exponential of its value."""
    rest = _log_sum(values, number) + math.log(max(uniform, 1e-300))
    so_far = -np.inf
    for place in range(number):
        so_far = _log_add(so_far, values[place])
        if so_far > rest:
            return place
    return number - 1


@compiled
def sampled_heads(
    incomplete: Float64[np.ndarray, "words words"],
    complete: Float64[np.ndarray, "words words"],
    rooted: Float64[np.ndarray, " words"],
    uniforms: Float64[np.ndarray, "samples variates"],
) -> Int64[np.ndarray, "samples words"]:
    """Trees (1-based heads, 0 = root) drawn top down from what `inside` returns; 2n - 1 variates a tree, O(n^2)."""
    words = len(rooted)
    heads, values = np.zeros((len(uniforms), words), np.int64), np.empty(words)
    for sample in range(len(uniforms)):
        root, used = _drawn(rooted, words, uniforms[sample, 0]), 1
        pending = [(root, 0, True), (root, words - 1, True)]
        while pending:
            head, end, is_complete = pending.pop()
            if head == end:
                continue
            low, width = min(head, end), abs(head - end)
            if is_complete:  # the last dependent on this side
                first = low + (head == low)
                for cut in range(width):
                    values[cut] = incomplete[head, first + cut] + complete[first + cut, end]
                dependent = first + _drawn(values, width, uniforms[sample, used])
                pending.append((head, dependent, False))
                pending.append((dependent, end, True))
            else:  # where the words between are divided
                for cut in range(width):
                    values[cut] = complete[low, low + cut] + complete[low + width, low + cut + 1]
                cut = low + _drawn(values, width, uniforms[sample, used])
                pending.append((low, cut, True))
                pending.append((low + width, cut + 1, True))
                heads[sample, end] = head + 1
            used += 1
    return heads


@compiled
def _merge(
    firsts: Float64[np.ndarray, "cuts most"],
    seconds: Float64[np.ndarray, "cuts most"],
    thirds: Float64[np.ndarray, " labels"],
    scores: Float64[np.ndarray, " most"],
    ranks: Int32[np.ndarray, "most 4"],
) -> None:
    """Write the best sums of a first and a second of one cut and a third, with their cut and ranks.

    All rows and `thirds` fall, and end with -inf. A sum is reached from one better sum alone: none is found twice.
    """
    most = len(scores)
    heap = [(0.0, 0, 0, 0, 0)]
    heap.pop()
    for cut in range(len(firsts)):
        best = firsts[cut, 0] + seconds[cut, 0] + thirds[0]
        if best > -np.inf:
            heapq.heappush(heap, (-best, cut, 0, 0, 0))
    found = 0
    while heap and found < most:
        negative, cut, one, two, three = heapq.heappop(heap)
        scores[found] = -negative
        ranks[found, 0], ranks[found, 1], ranks[found, 2], ranks[found, 3] = cut, one, two, three
        found += 1
        for step in range(3):
            first, second, third = one + (step == 0), two + (step == 1), three + (step == 2)
            if (step < 2 and three) or (step < 1 and two) or max(first, second) >= most or third >= len(thirds):
                continue
            score = firsts[cut, first] + seconds[cut, second] + thirds[third]
            if score > -np.inf:
                heapq.heappush(heap, (-score, cut, first, second, third))


@compiled
def best_trees(
    arcs: Float64[np.ndarray, "words words labels"], roots: Float64[np.ndarray, " words"], most: int
) -> tuple[Int64[np.ndarray, "trees words"], Int64[np.ndarray, "trees words"]]:
    """The best labelled trees, the best first: heads (1-based, 0 = root), and ranks of the labels of their arcs.

    O(n^3 k) copies and O(n^2 k log(n k)) steps of heaps.

    Args:
        arcs: scores with each label, falling.
        roots: of each word being the root.
        most: number of trees; fewer where there are no more.
    """
    words = len(roots)
    scores = np.full((2, words, words, most), -np.inf)  # of incomplete items, and of complete ones
    ranks = np.zeros((2, words, words, most, 4), np.int32)
    firsts, seconds, nothing = np.full((words, most), -np.inf), np.full((words, most), -np.inf), np.zeros(1)
    for word in range(words):
        scores[1, word, word, 0] = 0.0
    for width in range(1, words):
        for first in range(words - width):
            for step in range(4):  # to the right and to the left, incomplete items before complete ones
                head, end = (first, first + width) if step % 2 == 0 else (first + width, first)
                low = first + (step == 2)
                for cut in range(width):
                    for rank in range(most):
                        if step < 2:
                            firsts[cut, rank] = scores[1, first, first + cut, rank]
                            seconds[cut, rank] = scores[1, first + width, first + cut + 1, rank]
                        else:
                            firsts[cut, rank] = scores[0, head, low + cut, rank]
                            seconds[cut, rank] = scores[1, low + cut, end, rank]
                labels = arcs[end, head] if step < 2 else nothing
                _merge(
                    firsts[:width], seconds[:width], labels, scores[step // 2, head, end], ranks[step // 2, head, end]
                )
    for word in range(words):
        for rank in range(most):
            firsts[word, rank] = scores[1, word, 0, rank] + roots[word]
            seconds[word, rank] = scores[1, word, words - 1, rank]
    whole, of_roots = np.full(most, -np.inf), np.zeros((most, 4), np.int32)
    _merge(firsts, seconds, nothing, whole, of_roots)
    trees = 0
    while trees < most and whole[trees] > -np.inf:
        trees += 1
    heads, chosen = np.zeros((trees, words), np.int64), np.zeros((trees, words), np.int64)
    for tree in range(trees):
        root = int(of_roots[tree, 0])
        pending = [(root, 0, 1, int(of_roots[tree, 1])), (root, words - 1, 1, int(of_roots[tree, 2]))]
        while pending:
            head, end, kind, rank = pending.pop()
            if head == end:
                continue
            back = ranks[kind, head, end, rank]
            low, cut, one, two = min(head, end), int(back[0]), int(back[1]), int(back[2])
            if kind:
                dependent = low + (head == low) + cut
                pending.append((head, dependent, 0, one))
                pending.append((dependent, end, 1, two))
            else:
                pending.append((low, low + cut, 1, one))
                pending.append((max(head, end), low + cut + 1, 1, two))
                heads[tree, end], chosen[tree, end] = head + 1, back[3]
    return heads, chosen


@compiled
def log_weight_of_binarized(
    heads: Int64[np.ndarray, " words"],
    arcs: Float64[np.ndarray, "words words"],
    roots: Float64[np.ndarray, " words"],
    inside_out: bool,
) -> float:
    """The log-sum of the scores of all projective trees that have this binarised tree. O(n^3) at worst.

    In each of them the subtree of a right dependent of the binarised tree begins just after its new head. That of a
    left dependent begins where its head's begins (`left-right`), or ends just before its new head (`inside-out`).

    Args:
        heads: of the binarised tree, 1-based, 0 = root.
        arcs: scores, those of labels included.
        roots: of each word being the root.
        inside_out: see `depgen.trees.tree_arrays.binarize`.
    """
    words = len(heads)
    children, order, found, root = np.full((2, words), -1), np.empty(words, np.int64), 1, 0
    for word in range(words):
        if heads[word] > 0:
            children[int(word >= heads[word]), heads[word] - 1] = word
        else:
            root = word
    order[0] = root
    for place in range(words):
        for side in range(2):
            child = children[side, order[place]]
            if child >= 0:
                order[found] = child
                found += 1
    right, left = np.full((words, words), -np.inf), np.full((words, words), -np.inf)  # of each head: down to an end
    closed = np.zeros(words)  # the left part, down to where the subtree has to begin
    begins, part = np.arange(words), np.empty(words)
    for place in range(words - 1, -1, -1):
        head = order[place]
        right[head, head] = left[head, head] = 0.0
        for before in range(head, words):
            dependent = children[1, before]
            if right[head, before] > -np.inf and dependent >= 0:
                score = right[head, before] + arcs[dependent, head] + closed[dependent]
                for end in range(dependent, words):
                    right[head, end] = _log_add(right[head, end], score + right[dependent, end])
        child = children[0, head]
        begins[head] = head if child < 0 else begins[child]
        if inside_out:
            for before in range(head, -1, -1):
                dependent = children[0, before]
                if left[head, before] > -np.inf and dependent >= 0:
                    score = left[head, before] + arcs[dependent, head] + right[dependent, before - 1]
                    for end in range(dependent + 1):
                        left[head, end] = _log_add(left[head, end], score + left[dependent, end])
            closed[head] = left[head, begins[head]]
        elif child >= 0:
            for end in range(child, head):  # the dependents at the left, up to a last word
                part[end] = arcs[child, head] + closed[child] + right[child, end]
            for before in range(child, head):
                dependent = children[1, before]
                if part[before] > -np.inf and 0 <= dependent < head:
                    score = part[before] + arcs[dependent, head] + closed[dependent]
                    for end in range(dependent, head):
                        part[end] = _log_add(part[end], score + right[dependent, end])
            closed[head] = part[head - 1]
    weight: float = roots[root] + closed[root] + right[root, words - 1]
    return weight
