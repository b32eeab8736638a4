"""Texts that are longer than what a model reads at once: a window that slides over them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int


@dataclass(frozen=True)
class Windows:
    """Windows over a sequence, the token that begins it and those of a text; a text that fits is read in one.

    Each position is predicted once, by the first window that holds it. So each window but the first gives the last
    `stride` of its positions, and the tokens before these are context alone
    (https://huggingface.co/docs/transformers/perplexity).

    Attributes:
        context: positions that are read at once; None for any number.
        stride: positions from the beginning of a window to that of the next.
        first: 0; or 1 where the token that begins sequences is not read, so that a text's first token has no score.

    >>> Windows(context=4, stride=2).starts(9)
    array([0, 0, 0, 0, 2, 2, 4, 4, 6])
    """

    context: int | None
    stride: int
    first: int = 0

    def starts(self, length: int) -> Int[np.ndarray, " length"]:
        """Where the window begins that each position of a sequence is predicted in."""
        positions = np.arange(length)
        beyond = np.maximum(0, positions + 1 - self.first - (self.context or length))
        starts: Int[np.ndarray, " length"] = np.minimum(positions, self.first) + self.stride * -(-beyond // self.stride)
        return starts

    def begun(self, sentences: Sequence[Sequence[int]]) -> list[Int[np.ndarray, " tokens"]]:
        """Of each token of a text, and of its end, how many windows begin with its prediction: 1 or 0."""
        ends = np.cumsum([len(ids) for ids in sentences], dtype=np.int64)
        starts = self.starts(int(ends[-1]) + 1)
        return np.split(np.diff(starts, prepend=self.first - 1).astype(bool).astype(int), ends[:-1])
