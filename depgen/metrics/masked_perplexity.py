"""Pseudo-perplexity under random masks, over a whole split.

Each pass masks words anew; its loss is the mean over its masked words, and the figure is exp of the mean over passes
(the mean of the logarithms, not of the perplexities), as the code of Shen et al. (2022) has it. It is a score of masked
words given all others, not a likelihood of a sentence, and compares with no perplexity of a left-to-right model.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric


class MaskedPerplexity(Metric):  # type: ignore[misc]
    """exp of the mean over passes of nll / masked words, over everything seen since the last reset, on all devices.

    Sums are kept in float64 and counts in int64, both added up over processes before any division. A pass that has
    masked nothing is left out; NaN where none has masked anything.

    Args:
        passes: how often every sentence is masked anew.
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    nll_sum: Tensor
    words: Tensor

    def __init__(self, passes: int) -> None:
        super().__init__()
        self.add_state("nll_sum", torch.zeros(passes, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("words", torch.zeros(passes, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, nll_sum: Float[Tensor, " passes"], words: Int[Tensor, " passes"]) -> None:
        """Add a batch: the summed nll (nats) of its masked words and how many they are, in each pass."""
        self.nll_sum += nll_sum.double()
        self.words += words

    def nll_per_word(self) -> Float[Tensor, ""]:
        """The mean over passes of nats per masked word, float64."""
        return (self.nll_sum / self.words)[self.words > 0].mean()

    def compute(self) -> Float[Tensor, ""]:
        """The pseudo-perplexity, float64."""
        return torch.exp(self.nll_per_word())
