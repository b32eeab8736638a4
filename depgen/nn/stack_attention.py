"""Attention to what is on a stack, with positions by depth: of systems that write a tree as a string of actions.

An action that completes a constituent is read twice. The first copy (COMPOSE) sees what it joins, takes it off the
stack and is put there in its place. The second copy (STACK) sees the stack, predicts what comes next and is not put on
it. All else sees the stack and is put on it. Every position sees itself. As in Transformer Grammars (Sartran et al.,
2022) and Dependency Transformer Grammars (Zhao et al., 2024).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

NEAREST, FARTHEST = -1, 62
"""Distances are clipped to these."""


@dataclass(frozen=True)
class StackAttention:
    """Which keys each query sees and how far they are, in place of all that come before it.

    Attributes:
        visible: every query sees one key at least.
        distances: from `NEAREST` to `FARTHEST`.
    """

    visible: Bool[Tensor, "batch length context"]
    distances: Int[Tensor, "batch length context"]


def stack_attention(
    popped: Int[Tensor, "batch length"],
    composes: Bool[Tensor, "batch length"],
    depths: Int[Tensor, "batch length"],
    *,
    composed_distances: Int[Tensor, "batch length"] | None = None,
) -> StackAttention:
    """The attention of whole strings.

    Args:
        popped: the position of the COMPOSE that takes each position off the stack; the number of positions or more for
            one that stays there; its own for one that is not put there, as a STACK copy and padding.
        composes: True at COMPOSE.
        depths: distances are the query's depth less the key's.
        composed_distances: of each position from the COMPOSE that takes it off; None: as the depths say.

    >>> popped = torch.tensor([[9, 3, 3, 9, 4]])  # <bos> a b COMPOSE STACK
    >>> found = stack_attention(popped, torch.tensor([[False, False, False, True, False]]),
    ...                         torch.tensor([[0, 1, 2, 1, 1]]))
    >>> found.visible[0].int().tolist()
    [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [1, 0, 0, 1, 1]]
    >>> found.distances[0, 3].tolist(), found.distances[0, 4].tolist()
    ([1, 0, -1, 0, 0], [1, 0, -1, 0, 0])
    """
    places = torch.arange(popped.size(1), device=popped.device)
    queries, until = places[:, None], popped[:, None]
    joined = composes[:, :, None] & (until == queries)
    on_stack = ~composes[:, :, None] & (until > queries)
    visible = ((places < queries) & (joined | on_stack)) | (places == queries)
    distances = depths[:, :, None] - depths[:, None]
    if composed_distances is not None:
        distances = torch.where(joined, composed_distances[:, None], distances)
    return StackAttention(visible, distances.clamp(NEAREST, FARTHEST))
