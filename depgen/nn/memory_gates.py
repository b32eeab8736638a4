"""How far back a memory of the last tokens is open, by syntactic distances, and attention within what is open."""

from jaxtyping import Float
from torch import Tensor


def open_slots(
    distances: Float[Tensor, "batch length"],
    known: Float[Tensor, "batch known"],
    *,
    slots: int,
    resolution: float,
    hard: bool,
    equal_gate: float = 1.0,
) -> Float[Tensor, "batch length slots"]:
    """How open each slot is to each token, oldest slot first: g_{t,k} = prod_{j <= k} alpha_{t,j}.

    Args:
        distances: d_t, or d^_{t+1} for what predicts the next token.
        known: the distances of `slots` tokens before the first, and of all tokens.
        slots: of the memory.
        resolution: tau.
        hard: by a clipped line, else by a sigmoid.
        equal_gate: alpha between equal distances, of the hard gate.

    >>> import torch
    >>> known = torch.tensor([[torch.inf, 0.9, 0.2, 0.5]])
    >>> open_slots(known[:, 2:], known, slots=2, resolution=0.1, hard=True).tolist()
    [[[0.0, 1.0], [1.0, 1.0]]]
    """
    nearest_first = known.unfold(1, slots, 1)[:, 1:].flip(-1)  # d_t, d_{t-1}, ...
    differences = (distances[..., None] - nearest_first) / resolution
    reach = differences + equal_gate
    alpha = reach.clamp(0, 1) if hard else (10 * reach - 5).sigmoid()  # alpha_{t,k}, of (d_t - d_{t-k}) / tau
    return alpha.cumprod(-1).flip(-1)  # g_{t,k} = prod_{j <= k} alpha_{t,j}


def gated_softmax(
    scores: Float[Tensor, "*batch slots"], gates: Float[Tensor, "*batch slots"]
) -> Float[Tensor, "*batch slots"]:
    """s_k = g_k exp(e_k) / sum_j g_j exp(e_j); zero where all slots are closed.

    >>> import torch
    >>> gated_softmax(torch.zeros(3), torch.tensor([0.0, 1.0, 1.0])).tolist()
    [0.0, 0.5, 0.5]
    """
    weights = gates * (scores - scores.detach().amax(-1, keepdim=True)).exp()
    return weights / (weights.sum(-1, keepdim=True) + 1e-8)
