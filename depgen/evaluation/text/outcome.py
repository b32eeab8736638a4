"""What a measure that needs weights or an optional package returns: scores, or the reason why there are none."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class NotComputed:
    """A measure that was not computed.

    Attributes:
        reason: what was missing and what to do about it; tables print "not computed: <reason>".
    """

    reason: str


@dataclass(frozen=True)
class MeasuredItems:
    """A measure that is the mean of item scores.

    Attributes:
        items: one score an item in the order given, NaN where undefined.
        description: model and settings that the figure depends on.
    """

    items: Float[np.ndarray, " items"]
    description: str

    @property
    def value(self) -> float:
        """The mean over defined items; NaN when there is none."""
        return mean_of_defined(self.items)


@dataclass(frozen=True)
class MeasuredSet:
    """A measure of a set of texts, which no single text has.

    Attributes:
        value: the figure.
        description: model and settings that it depends on.
    """

    value: float
    description: str


def mean_of_defined(items: Float[np.ndarray, " items"]) -> float:
    """The mean of the scores that are not NaN; NaN when all are.

    >>> mean_of_defined(np.array([1.0, np.nan, 3.0]))
    2.0
    """
    defined = items[~np.isnan(items)]
    return float(defined.mean()) if len(defined) else float("nan")
