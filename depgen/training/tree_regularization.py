"""A penalty on hidden states by which a language model keeps constituents apart from what comes before them.

Nandi, Manning & Murty (2025), NAACL, "Sneaking Syntax into Transformer Language Models with Tree Regularization". With
h_j the state of token j at some layer, a unit vector u and n tokens:

    orth(x, y)             x - (x·ŷ) ŷ, the part of x that is orthogonal to y; its norm is 0 where y is the beginning
    SCIN(i, j)             |orth(h_j, h_{i-1})| + |orth(h_{j+1}, h_j)|; the second term is 0 for j = n
    score(i, q, j)         SCIN(i, q) + SCIN(q + 1, j), of cutting the tokens i ... j after q
    l(i, j)                -log softmax of the scores of all cuts between words, at the cut of the tree
    L_TR                   the mean of l over the constituents of a sentence with two cuts or more, then over sentences

The formulas are those of the authors' code, where a sentence without such constituents counts as 0. States are the
first `share` of a layer's outputs, as there; the paper speaks of attention heads.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.errors import UserError, check_at_least
from depgen.trees.attachments import cuts_of
from depgen.trees.constituency import Span

SMALLEST = 1e-12
"""The least squared norm that a root is taken of."""


@dataclass(frozen=True)
class TreeRegularization:
    """The penalty as a term of a loss.

    Args:
        layer: whose outputs are trained, 1 being the lowest (12 of 16 in the authors' code).
        share: of these outputs' entries, from the first on.
        weight: of the penalty.
        every: optimiser steps from one to the next at which it is added.
    """

    layer: int
    share: float = 0.25
    weight: float = 1.0
    every: int = 10

    def __post_init__(self) -> None:
        check_at_least(1, layer=self.layer, every=self.every)
        if not 0 < self.share <= 1:
            raise UserError(f"share: expected more than 0 and at most 1, found {self.share}.")

    def chart(
        self, hidden: Float[Tensor, "batch length width"], is_token: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch starts ends"]:
        """|orth(h_end, h_{start-1})| of tokens from 0 on; 0 for start 0, and for an end that follows the last token.

        `hidden` is of one layer, without the state of the beginning.
        """
        with torch.autocast(hidden.device.type, enabled=False):
            shared = hidden[..., : max(1, int(self.share * hidden.size(-1)))]
            states = shared.to(torch.promote_types(shared.dtype, torch.float32)).masked_fill(~is_token[..., None], 0)
            along = F.normalize(states, dim=-1) @ states.mT
            squares = states.square().sum(-1)[:, None] - along.square()
            return F.pad(squares.clamp_min(SMALLEST).sqrt(), (0, 1, 1, 0)) * F.pad(is_token, (0, 1))[:, None]

    def __call__(
        self, chart: Float[Tensor, "batch starts ends"], cuts: Int[Tensor, "cuts 6"], sentences: int
    ) -> Float[Tensor, ""]:
        """L_TR, nats, of a number of sentences.

        Cuts are row, start, cut, end, number of the span, and 1 at the tree's cut; see `possible_cuts`.
        """
        rows, starts, middles, ends, spans, is_gold = cuts.unbind(1)
        scores = scores_of_cuts(chart, rows, starts, middles, ends)
        # by span, with room for as many spans as cuts: their number, read here, would be waited for on a GPU
        none = torch.zeros_like(scores)
        exists = none.index_add(0, spans, is_gold.to(none.dtype))
        largest = (none.detach() - torch.inf).scatter_reduce(0, spans, scores.detach(), "amax")
        largest = largest.masked_fill(exists == 0, 0)
        sums = (1 - exists).index_add(0, spans, (scores - largest[spans]).exp())
        gold = none.index_add(0, spans, scores * is_gold)
        sentence = torch.zeros_like(rows).index_add(0, spans, rows * is_gold)
        of_sentence = scores.new_zeros(sentences).index_add(0, sentence, exists)
        share = exists / of_sentence[sentence].clamp_min(1)
        return ((largest + sums.log() - gold) * share).sum() / sentences


def scores_of_cuts(
    chart: Float[Tensor, "batch starts ends"],
    rows: Int[Tensor, " cuts"],
    starts: Int[Tensor, " cuts"],
    middles: Int[Tensor, " cuts"],
    ends: Int[Tensor, " cuts"],
) -> Float[Tensor, " cuts"]:
    """SCIN(start, middle - 1) + SCIN(middle, end - 1) of cuts before `middle`."""
    left = chart[rows, starts, middles - 1] + chart[rows, middles, middles]
    return left + chart[rows, middles, ends - 1] + chart[rows, ends, ends]


def possible_cuts(
    spans: Sequence[Span], starts: Bool[np.ndarray, " tokens"], *, row: int = 0, first: int = 0
) -> Int[np.ndarray, "cuts 6"]:
    """All cuts between words of the spans that have two or more; see `TreeRegularization.__call__`.

    The spans are of a binary tree of the tokens. `starts` says whether each token is the first of a word; `row` is the
    sentence's, `first` the number of its first span.

    >>> possible_cuts([(0, 3), (1, 3)], np.array([True, True, True]))[:, 1:].tolist()
    [[0, 1, 3, 0, 1], [0, 2, 3, 0, 0]]
    """
    rows: list[tuple[int, ...]] = []
    for start, middle, end in cuts_of(spans):
        cuts = [cut for cut in range(start + 1, end) if starts[cut]]
        if len(cuts) > 1:
            rows += [(row, start, cut, end, first, int(cut == middle)) for cut in cuts]
            first += 1
    return np.array(rows, dtype=np.int64).reshape(-1, 6)


def bracketing_of_chart(chart: Float[Tensor, "starts ends"], starts: Bool[np.ndarray, " tokens"]) -> list[Span]:
    """The spans of words in the tree that is cut, from the top down, where the score is highest."""
    spans, waiting = list[Span](), [(0, len(starts))]
    while waiting:
        start, end = waiting.pop()
        cuts = torch.tensor([cut for cut in range(start + 1, end) if starts[cut]], dtype=torch.long)
        if len(cuts):
            scores = scores_of_cuts(chart[None], 0 * cuts, 0 * cuts + start, cuts, 0 * cuts + end)
            middle = int(cuts[scores.argmax()])
            spans.append((start, end))
            waiting += [(start, middle), (middle, end)]
    return sorted(spans)
