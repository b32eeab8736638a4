"""Texts moved to the left of their rows, so that a network from left to right meets padding only after them."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from depgen.nn.lengths import mask_of


@dataclass(frozen=True)
class LeftAligned:
    """The place of each row's text before and after it is moved.

    Attributes:
        padding: True where the texts, as given, have no token, at either end; None: nowhere.
        kept: True at tokens once they are moved; None: everywhere.
    """

    padding: Bool[Tensor, "batch length"] | None
    kept: Bool[Tensor, "batch length"] | None

    @classmethod
    def of(cls, padding: Bool[Tensor, "batch length"] | None) -> "LeftAligned":
        """The places that belong to a padding."""
        if padding is None:
            return cls(None, None)
        return cls(padding, mask_of((~padding).sum(1), padding.size(1)))

    def to(self, device: torch.device) -> "LeftAligned":
        """The same places on a device, for which nothing is waited."""
        padding, kept = (
            None if each is None else each.to(device, non_blocking=True) for each in (self.padding, self.kept)
        )
        return LeftAligned(padding, kept)

    def places(self, device: torch.device) -> Int[Tensor, " tokens"] | None:
        """On a device the places of the tokens among all, row by row, once they are moved; None: all have one.

        A GPU is waited for where the padding lies on it, and not where that lies on the CPU.
        """
        return None if self.kept is None else self.kept.flatten().nonzero()[:, 0].to(device, non_blocking=True)

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

        Args:
            history: `count` or more entries from before the texts, then one a position of the moved texts.
            count: how many.
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
