"""A window of attention that, in a stream, reaches back into the previous segment."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


class CarriedWindow:
    """Keeps the keys and hidden states of the last positions of a segment for the next segment.

    Args:
        window: number of positions.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self._keys: Any = None
        self._hidden: Tensor | None = None

    def attend(
        self,
        attention: Callable[[Any], tuple[Tensor, Any]],
        hidden: Float[Tensor, "batch length width"],
        *,
        segment: int | None,
    ) -> tuple[Float[Tensor, "batch length reach"], Float[Tensor, "batch context width"]]:
        """Log-weights over the window, and the hidden states that they weigh: those kept, then `hidden`.

        Args:
            attention: from earlier keys, or None, to log-weights and the keys of the window.
            hidden: states of the segment.
            segment: the segment's number in its stream; 0: nothing is before it; None: no stream.
        """
        log_attention, keys = attention(self._keys if segment else None)
        if segment and self._hidden is not None:
            hidden = torch.cat((self._hidden, hidden), 1)
        if segment is not None:
            self._keys, self._hidden = keys, hidden[:, -self.window :]
        return log_attention, hidden
