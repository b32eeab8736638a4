"""Scores and sums over pairs of words whose hidden layer is a sum of rows of tables, without holding that layer.

The hidden layer of a pair is

    r = relu(scale * (word + sum_k relative_k) + bias)

with a row of the earlier word and a few rows of a table of relative features. A score is its product with a vector of
the current word. Pairs are computed some at a time; the backward pass computes their hidden layers again, so that
memory is bounded whatever the batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_ELEMENTS = {"cpu": 1 << 19, "cuda": 1 << 26}
"""Elements of hidden layers computed at once: 2 MiB in fp32 stay in a CPU's caches, 256 MiB fill a GPU."""


@dataclass(frozen=True)
class Pairs:
    """An entry a pair.

    Attributes:
        current: the number of the current word.
        earlier: the row of the earlier word in the table of words.
        codes: the rows of the pair's features in the table of relative features.
    """

    current: Int[Tensor, " pairs"]
    earlier: Int[Tensor, " pairs"]
    codes: Int[Tensor, "pairs features"]

    def __len__(self) -> int:
        return self.current.size(0)

    def part(self, rows: slice) -> "Pairs":
        """Some of the pairs."""
        return Pairs(self.current[rows], self.earlier[rows], self.codes[rows])


def pair_scores(
    words: Float[Tensor, "words hidden"],
    relative: Float[Tensor, "codes hidden"],
    bias: Float[Tensor, " hidden"],
    *,
    scale: Float[Tensor, " pairs"],
    queries: Float[Tensor, "current hidden"],
    pairs: Pairs,
) -> tuple[Float[Tensor, " pairs"], Float[Tensor, "current hidden"]]:
    """The product of each pair's hidden layer with its current word's query, and the sum of each current word's layers.

    Memory is O(`CHUNK_ELEMENTS`) beyond arguments and results, in the backward pass too, which costs a second forward
    pass. No gradient of second order.

    Args:
        words: a row for each word that is the earlier one of a pair.
        relative: a row for each code.
        bias: of the hidden layer.
        scale: of each pair.
        queries: a row for each current word.
        pairs: which rows belong to which pair.

    >>> pairs = Pairs(torch.tensor([0, 0]), torch.tensor([0, 1]), torch.tensor([[0], [0]]))
    >>> words, ones = torch.tensor([[1.0, -3.0], [2.0, 5.0]]), torch.ones(2)
    >>> pair_scores(words, torch.ones(1, 2), -ones, scale=ones, queries=torch.tensor([[1.0, 10.0]]), pairs=pairs)
    (tensor([ 1., 52.]), tensor([[3., 5.]]))
    """
    scores, sums = _PairScores.apply(words, relative, bias, scale, queries, pairs)  # type: ignore[no-untyped-call]
    return scores, sums


class _PairScores(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        words: Tensor,
        relative: Tensor,
        bias: Tensor,
        scale: Tensor,
        queries: Tensor,
        pairs: Pairs,
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(words, relative, bias, scale, queries)
        ctx.pairs = pairs
        scores, sums = torch.empty_like(scale), torch.zeros_like(queries)
        for rows, part in _parts(pairs, words):
            hidden = _hidden(words, relative, bias, scale[rows], part)
            sums.index_add_(0, part.current, hidden)
            torch.sum(hidden.mul_(queries.index_select(0, part.current)), -1, out=scores[rows])
        return scores, sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_scores: Tensor, of_sums: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        words, relative, bias, scale, queries = ctx.saved_tensors
        d_words, d_relative, d_bias, d_queries = (torch.zeros_like(each) for each in (words, relative, bias, queries))
        d_scale = torch.empty_like(scale)
        for rows, part in _parts(ctx.pairs, words):
            hidden = _hidden(words, relative, bias, scale[rows], part)
            d_hidden = queries.index_select(0, part.current).mul_(of_scores[rows, None])
            d_hidden.add_(of_sums.index_select(0, part.current))
            torch.ops.aten.threshold_backward.grad_input(d_hidden, hidden, 0, grad_input=d_hidden)
            d_bias += d_hidden.sum(0)
            # where the gradient is not 0, hidden = scale * sum + bias
            d_scale[rows] = ((d_hidden * hidden).sum(-1) - d_hidden @ bias) / scale[rows]
            d_queries.index_add_(0, part.current, hidden.mul_(of_scores[rows, None]))
            d_hidden.mul_(scale[rows, None])
            d_words.index_add_(0, part.earlier, d_hidden)
            for codes in part.codes.unbind(1):
                d_relative.index_add_(0, codes, d_hidden)
        return d_words, d_relative, d_bias, d_scale, d_queries, None


def _hidden(words: Tensor, relative: Tensor, bias: Tensor, scale: Tensor, pairs: Pairs) -> Tensor:
    """The hidden layer of each pair."""
    summed = F.embedding_bag(pairs.codes, relative, mode="sum").add_(words.index_select(0, pairs.earlier))
    return summed.mul_(scale[:, None]).add_(bias).relu_()


def _parts(pairs: Pairs, words: Tensor) -> Iterator[tuple[slice, Pairs]]:
    """Pairs in lots of at most `CHUNK_ELEMENTS` of hidden layers, and where each lot lies."""
    step = max(1, CHUNK_ELEMENTS.get(words.device.type, 1 << 24) // words.size(1))
    for first in range(0, len(pairs), step):
        rows = slice(first, min(first + step, len(pairs)))
        yield rows, pairs.part(rows)
