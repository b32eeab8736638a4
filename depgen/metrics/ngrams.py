"""N-grams of whitespace tokens: their counts, for BLEU, and Distinct-n."""

from collections import Counter
from collections.abc import Sequence
from math import nan


def ngram_counts(words: Sequence[str], highest_order: int) -> list[Counter[tuple[str, ...]]]:
    """How often each n-gram of order 1, 2, …, `highest_order` occurs; a counter an order."""
    orders = range(1, highest_order + 1)
    return [Counter(zip(*(words[start:] for start in range(order)), strict=False)) for order in orders]


def distinct(texts: Sequence[str], order: int) -> float:
    """Distinct-n: 100 x different n-grams / n-grams, over all texts; NaN when there is no n-gram.

    N-grams that run over the border of two texts count too, as in the DMLM paper's code; Li et al. (2016) leave these
    out. The value falls as the number of tokens grows: compare only sets of equal size.

    >>> distinct(["a b", "a b"], 2)
    66.66666666666667
    """
    counts = ngram_counts([word for text in texts for word in text.split()], order)[-1]
    return 100 * len(counts) / counts.total() if counts else nan
