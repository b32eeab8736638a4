"""Perplexity in log space, over a whole split.

Which tokens count is the caller's part, and the same for every system: the `<eos>` that closes an item is
predicted and counts; the BOS that opens it is given and does not; an unknown word counts as the word `<unk>`;
padding never counts.

`torchmetrics.text.Perplexity` takes `softmax().log()`, which overflows on a single token at 110 nats: hence our own.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric


def perplexity(nll_sum: float, tokens: int) -> float:
    """The perplexity exp(nll_sum / tokens); NaN without any token, inf beyond the range of a float.

    Args:
        nll_sum: summed negative log-likelihood in nats.
        tokens: how many tokens the sum runs over: `<eos>` counts, BOS and padding do not.

    >>> round(perplexity(3 * math.log(7.0), 3), 6)
    7.0
    """
    if tokens == 0:
        return math.nan
    try:
        return math.exp(nll_sum / tokens)
    except OverflowError:
        return math.inf


class Perplexity(Metric):  # type: ignore[misc]
    """exp(summed nll / tokens) over everything seen since the last reset, on all devices.

    `<eos>` counts as a token, BOS does not, an unknown word counts as the word `<unk>`, padding does not count.
    The sum is kept in float64 and the counts in int64; both are added up over processes before the division, so the
    figure does not depend on batch size, padding or number of devices.
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    nll_sum: Tensor
    tokens: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("nll_sum", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("tokens", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, nll_sum: Float[Tensor, ""] | float, tokens: Int[Tensor, ""] | int) -> None:
        """Add the tokens of a batch.

        Args:
            nll_sum: their summed negative log-likelihood in nats (best summed in float64 or float32).
            tokens: how many they are, `<eos>` counted, BOS and padding not.
        """
        self.nll_sum += nll_sum.double() if isinstance(nll_sum, Tensor) else nll_sum
        self.tokens += tokens

    def compute(self) -> Float[Tensor, ""]:
        """The perplexity, float64; NaN without any token."""
        return torch.exp(self.nll_per_token())

    def nll_per_token(self) -> Float[Tensor, ""]:
        """Nats per token of what this process has seen, float64; NaN without any token."""
        return self.nll_sum / self.tokens
