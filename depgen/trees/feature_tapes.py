"""The feature tapes of GiLT: what each word knows of the graph over the words up to it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int, UInt8

from depgen.errors import UserError

FEATURES = ("degree", "depth", "distance")

LARGEST = 150
"""Larger values are clipped to this one."""


@dataclass(frozen=True)
class TapeOptions:
    """How arcs are weighted.

    Attributes:
        degree_weights: of an arc into a word, and of one out of it; the paper's m_in and m_out.
        distance_weights: of a step against an arc, and of one along it.
    """

    degree_weights: tuple[int, int] = (1, 10)
    distance_weights: tuple[int, int] = (1, 10)

    def __post_init__(self) -> None:
        for name, weights in vars(self).items():
            if not (min(weights) >= 1 and max(weights) <= LARGEST):
                raise UserError(f"{name}: expected two weights from 1 to {LARGEST}, found {weights}.")


def feature_tapes(
    heads: Int[np.ndarray, " edges"], dependents: Int[np.ndarray, " edges"], words: int, options: TapeOptions
) -> UInt8[np.ndarray, "features nodes nodes"]:
    """The features of all words in the graph over the first t words: `tapes[feature, t, word]`, 0 at words after t.

    Section 3.3 of GiLT; the features are in the order of `FEATURES`, word 0 is the root. An edge counts once both its
    ends are among the words; edges of several labels between the same two words are one.

    * degree: the weighted number of edges.
    * depth: 1 + the number of edges on the shortest path to the root, in whatever direction; 0 without a path.
    * distance: the length of the shortest weighted path from word t; it may lead through the root. Without a path it is
      0, that of word t to itself, as in the authors' code.

    A self-loop counts in the degree, in and out, and lies on no path. Where edges lead both ways between two words, the
    smaller weight is the length of both. O(words^3 + edges words).

    Raises:
        UserError: an edge ends at a word that there is not, or at the root.

    >>> heads, dependents = np.array([0, 1]), np.array([1, 2])  # 0 -> 1 -> 2
    >>> feature_tapes(heads, dependents, 2, TapeOptions()).tolist()[2]  # the rows of t = 0, 1, 2
    [[0, 0, 0], [1, 0, 0], [2, 1, 0]]
    """
    from depgen.trees.node_insertion import ALL_INSERTED, insert_words

    tapes = np.zeros((len(FEATURES), words + 1, words + 1), np.uint8)
    ends = np.ascontiguousarray(heads, np.int64), np.ascontiguousarray(dependents, np.int64)
    wrong = insert_words(*ends, options.degree_weights, options.distance_weights, LARGEST, tapes)
    if wrong != ALL_INSERTED:
        raise _out_of_range(heads, dependents, words, wrong)
    return tapes


def arcs_by_later_word(
    heads: Int[np.ndarray, " edges"], dependents: Int[np.ndarray, " edges"], words: int
) -> tuple[Bool[np.ndarray, "words nodes"], Bool[np.ndarray, "words nodes"]]:
    """Whether word i has an edge from j < i, and one to j <= i, both at `[i - 1, j]`: what GiLT's arc scores learn.

    j = 0 is the root, which has no edge to it; j = i of the second is the self-loop. Edges are those that
    `feature_tapes` takes.

    >>> from_earlier, to_earlier = arcs_by_later_word(np.array([0, 2]), np.array([2, 1]), 2)
    >>> from_earlier.nonzero(), to_earlier.nonzero()
    ((array([1]), array([0])), (array([1]), array([1])))
    """
    arcs = np.zeros((words + 1, words + 1), np.bool_)
    arcs[heads, dependents] = True
    return np.tril(arcs.T, -1)[1:], np.tril(arcs)[1:]


def _out_of_range(
    heads: Int[np.ndarray, " edges"], dependents: Int[np.ndarray, " edges"], words: int, edge: int
) -> UserError:
    return UserError(
        f"edge {edge + 1} of the graph leads from {heads[edge]} to {dependents[edge]}: expected a head from 0 (the "
        f"root) to {words} and a dependent from 1 to {words}, as the sentence has {words} words. Correct the graph, or "
        "annotate again."
    )
