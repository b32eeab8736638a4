"""Lengths of padded rows as masks, and texts moved to the left of their rows."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor


def mask_of(
    lengths: Int[Tensor, "*rows"], longest: int, *, device: torch.device | None = None
) -> Bool[Tensor, "*rows longest"]:
    """True at the first `lengths` of `longest` places of each row, False at padding; by default where the lengths lie.

    >>> mask_of(torch.tensor([2, 0]), 3).tolist()
    [[True, True, False], [False, False, False]]
    """
    lengths = lengths.to(device or lengths.device, non_blocking=True)
    return torch.arange(longest, device=lengths.device) < lengths[..., None]


@dataclass(frozen=True)
class LeftAligned:
    """Moves texts to the left of their rows, so that a network from left to right meets padding only after them.

    Attributes:
        padding: True where the texts, as given, have no token, at either end; None: nowhere.
        kept: True at tokens once they are moved.
        places: of the tokens among all positions, row by row, once they are moved.
    """

    padding: Bool[Tensor, "batch length"] | None = None
    kept: Bool[Tensor, "batch length"] | None = None
    places: Int[Tensor, " tokens"] | None = None

    @classmethod
    def of(cls, padding: Bool[Tensor, "batch length"] | None, device: torch.device) -> "LeftAligned":
        """The places that belong to a padding, on a device; a GPU is waited for where the padding lies on it."""
        if padding is None:
            return cls()
        kept = mask_of((~padding).sum(1), padding.size(1))
        places = kept.flatten().nonzero()[:, 0]
        return cls(*(each.to(device, non_blocking=True) for each in (padding, kept, places)))

    def moved(self, tokens: Shaped[Tensor, "batch length *width"]) -> Shaped[Tensor, "batch length *width"]:
        """The texts at the left, ids or vectors; what comes after them is without meaning."""
        if self.padding is None:
            return tokens
        positions = self._positions(1)
        return tokens.gather(1, positions.view(*positions.shape, *[1] * (tokens.dim() - 2)).expand_as(tokens))

    def returned(self, values: Shaped[Tensor, "batch length width"]) -> Shaped[Tensor, "batch length width"]:
        """Values of moved texts, moved back to the places where the texts were; zero at padding."""
        if self.padding is None:
            return values
        back = self._positions(-1)[..., None].expand_as(values)
        return values.gather(1, back).masked_fill(self.padding[..., None], 0)

    def last(self, history: Shaped[Tensor, "batch known width"], count: int) -> Shaped[Tensor, "batch {count} width"]:
        """The last `count` entries up to each row's last token.

        The history has `count` or more entries from before the texts, then one a position of the moved texts.
        """
        if self.kept is None:
            return history[:, history.size(1) - count :]
        before = history.size(1) - self.kept.size(1)
        places = self.kept.sum(1, keepdim=True) + before - count + torch.arange(count, device=history.device)
        return history.gather(1, places[..., None].expand(-1, -1, history.size(2)))

    def _positions(self, direction: int) -> Int[Tensor, "batch length"]:
        assert self.padding is not None
        first = (~self.padding).int().argmax(1, keepdim=True)
        length = self.padding.size(1)
        return (torch.arange(length, device=first.device) + direction * first).clamp(0, length - 1)
