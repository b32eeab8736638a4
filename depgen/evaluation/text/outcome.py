"""What a measure of texts returns, or raises where it can't be computed."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from depgen.errors import UserError


class NotComputedError(UserError):
    """A measure can't be computed: says what is missing and what to do about it. Tables print it, and go on."""


@dataclass(frozen=True)
class TextScore:
    """A measure of texts.

    Attributes:
        value: the figure.
        settings: model, versions and whatever else it depends on.
        items: a score a text, NaN where it has none; None where only all texts together have a score.
    """

    value: float
    settings: str | None = None
    items: Float[np.ndarray, " texts"] | None = None


def mean_score(items: Float[np.ndarray, " texts"], settings: str | None = None) -> TextScore:
    """The mean of the scores that are not NaN; NaN where all are.

    >>> mean_score(np.array([1.0, np.nan, 3.0])).value
    2.0
    """
    defined = items[~np.isnan(items)]
    return TextScore(float(defined.mean()) if len(defined) else float("nan"), settings, items)
