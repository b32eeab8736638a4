"""Perplexity as a plain function; `depgen.metrics.item_scores` has that of a split, and says which tokens count."""

import math


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
