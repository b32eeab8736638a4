"""The feature tapes of GiLT: what each word knows of the graph over the words up to it.

Tapes of a given graph are made by inserting its words one by one, compiled; `GraphState` inserts words into the graphs
of many hypotheses at once. An arc belongs to its later end. When word w comes with its arcs, the shortest path from j
to l either was there before, or leads through w: min(D[j, l], g[j] + f[l]), where f are the paths from w and g those to
w. A word costs O(words^2).
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int, Int16, Int32, Int64, UInt8
from torch import Tensor

from depgen.errors import UserError
from depgen.machine_code import compiled
from depgen.nn.rows import Rows
from depgen.trees.sentence import Edge

FEATURES = ("degree", "depth", "distance")

LARGEST = 150
"""Larger values are clipped to this one."""
NO_PATH, NO_CLIPPED_PATH = 1 << 29, 16_000
"""Longer than any path of 32 bits, and than any of 16 bits that is clipped to `LARGEST`; the sum of two fits too."""
ALL_INSERTED = -1


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
    tapes = np.zeros((len(FEATURES), words + 1, words + 1), np.uint8)
    ends = np.ascontiguousarray(heads, np.int64), np.ascontiguousarray(dependents, np.int64)
    wrong = insert_words(*ends, options.degree_weights, options.distance_weights, LARGEST, tapes)
    if wrong != ALL_INSERTED:
        raise _out_of_range(heads, dependents, words, wrong)
    return tapes


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
    distances = np.full((nodes, nodes), NO_PATH, np.int32)
    steps = distances.copy()
    for word in range(nodes):
        _add_degrees(arcs, word, degree_weights, degree)
        _add_paths(arcs, word, distance_weights, distances)
        _add_paths(arcs, word, (1, 1), steps)
        for other in range(word + 1):
            tapes[0, word, other] = min(degree[other], largest)
            if steps[0, other] < NO_PATH:
                tapes[1, word, other] = min(1 + steps[0, other], largest)
            far = distances[word, other]
            if far < NO_PATH:
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
    towards, onwards = np.full(word, NO_PATH, np.int32), np.full(word, NO_PATH, np.int32)
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
        if towards[start] < NO_PATH:
            for end in range(word):
                paths[start, end] = min(paths[start, end], towards[start] + onwards[end])
        paths[start, word], paths[word, start] = towards[start], onwards[start]


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


@dataclass(frozen=True)
class GraphState(Rows):
    """The graphs of some rows over the root and the first t words, with what inserting one more word needs.

    `features` equal the row t of `feature_tapes`, where options and clipping are explained.
    Rows may have fewer than t words: the columns after a row's last word are not in its graph.

    Attributes:
        graph: whether an arc leads from the one to the other; word 0 is the root.
        degree: the weighted number of arcs of each word, clipped.
        paths: lengths of the shortest paths from the one to the other, clipped: of one step for each arc, and weighted.
        lengths: number of words of each row.
        options: how arcs are weighted.
    """

    shared: ClassVar[frozenset[str]] = frozenset({"options"})

    graph: Bool[Tensor, "rows nodes nodes"]
    degree: Int16[Tensor, "rows nodes"]
    paths: Int16[Tensor, "rows two nodes nodes"]
    lengths: Int[Tensor, " rows"]
    options: TapeOptions

    @classmethod
    def empty(cls, rows: int, options: TapeOptions, *, device: torch.device | str = "cpu") -> "GraphState":
        """Graphs of the root alone."""
        root = torch.zeros(rows, 1, 1, dtype=torch.int16, device=device)
        lengths = torch.zeros(rows, dtype=torch.long, device=device)
        return cls(root.bool(), root[:, 0], root[:, None].expand(-1, 2, -1, -1), lengths, options)

    @property
    def words(self) -> int:
        """t, the number of words of the rows that have the most."""
        return self.degree.size(1) - 1

    def inserted(
        self,
        from_earlier: Bool[Tensor, "rows nodes"],
        to_earlier: Bool[Tensor, "rows nodes"],
        *,
        inserts: Bool[Tensor, " rows"],
        words: int,
    ) -> "GraphState":
        """The graphs with one word more and its arcs. O(rows t^2).

        `from_earlier` says whether an arc leads from each word, column 0 the root, to the new word, and `to_earlier`
        whether one leads from the new word to each, False in column 0. Rows without `inserts` get no word and have no
        arcs here. No row has more than `words` words then.
        """
        wider = self._with_a_column() if words > self.words else self
        spare = wider.words - self.words
        enters, leaves = F.pad(from_earlier, (0, spare)), F.pad(to_earlier, (0, spare))
        lengths = self.lengths + inserts
        columns = torch.arange(wider.words + 1, device=lengths.device)
        is_new = (columns == lengths[:, None]) & inserts[:, None]
        graph = wider.graph | (enters[:, :, None] & is_new[:, None]) | (is_new[:, :, None] & leaves[:, None])
        incoming, outgoing = self.options.degree_weights
        of_new = incoming * enters.sum(1) + outgoing * leaves.sum(1)
        degree = wider.degree + outgoing * enters + incoming * leaves + of_new[:, None] * is_new
        degree = degree.clamp_max(LARGEST).short()
        return replace(wider, graph=graph, degree=degree, paths=wider._paths(enters, leaves, is_new), lengths=lengths)

    @property
    def features(self) -> UInt8[Tensor, "features rows nodes"]:
        """Degree, depth and distance of all words, the root in column 0; 0 after a row's last word."""
        rows = torch.arange(self.lengths.size(0), device=self.lengths.device)
        depth, distance = 1 + self.paths[:, 0, 0], self.paths[rows, 1, self.lengths]
        depth = depth.clamp_max(LARGEST).masked_fill(self.paths[:, 0, 0] == NO_CLIPPED_PATH, 0)
        return torch.stack((self.degree, depth, distance.masked_fill(distance == NO_CLIPPED_PATH, 0))).to(torch.uint8)

    def edges(self, rows: Int[Tensor, " some"]) -> list[tuple[Edge, ...]]:
        """The arcs of some rows, by dependent; their labels are `root` and `dep`."""
        return [
            tuple((head, dependent, "dep" if head else "root") for dependent, head in graph.T.nonzero().tolist())
            for graph in self.graph[rows].cpu()
        ]

    def _with_a_column(self) -> "GraphState":
        """The same graphs with room for a word more."""
        paths = F.pad(self.paths, (0, 1, 0, 1), value=NO_CLIPPED_PATH)
        paths[:, :, -1, -1] = 0
        return replace(self, graph=F.pad(self.graph, (0, 1, 0, 1)), degree=F.pad(self.degree, (0, 1)), paths=paths)

    def _paths(
        self, enters: Bool[Tensor, "rows nodes"], leaves: Bool[Tensor, "rows nodes"], is_new: Bool[Tensor, "rows nodes"]
    ) -> Int16[Tensor, "rows two nodes nodes"]:
        """Shortest paths once the new word is there: those before, or two that meet at it."""
        out, back = (self._arc_lengths(*pair) for pair in ((leaves, enters), (enters, leaves)))
        onwards = _clipped((out[..., None] + self.paths).amin(2))  # f: from the new word to each
        towards = _clipped((self.paths + back[:, :, None]).amin(3))  # g: from each to it
        through = _clipped(towards[..., None] + onwards[:, :, None])
        paths = torch.minimum(self.paths, through)
        paths = torch.where(is_new[:, None, :, None], onwards[:, :, None], paths)
        paths = torch.where(is_new[:, None, None], towards[..., None], paths)
        return paths.masked_fill((is_new[:, :, None] & is_new[:, None])[:, None], 0)

    def _arc_lengths(
        self, along: Bool[Tensor, "rows nodes"], against: Bool[Tensor, "rows nodes"]
    ) -> Int16[Tensor, "rows two nodes"]:
        """The length of a step by an arc of either direction, the smaller of both; as steps and weighted."""
        against_weight, along_weight = self.options.distance_weights
        steps = torch.where(along | against, 1, NO_CLIPPED_PATH)
        backward = torch.where(against, against_weight, NO_CLIPPED_PATH)
        forward = torch.where(along, along_weight, NO_CLIPPED_PATH)
        return torch.stack((steps, torch.minimum(backward, forward)), 1).short()


def _clipped(lengths: Int16[Tensor, "*shape"]) -> Int16[Tensor, "*shape"]:
    """Lengths up to `LARGEST`; those of no path are `NO_CLIPPED_PATH` and never clipped to it."""
    return torch.where(lengths >= NO_CLIPPED_PATH, NO_CLIPPED_PATH, lengths.clamp_max(LARGEST))
