"""Self-attention of one head that weighs a mixture, for networks that have no attention of their own."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from depgen.nn.band import band_of_values, band_products
from depgen.nn.growing import Growing
from depgen.nn.vocabulary import full_precision


@dataclass(frozen=True)
class SeenKeys:
    """The keys that later queries may look at.

    Attributes:
        keys: one a position, [batch position width].
        padding: True at positions that are no tokens, [batch position].
    """

    keys: Growing
    padding: Growing

    def select(self, rows: Int[Tensor, " kept"]) -> "SeenKeys":
        """The keys of some rows of the batch."""
        return SeenKeys(self.keys.select(rows), self.padding.select(rows))

    def extended(self, other: "SeenKeys") -> "SeenKeys":
        """These and later ones."""
        return SeenKeys(self.keys.extended(other.keys.tensor), self.padding.extended(other.padding.tensor))

    def last(self, count: int) -> "SeenKeys":
        """The latest, at most `count`."""
        return SeenKeys(self.keys.last(count), self.padding.last(count))


class QueryKeyAttention(nn.Module):
    """a^(t) = softmax over tau of (W_Q h_t + b_Q) . (W_K h_tau + b_K) / sqrt(width), Eq. 2 of Yang & Wan (2022).

    Weights are drawn from U(-0.1, 0.1); the biases, which Eq. 2 lacks and the authors' code has, begin at zero.

    Args:
        width: of the hidden states, and of queries and keys.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        for projection in (self.query, self.key):
            nn.init.uniform_(projection.weight, -0.1, 0.1)
            nn.init.zeros_(projection.bias)

    def forward(
        self,
        hidden: Float[Tensor, "batch length width"],
        *,
        padding: Bool[Tensor, "batch length"] | None = None,
        past: SeenKeys | None = None,
        window: int | None = None,
    ) -> tuple[Float[Tensor, "batch length reach"], SeenKeys]:
        """Log-weights in fp32 over the positions up to each, very low where it can't look; and the keys to go on with.

        Rows run over all positions, those of `past` first; with a window, over the band of `depgen.nn.band`.

        Args:
            hidden: states of the positions that come after `past`.
            padding: True at positions that are no tokens.
            past: what an earlier call returned.
            window: look at the last so many positions only, the present one included; None: at all.
        """
        if padding is None:
            padding = torch.zeros(hidden.shape[:2], dtype=torch.bool, device=hidden.device)
        present = SeenKeys(Growing.of(self.key(hidden), dim=1), Growing.of(padding, dim=1))
        seen = present if past is None else past.extended(present)
        keys, hidden_keys = seen.keys.tensor, seen.padding.tensor
        queries, length, context = self.query(hidden), hidden.size(1), keys.size(1)
        if window is None:
            scores = queries @ keys.mT
            distance = torch.arange(context - length, context, device=hidden.device)[:, None] - torch.arange(
                context, device=hidden.device
            )
            masked = (distance < 0) | (hidden_keys[:, None] & (distance != 0))  # a position always sees itself
        else:
            scores = band_products(queries, keys, window)
            masked = band_of_values(hidden_keys, length, window, missing=True).clone()
            masked[..., -1] = False  # a position always sees itself
            seen = seen.last(window)
        scores = full_precision(scores) / math.sqrt(keys.size(-1))
        return scores.masked_fill(masked, torch.finfo(scores.dtype).min / 4).log_softmax(-1), seen
