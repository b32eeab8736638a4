"""Perplexity as a plain function; `depgen.metrics.item_scores` has that of a split, and says which tokens count."""

import math


def perplexity(nll_sum: float, tokens: int) -> float:
    """The perplexity exp(nll_sum / tokens); NaN without any token, inf beyond the range of a float.

    Args:
        nll_sum: summed negative log-likelihood in nats.
        tokens: how many tokens the sum runs over: `<eos>` counts, BOS and padding do not.

    >>> round(perplexity(3 * math.log(7.0), 3), 6)
    7.0
    """
    if tokens == 0:
        return math.nan
    try:
        return math.exp(nll_sum / tokens)
    except OverflowError:
        return math.inf
