"""A learned gate between a mixture over all positions and a softmax of the present one."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class MixtureGate(nn.Module):
    """g_t = sigmoid(w . h_t + b), the mixture's share, and a projection of h_t for the softmax that has the rest.

    Initially g_t is one half and the projection the identity, so that the softmax is the mixture's own last component.

    Args:
        width: size of the hidden states.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.share, self.projection = nn.Linear(width, 1), nn.Linear(width, width, bias=False)
        nn.init.zeros_(self.share.weight)
        nn.init.zeros_(self.share.bias)
        nn.init.eye_(self.projection.weight)

    def forward(
        self, hidden: Float[Tensor, "batch length width"]
    ) -> tuple[Float[Tensor, "batch length"], Float[Tensor, "batch length"], Float[Tensor, "batch length width"]]:
        """Log g_t and log (1 - g_t) in fp32, and the states of the plain softmax.

        >>> mixture, plain, states = MixtureGate(2)(torch.ones(1, 1, 2))
        >>> round(mixture.exp().item(), 6), round(plain.exp().item(), 6), states.tolist()
        (0.5, 0.5, [[[1.0, 1.0]]])
        """
        score = self.share(hidden)[..., 0]
        score = score if score.dtype == torch.float64 else score.float()
        return F.logsigmoid(score), F.logsigmoid(-score), self.projection(hidden)

    def mixed(
        self,
        log_mixture_probs: Float[Tensor, "batch length *vocab"],
        hidden: Float[Tensor, "batch length width"],
        plain: Callable[[Tensor], Tensor],
    ) -> Float[Tensor, "batch length *vocab"]:
        """log(g_t p_mixture + (1 - g_t) p_plain).

        Args:
            log_mixture_probs: log p_mixture of targets, or of all words.
            hidden: h_t.
            plain: from projected states to log p_plain, shaped like `log_mixture_probs`.
        """
        log_mixture, log_plain, states = self(hidden)
        if log_mixture_probs.dim() > log_mixture.dim():
            log_mixture, log_plain = log_mixture[..., None], log_plain[..., None]
        return torch.logaddexp(log_mixture + log_mixture_probs, log_plain + plain(states))
