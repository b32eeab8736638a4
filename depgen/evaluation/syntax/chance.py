"""How often a prediction holds of random surprisals."""

from collections.abc import Collection
from itertools import permutations

import numpy as np

from depgen.evaluation.syntax.formulas import Formula, Region

DRAWS = 100_000
_MOST_ENUMERATED = 7


def chance_of(formula: Formula, *, empty: Collection[Region] = (), parts: int = 1, seed: int = 0) -> float:
    """The probability that a prediction holds where each region has an independent random surprisal.

    It is exact where only the order of surprisals decides. Otherwise it is estimated from `DRAWS` draws from the
    exponential distribution.

    Args:
        formula: the prediction.
        empty: regions without words, whose surprisal is 0.
        parts: regions that `(*;%condition%)` sums over.
        seed: of the draws.

    >>> from depgen.evaluation.syntax.formulas import parse_formula
    >>> chance_of(parse_formula("[(1;%a%) < (1;%b%)] & [(1;%a%) < (1;%c%)]", place="demo.json"))
    0.3333333333333333
    """
    regions = formula.regions
    if formula.compares_order_alone and len(regions) <= _MOST_ENUMERATED and not {*regions} & {*empty}:
        orders = np.array(list(permutations(range(len(regions)))), dtype=np.float64).T
        return float(np.mean(formula.holds(dict(zip(regions, orders, strict=True)).__getitem__)))
    generator, drawn = np.random.default_rng(seed), {}
    for region in regions:
        draws = generator.gamma(parts if region.number is None else 1, size=DRAWS)
        drawn[region] = draws * (region not in empty)
    return float(np.mean(formula.holds(drawn.__getitem__)))
