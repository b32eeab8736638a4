"""Rows of unlike length read in groups of like length, so that little of what is computed is padding.

A batch of whole documents holds every sentence of each as a row, and its longest is several times as long as most. A
network that reads each row by itself reads them sorted, some at a time, each lot up to its own longest.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

STEP_OVERHEAD = {"cpu": 32, "cuda": 4096}
"""The fixed cost of a recurrent step, in rows: on a CPU 16 to 43 by measurement, for the LSTM of 2015 of 64
and 128 units with and without gradients; a GPU is busy with launches until there are thousands."""

CALL_OVERHEAD = {"cpu": 2, "cuda": 64}
"""The same for a network that computes all steps of a group at once: the fixed cost of a call, in rows."""


def encode_by_length(
    encode: Callable[[Int[Tensor, " some"], int], Float[Tensor, "some longest size"]],
    lengths: Int[Tensor, " rows"],
    longest: int,
    overheads: Mapping[str, int] = STEP_OVERHEAD,
    *,
    device: torch.device | None = None,
) -> Float[Tensor, "rows {longest} size"]:
    """States of all rows from `encode`, which gets groups of rows of like length; zeros after a group's longest row.

    Args:
        encode: from the numbers of some rows, longest first, and the length of the longest to their states.
        lengths: of the rows; those of length 0 are not read, but one is longer.
        longest: length of what is returned, at least that of the longest row.
        overheads: the fixed cost of a group's step, in rows, by the device.
        device: of the states; None: that of the lengths.
    """
    ordered, order = lengths.sort(descending=True, stable=True)
    descending, device = ordered.tolist(), device or lengths.device
    bounds = group_bounds(descending, overheads.get(device.type, overheads["cuda"]))
    order = order.to(device, non_blocking=True)
    found = []
    for begin, end in pairwise(bounds):
        some = encode(order[begin:end], descending[begin])
        found.append(F.pad(some, (0, 0, 0, longest - some.shape[1])))
    found.append(found[0].new_zeros(len(order) - bounds[-1], *found[0].shape[1:]))
    return torch.cat(found).index_select(0, order.argsort())


def group_bounds(lengths: Sequence[int], overhead: int) -> list[int]:
    """Where groups of rows begin, and where the last one ends, such that reading them costs least.

    A group costs its longest row's length, times its rows and the overhead of a step. O(n^2) in different lengths.

    Args:
        lengths: of the rows, in descending order; those of length 0 are in no group.
        overhead: the fixed cost of a step, in rows.

    >>> group_bounds([9, 9, 3, 2, 2, 0], overhead=1), group_bounds([9, 9, 3, 2, 2, 0], overhead=100)
    ([0, 2, 5], [0, 5])
    """
    descending = np.asarray(lengths)
    ends = np.flatnonzero(np.diff(descending, append=0)) + 1  # rows of one length stay together
    begins = np.concatenate([[0], ends[:-1]])
    cost, chosen = np.zeros(len(ends) + 1), np.zeros(len(ends) + 1, dtype=np.int64)  # of the first k lengths
    for k, end in enumerate(ends.tolist()):
        options = cost[: k + 1] + descending[begins[: k + 1]] * (overhead + end - begins[: k + 1])
        chosen[k + 1] = options.argmin()
        cost[k + 1] = options[chosen[k + 1]]
    bounds, k = [], len(ends)
    while k:
        bounds.append(int(ends[k - 1]))
        k = int(chosen[k])
    return [0, *reversed(bounds)]
