"""Beginnings that items of a batch have in common, which a search goes through once.

A leader is the first of the items that begin alike. It has the hypotheses of them all, until their tokens differ.
"""

from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from depgen.decoding.beam import Beam


def leaders(
    targets: Int[Tensor, "items length"], opens: Bool[Tensor, "items length"], lengths: Int[Tensor, " items"]
) -> Int[Tensor, "items length_and_one"]:
    """Of each item and number of targets, the first item with the same targets up to there, and the same words.

    Args:
        targets: tokens; all items have the same one before them.
        opens: whether the token before each target begins a word.
        lengths: targets of each item; after them an item leads itself.

    >>> all_open = torch.ones(3, 3, dtype=torch.bool)
    >>> leaders(torch.tensor([[5, 6, 0], [5, 7, 0], [5, 7, 0]]), all_open, torch.tensor([3, 3, 3])).tolist()
    [[0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    """
    items, length = targets.shape
    following = torch.nn.functional.pad(opens[:, 1:], (0, 1))
    codes, first, nodes = torch.stack((targets, following), 2).tolist(), {0: 0}, dict[tuple[int, ...], int]()
    found = [[0] + [item] * length for item in range(items)]
    for item, end in enumerate(lengths.tolist()):
        node = 0
        for k in range(end):
            node = nodes.setdefault((node, *codes[item][k], k + 1 == end), len(nodes) + 1)
            found[item][k + 1] = first.setdefault(node, item)
    return torch.tensor(found, device=targets.device).view(items, length + 1)


def divided(beam: Beam[Any], before: Int[Tensor, " items"], after: Int[Tensor, " items"]) -> Beam[Any]:
    """The hypotheses of leaders, as those of the leaders after one more target, in ascending order.

    Args:
        beam: hypotheses of leaders; those that have none are left out.
        before: the leader of each item.
        after: the leader of each item then.
    """
    own = torch.arange(len(after), device=after.device)
    new = own[after == own]
    counts = torch.bincount(beam.items, minlength=len(after))
    sources = before[new]
    if torch.equal(sources, new):
        return beam
    times = counts[sources]
    starts = counts.cumsum(0) - counts
    rows = (starts[sources] - (times.cumsum(0) - times)).repeat_interleave(times)
    rows = rows + torch.arange(len(rows), device=rows.device)
    return Beam(beam.state.select(rows), new.repeat_interleave(times), beam.scores[rows])
