"""Gradient norms clipped group by group, for systems with parts that are clipped apart."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from depgen.errors import UserError


def clips_by_group(optimizer: Optimizer) -> bool:
    """Whether some group brings its `clip` and the optimiser does not clip by itself, as ClippedAdagrad does."""
    own = "clip" in optimizer.defaults
    return not own and any(group.get("clip") is not None for group in optimizer.param_groups)


def clip_groups(optimizer: Optimizer, *, others: float | None = None) -> None:
    """Bring the gradient norm of each group with a `clip` down to it, of groups with the same `clip_name` together.

    Args:
        optimizer: whose groups.
        others: largest norm of the gradient of all other groups together; None for any.
    """
    parts: dict[object, list[Tensor]] = {}
    limits: dict[object, float | None] = {None: others}
    for number, group in enumerate(optimizer.param_groups):
        part = None if group.get("clip") is None else group.get("clip_name") or number
        parts.setdefault(part, []).extend(group["params"])
        limits.setdefault(part, group.get("clip"))
    for part, parameters in parts.items():
        if limit := limits[part]:
            torch.nn.utils.clip_grad_norm_(parameters, limit)


def groups_of_parts(
    parameters: Sequence[nn.Parameter],
    parts: Mapping[str, nn.Module],
    rates: Mapping[str, float | None],
    *,
    clip: float | None,
    clipped_apart: str,
) -> list[dict[str, Any]]:
    """Parameter groups of an optimiser: all that is in no part, then each part; none is empty.

    Args:
        parameters: those that are trained.
        parts: of the network, by name; no two share a parameter.
        rates: the learning rate of a part; None: the optimiser's.
        clip: the largest norm of the gradients, of one part and of all others together; None: the trainer's.
        clipped_apart: that part.

    Raises:
        UserError: the clip is no norm.
    """
    if clip is not None and not clip > 0:
        raise UserError(f"clip: expected a norm above 0, found {clip}.")
    part_of = {id(parameter): name for name, part in parts.items() for parameter in part.parameters()}
    groups = []
    for name in ("", *parts):
        members = [parameter for parameter in parameters if part_of.get(id(parameter), "") == name]
        clips = {} if clip is None else {"clip": clip, "clip_name": name if name == clipped_apart else "others"}
        rate = {} if rates.get(name) is None else {"lr": rates[name]}
        groups.append({"params": members, **clips, **rate})
    return [group for group in groups if group["params"]]
