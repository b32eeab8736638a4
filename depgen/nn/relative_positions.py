"""Relative positions in causal attention: distances between tokens in the scores, as in Transformer-XL.

Eq. of section 3.3 in Dai et al. (2019), with queries q, keys k, sinusoids r of distances and trained u, v and W:

    score of query i and key j = ((q_i + u)·k_j + (q_i + v)·W r_{i-j}) / √size

The first product is that of any attention whose queries have the bias u. This file adds the second.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from depgen.nn.attention import KeyValues
from depgen.nn.positions import SinusoidalPositions
from depgen.nn.stack_attention import FARTHEST, StackAttention

LayerScores = Callable[[int, Tensor, KeyValues], Tensor | None]
"""From a layer, its queries and its keys to what is added to the scaled scores."""


@dataclass(frozen=True)
class RelativeScores:
    """The scores of distances in one pass of a network.

    Attributes:
        position_keys: W r/√size of each layer, by falling distance, down to 0 and -1: at least the number of keys.
        bias: v - u. Queries come with u, and (q + v)·p = (q + u)·p + (v - u)·p.
        distances: of each query to each key, where padding lies between tokens; None: as the columns say.
        farthest: the largest of these distances, where they do not count tokens; None: as many as there are keys.
    """

    position_keys: tuple[Float[Tensor, "attention_heads distances size"], ...]
    bias: Float[Tensor, "attention_heads size"]
    distances: Int[Tensor, "batch length context"] | None
    farthest: int | None = None

    def scores(
        self, layer: int, queries: Float[Tensor, "batch attention_heads length size"], context: int
    ) -> Float[Tensor, "batch attention_heads length context"]:
        """(q + v)·W r/√size of the last queries and all `context` keys; anything finite where a key comes later.

        One product of queries and distances, which a shift of rows turns into one of queries and keys: never a vector
        for each query and key. `queries` come with u added.
        """
        batch, heads, length, size = queries.shape
        span = context if self.farthest is None else self.farthest + 1
        known = self.position_keys[layer][:, -span - 1 :].to(queries.dtype).transpose(1, 2)
        bias = self.bias[:, None].to(queries.dtype) @ known
        by_distance = torch.baddbmm(bias, queries.transpose(0, 1).reshape(heads, batch * length, size), known)
        by_distance = by_distance.view(heads, batch, length, span + 1)
        if self.distances is None:
            scores = shifted(by_distance)
        else:
            columns = (span - 1 - self.distances).expand(heads, -1, -1, -1)
            scores = by_distance.gather(-1, columns)
        return scores.transpose(0, 1)

    def added_to(self, others: LayerScores | None) -> LayerScores:
        """These scores and those of another function, if any."""

        def scores(layer: int, queries: Tensor, keys: KeyValues) -> Tensor:
            other = None if others is None else others(layer, queries, keys)
            own = self.scores(layer, queries, keys.context)
            return own if other is None else own + other

        return scores


def shifted(by_distance: Float[Tensor, "*rows length distances"]) -> Float[Tensor, "*rows length distances-1"]:
    """Scores by key from scores by falling distance; what comes after a query's own key is of no meaning.

    The last query has its largest distance in column 0, each earlier query one column later. The last column, of which
    nothing is used, makes this a shift of the start in memory.

    >>> shifted(torch.tensor([[2.0, 1.0, 0.0, -1.0], [2.0, 1.0, 0.0, -1.0]]))
    tensor([[ 1.,  0., -1.],
            [ 2.,  1.,  0.]])
    """
    length, distances = by_distance.shape[-2:]
    flat = by_distance.flatten(-2)[..., length - 1 : length * distances - 1]
    return flat.view(*by_distance.shape[:-1], distances - 1)


class RelativePositions(nn.Module):
    """What relative positions train: two biases that all layers share, and a matrix in each layer."""

    def __init__(self, width: int, attention_heads: int, *, layers: int) -> None:
        super().__init__()
        self.content_bias = nn.Parameter(torch.zeros(attention_heads, width // attention_heads))
        self.position_bias = nn.Parameter(torch.zeros(attention_heads, width // attention_heads))
        self.projections = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.sinusoids = SinusoidalPositions(width, fairseq=False)

    def projection(self, layer: int) -> nn.Linear:
        """W of a layer (0-based)."""
        return cast(nn.Linear, self.projections[layer])

    def forward(
        self,
        length: int,
        context: int,
        *,
        padding: Bool[Tensor, "batch context"] | None = None,
        known: tuple[Tensor, ...] | None = None,
        stack: StackAttention | None = None,
    ) -> RelativeScores:
        """The scores of the last `length` of `context` positions.

        Args:
            length: number of queries.
            context: number of keys.
            padding: positions that are no tokens and are not counted; not needed where they are at either end.
            known: position keys of an earlier pass of the same text, used as far as they reach.
            stack: gives distances that do not count tokens.
        """
        bias = self.position_bias - self.content_bias
        if stack is not None:
            known = self._position_keys(FARTHEST + 1) if known is None else known
            return RelativeScores(known, bias, stack.distances, FARTHEST)
        if known is None:
            known = self._position_keys(context)
        elif known[0].size(1) <= context:
            known = self._position_keys(2 * context)  # for as many tokens again
        distances = None if padding is None else token_distances(padding, length)
        return RelativeScores(known, bias, distances)

    def _position_keys(self, largest: int) -> tuple[Tensor, ...]:
        """W r/√size of each layer for distances `largest` - 1 … 0 and -1."""
        heads, size = self.content_bias.shape
        distances = torch.arange(largest - 1, -2, -1, device=self.content_bias.device)
        sinusoids = self.sinusoids(distances.abs()[None], stop=largest + 1)[0] * size**-0.5
        sinusoids[-1, : sinusoids.size(1) // 2] *= -1  # the sines of -1
        return tuple(projection(sinusoids).view(-1, heads, size).transpose(0, 1) for projection in self.projections)


def token_distances(padding: Bool[Tensor, "batch context"], length: int) -> Int[Tensor, "batch {length} context"]:
    """How many tokens each key of a row comes before each of the last `length` positions; of no meaning at padding.

    >>> token_distances(torch.tensor([[False, True, False]]), 1)
    tensor([[[1, 1, 0]]])
    """
    positions = (~padding).cumsum(1)
    return (positions[:, -length:, None] - positions[:, None]).clamp_min(0)
