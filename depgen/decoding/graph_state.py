"""Graphs that grow by a word at a time, for many hypotheses at once, and the features of their words."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int, Int16, UInt8
from torch import Tensor

from depgen.nn.rows import Rows
from depgen.trees.feature_tapes import LARGEST, TapeOptions
from depgen.trees.sentence import Edge

UNREACHABLE = 16_000
"""No path; the sum of two fits into 16 bits. Paths are clipped to `LARGEST`, so that they stay below."""


@dataclass(frozen=True)
class GraphState(Rows):
    """The graphs of some rows over the root and the first t words, with what inserting one more word needs.

    `features` equal the row t of `depgen.trees.feature_tapes.feature_tapes`, where options and clipping are explained.
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
        depth = depth.clamp_max(LARGEST).masked_fill(self.paths[:, 0, 0] == UNREACHABLE, 0)
        return torch.stack((self.degree, depth, distance.masked_fill(distance == UNREACHABLE, 0))).to(torch.uint8)

    def edges(self, rows: Int[Tensor, " some"]) -> list[tuple[Edge, ...]]:
        """The arcs of some rows, by dependent; their labels are `root` and `dep`."""
        return [
            tuple((head, dependent, "dep" if head else "root") for dependent, head in graph.T.nonzero().tolist())
            for graph in self.graph[rows].cpu()
        ]

    def _with_a_column(self) -> "GraphState":
        """The same graphs with room for a word more."""
        paths = F.pad(self.paths, (0, 1, 0, 1), value=UNREACHABLE)
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
        steps = torch.where(along | against, 1, UNREACHABLE)
        backward = torch.where(against, against_weight, UNREACHABLE)
        forward = torch.where(along, along_weight, UNREACHABLE)
        return torch.stack((steps, torch.minimum(backward, forward)), 1).short()


def _clipped(lengths: Int16[Tensor, "*shape"]) -> Int16[Tensor, "*shape"]:
    """Lengths up to `LARGEST`; those of no path are `UNREACHABLE` and never clipped to it."""
    return torch.where(lengths >= UNREACHABLE, UNREACHABLE, lengths.clamp_max(LARGEST))
