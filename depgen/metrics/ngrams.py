"""N-grams of whitespace tokens: their counts, for BLEU, and Distinct-n."""

from collections import Counter
from collections.abc import Sequence
from math import nan


def ngram_counts(words: Sequence[str], highest_order: int) -> list[Counter[tuple[str, ...]]]:
    """How often each n-gram of order 1, 2, …, `highest_order` occurs; a counter an order."""
    orders = range(1, highest_order + 1)
    return [Counter(zip(*(words[start:] for start in range(order)), strict=False)) for order in orders]


def distinct(texts: Sequence[str], order: int, *, within_items: bool = False) -> float:
    """Distinct-n (Li et al., 2016): 100 x different n-grams / n-grams, over all texts; NaN when there is no n-gram.

    With `within_items`, as published, n-grams that run over the border of two texts are left out; the DMLM paper's code
    counts them too. The value falls as the number of tokens grows: compare only sets of equal size.

    >>> distinct(["a b", "a b"], 2), distinct(["a b", "a b"], 2, within_items=True)
    (66.66666666666667, 50.0)
    """
    passages, counts = [text.split() for text in texts], Counter[tuple[str, ...]]()
    if within_items:
        for words in passages:
            counts.update(ngram_counts(words, order)[-1])
    else:
        counts = ngram_counts([word for words in passages for word in words], order)[-1]
    return 100 * len(counts) / counts.total() if counts else nan
