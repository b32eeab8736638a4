"""Attention whose heads compete for each pair of words, as layers of a dependency graph network.

Shen, Tan, Sordoni, Li, Zhou & Courville (2022), Eq. 7 to 15. Each pair (i, j) of words shares out one unit of attention
among the heads, so that heads become kinds of dependency; how much of it flows at all is said by a mask between words.
Nothing is normalised over keys: fused attention kernels do not apply, and any order of the pairs is as good.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from depgen.nn.dropout import dropped


class Competition(NamedTuple):
    """What a layer returns.

    Attributes:
        output: to be added to the residual.
        before: the heads' shares of each pair, before the mask and dropout.
    """

    output: Float[Tensor, "batch length width"]
    before: Float[Tensor, "batch attention_heads queries keys"]


class CompetitiveAttention(nn.Module):
    """One layer: competitive controller, gated values, output projection.

    Args:
        width: of the word states.
        attention_heads: kinds of dependency (K).
        head_size: of queries, keys and values of each; the inner width is `attention_heads * head_size`.
        dropout: before and after the output projection.
        attention_dropout: of the masked weights, each (query, key, head) by itself.
        competition: heads share out each pair by a softmax; false: each weighs it by a sigmoid of its own.
        gates: a gate of the query multiplies each head's sum (Eq. 8).
        nonlinear: values pass through tanh.
        relative_bias: two numbers a head, for keys on the left and on the right of the query (Eq. 12).
        scaled_bias: that bias is divided by the square root of the head size too, as in the authors' code; the paper
            adds it after the scaling.
    """

    def __init__(
        self,
        width: int,
        *,
        attention_heads: int,
        head_size: int,
        dropout: float = 0.2,
        attention_dropout: float = 0.1,
        competition: bool = True,
        gates: bool = True,
        nonlinear: bool = True,
        relative_bias: bool = True,
        scaled_bias: bool = True,
    ) -> None:
        super().__init__()
        self.attention_heads, self.head_size = attention_heads, head_size
        self.dropout, self.attention_dropout = dropout, attention_dropout
        self.competition, self.gates, self.nonlinear = competition, gates, nonlinear
        self.scaled_bias = scaled_bias
        inner = attention_heads * head_size
        self.projection = nn.Linear(width, (3 + gates) * inner)
        self.output = nn.Linear(inner, width)
        for linear in (self.projection, self.output):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
        self.direction_bias: nn.Parameter | None = None
        if relative_bias:
            self.direction_bias = nn.Parameter(torch.empty(2, attention_heads).uniform_(-0.1, 0.1))

    def forward(
        self,
        states: Float[Tensor, "batch length width"],
        mask: Float[Tensor, "batch queries keys"],
        *,
        directions: Float[Tensor, "2 queries keys"] | None = None,
    ) -> Competition:
        """What each word gathers.

        Args:
            states: of the words.
            mask: how much may flow from key to query; 0 at keys that are padding.
            directions: 1 where the key is on the left of the query, and where it is on the right (`directions_of`).
        """
        batch, length = states.shape[:2]
        heads, size = self.attention_heads, self.head_size
        parts = self.projection(states).view(batch, length, 3 + self.gates, heads, size)
        query, key, value = (part.transpose(1, 2) for part in parts.unbind(2)[:3])  # [B, K, T, d]
        scores = query @ key.mT * size**-0.5  # Eq. 9
        if self.direction_bias is not None:
            if directions is None:
                directions = directions_of(length, like=states)
            bias = torch.einsum("dk,dij->kij", self.direction_bias, directions)
            scores = scores + bias * (size**-0.5 if self.scaled_bias else 1.0)  # Eq. 13
        before = scores.softmax(1) if self.competition else scores.sigmoid()  # Eq. 12
        weights = dropped(before * mask[:, None], self.attention_dropout, training=self.training)  # Eq. 11
        gathered = weights @ (value.tanh() if self.nonlinear else value)  # Eq. 14
        gathered = gathered.transpose(1, 2)  # [B, T, K, d]
        if self.gates:
            gathered = gathered * parts[:, :, 3].sigmoid()  # Eq. 8
        inner = dropped(gathered.reshape(batch, length, heads * size), self.dropout, training=self.training)
        return Competition(dropped(self.output(inner), self.dropout, training=self.training), before)


def directions_of(length: int, *, like: Tensor) -> Float[Tensor, "2 queries keys"]:
    """1 where the key is on the left of the query, and where it is on the right; 0 on the diagonal."""
    ones = like.new_ones(length, length)
    return torch.stack((ones.tril(-1), ones.triu(1)))
