"""The area under the ROC curve."""

import numpy as np
from jaxtyping import Float


def auc(positive: Float[np.ndarray, " positives"], negative: Float[np.ndarray, " negatives"]) -> float:
    """The chance that a positive item scores higher than a negative one, a tie being half; NaN where a side is empty.

    >>> auc(np.array([0.9, 0.5]), np.array([0.5, 0.1]))
    0.875
    """
    if not len(positive) or not len(negative):
        return float("nan")
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, side="left").sum(dtype=np.int64)
    not_above = np.searchsorted(ordered, positive, side="right").sum(dtype=np.int64)
    return float(below + not_above) / (2 * len(positive) * len(negative))
