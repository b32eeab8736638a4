"""The scores of single items, and the figures of a whole split: sums in float64 over items and devices.

Which tokens count is the same for every system: the `<eos>` that closes an item is predicted and counts; the BOS that
opens it is given and does not; an unknown word counts as the word `<unk>`; padding never counts.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int, Int64
from torch import Tensor
from torchmetrics.utilities import dim_zero_cat

from depgen.metrics.precise import PreciseMetric
from depgen.nn.precise import precise


@dataclass(frozen=True)
class ItemScores:
    """The scores of a batch of items. Systems that mask words at random score each item in several passes.

    Attributes:
        items: place of each item in its split.
        nll: negative log-likelihood (nats) of each item in each pass.
        tokens: number of tokens that the nats are summed over.
        words: number of words that these tokens spell.
        unknown: number of `<unk>` among the targets of the batch.
        targets: number of targets of the batch.
        of_text: whether the nats are of the text alone; False where a structure that is given takes part in them, so
            that they give no perplexity.
    """

    items: Int[Tensor, " batch"]
    nll: Float[Tensor, "batch passes"]
    tokens: Int[Tensor, "batch passes"]
    words: Int[Tensor, " batch"]
    unknown: Int[Tensor, ""]
    targets: Int[Tensor, ""]
    of_text: bool = True

    def to(self, device: torch.device) -> "ItemScores":
        """The same scores on a device."""
        columns: dict[str, Any] = {
            name: column.to(device) for name, column in vars(self).items() if isinstance(column, Tensor)
        }
        return replace(self, **columns)


class Loss(PreciseMetric):
    """Nats per token of a split; NaN without any token.

    With several passes over the items it is their mean, each pass's nats divided by its own tokens (as in the code of
    Shen et al., 2022); a pass without tokens is left out.
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    nll_sum: Tensor
    tokens: Tensor

    def __init__(self, passes: int = 1) -> None:
        super().__init__()
        self.add_state("nll_sum", torch.zeros(passes, dtype=torch.float64, device=self.device), dist_reduce_fx="sum")
        self.add_state("tokens", torch.zeros(passes, dtype=torch.int64, device=self.device), dist_reduce_fx="sum")

    def update(self, scores: ItemScores) -> None:
        """Add a batch."""
        self.nll_sum += precise(scores.nll).sum(0)
        self.tokens += scores.tokens.sum(0)

    def compute(self) -> Float[Tensor, ""]:
        """Nats per token, float64."""
        return (self.nll_sum / self.tokens)[self.tokens > 0].mean()


class Perplexity(Loss):
    """exp(nats per token) of a split; a perplexity only where all scores are of the text alone.

    `torchmetrics.text.Perplexity` takes `softmax().log()`, which overflows on a single token at 110 nats.
    """

    def compute(self) -> Float[Tensor, ""]:
        """The perplexity, float64; NaN without any token."""
        return super().compute().exp()


class WordPerplexity(Perplexity):
    """exp(nats per word) of a split; equal to `Perplexity` where each token is a word."""

    def update(self, scores: ItemScores) -> None:
        """Add a batch."""
        self.nll_sum += precise(scores.nll).sum(0)
        self.tokens += scores.words.sum()


class UnknownRate(PreciseMetric):
    """The share of a split's targets that are `<unk>`."""

    is_differentiable = False
    full_state_update = False

    unknown: Tensor
    targets: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("unknown", "targets"):
            self.add_state(name, torch.zeros((), dtype=torch.int64, device=self.device), dist_reduce_fx="sum")

    def update(self, scores: ItemScores) -> None:
        """Add a batch."""
        self.unknown += scores.unknown
        self.targets += scores.targets

    def compute(self) -> Float[Tensor, ""]:
        """The share, float64."""
        return self.unknown.double() / self.targets


ItemTable = tuple[
    Int64[np.ndarray, " items"], Float64[np.ndarray, " items"], Int64[np.ndarray, " items"], Int64[np.ndarray, " items"]
]
"""Place in the split, nats, tokens and words of each item, in the order of the split."""


class KeptItems(PreciseMetric):
    """The scores of every item seen since the last reset, over all devices; parts of an item are added up."""

    full_state_update = False

    columns = ("items", "nll", "tokens", "words")

    def __init__(self) -> None:
        super().__init__()
        for name in self.columns:
            self.add_state(name, [], dist_reduce_fx="cat")

    def begin(self) -> None:
        """Forget all items. Columns begin empty but typed, as devices that see no item share theirs with the others."""
        self.reset()
        none = torch.zeros(0, 1, dtype=torch.int64, device=self.device)
        self.update(ItemScores(none[:, 0], none.double(), none, none[:, 0], none.sum(), none.sum()))

    def update(self, scores: ItemScores) -> None:
        """Add a batch."""
        values = (scores.items, precise(scores.nll).sum(1), scores.tokens.sum(1), scores.words)
        for name, value in zip(self.columns, values, strict=True):
            getattr(self, name).append(value)

    def compute(self) -> ItemTable | None:
        """The table of items; None without any."""
        items, nll, tokens, words = (dim_zero_cat(getattr(self, name)) for name in self.columns)
        if not len(items):
            return None
        places, row = np.unique(items.cpu().numpy(), return_inverse=True)
        columns = (column.cpu().numpy() for column in (nll, tokens, words))
        sums = [np.bincount(row, column, len(places)).astype(column.dtype) for column in columns]
        return places, sums[0], sums[1], sums[2]


def perplexity(nll_sum: float, tokens: int) -> float:
    """The perplexity exp(nll_sum / tokens), of nats; NaN without any token, inf beyond the range of a float.

    >>> round(perplexity(3 * math.log(7.0), 3), 6)
    7.0
    """
    if tokens == 0:
        return math.nan
    try:
        return math.exp(nll_sum / tokens)
    except OverflowError:
        return math.inf
