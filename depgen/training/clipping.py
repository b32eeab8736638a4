"""Gradient norms clipped group by group, for systems with parts that are clipped apart."""

from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from depgen.errors import UserError


def check_clips(groups: list[Any]) -> None:
    """Refuse a group's `clip` that is not a number above 0, before the optimiser is made.

    Raises:
        UserError: it is something else.
    """
    for number, group in enumerate(groups):
        clip = group.get("clip") if isinstance(group, dict) else None
        if clip is not None and not clip > 0:
            raise UserError(f"parameter group {number}: expected a clip above 0, found {clip}.")


def clips_by_group(optimizer: Optimizer) -> bool:
    """Whether some group brings its `clip` and the optimiser does not clip by itself, as ClippedAdagrad does."""
    own = "clip" in optimizer.defaults
    return not own and any(group.get("clip") is not None for group in optimizer.param_groups)


def clip_groups(optimizer: Optimizer, *, others: float | None = None) -> None:
    """Bring the gradient norm of each group with a `clip` down to it.

    Args:
        optimizer: whose groups.
        others: largest norm of the gradient of all other groups together; None for any.
    """
    rest: list[Tensor] = []
    for group in optimizer.param_groups:
        if group.get("clip") is None:
            rest += group["params"]
        else:
            torch.nn.utils.clip_grad_norm_(group["params"], group["clip"])
    if others and rest:
        torch.nn.utils.clip_grad_norm_(rest, others)
