"""BLEU: of texts against their references, against a pool of references, and among themselves.

Texts are split at whitespace, and figures are times 100. `bleu` is NLTK's `sentence_bleu` with uniform weights over
orders 1 to n and smoothing method 1 (Chen & Cherry, 2014): 0.1 replaces a numerator of zero, unless no word matches at
all. `self_bleu` (Zhu et al., 2018) takes all other texts for references, without smoothing: a text without a match of
some order scores zero. Of both the mean over texts is the figure, as in the DMLM paper's code. It is not Texygen's
variant on a sample of 500 texts.

`ReferencePool.bleu` and `corpus_self_bleu` are BLEU-5 of a whole corpus without smoothing (Caccia et al., 2020; Casas
et al., 2020, appendix B), equal to NLTK's `corpus_bleu` with the pool, or all other texts, given for each text.

Against many references a count is clipped by the n-gram's largest count in any of them, and the brevity penalty takes
the closest length, the shorter of two as close. That takes time linear in the number of n-grams (NLTK takes 28 minutes
on a test set): among all other texts, the largest count is the largest of all unless this text alone has it, when it is
the second largest.

Deviations:
    D1. An empty text scores zero; the DMLM authors' code drops it together with its reference, which rewards a model
        that falls silent where it would do badly. In Self-BLEU it is a reference of length 0 to the others, too. Drop
        empty texts beforehand for another policy.
    D2. A text without an n-gram of some order (shorter than n, or empty) has no precision there; as in NLTK its
        numerator is zero over the denominator 1.
"""

import math
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from math import nan

import numpy as np
from jaxtyping import Float, Int

from depgen.errors import UserError

EPSILON = 0.1
"""What smoothing method 1 puts in place of a numerator of zero."""


# -- each text against its own reference ------------------------------------------------------------------------------


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], orders: Sequence[int] = (1, 2)
) -> dict[int, Float[np.ndarray, " items"]]:
    """For each highest order of n-grams the BLEU of every text, times 100.

    >>> bleu(["a b c d"], ["a b c x"], [1])[1].tolist()
    [75.0]
    """
    pairs = zip(hypotheses, references, strict=True)
    scores = np.array([sentence_bleu(text.split(), reference.split(), max(orders)) for text, reference in pairs])
    return {order: 100.0 * scores[:, order - 1] for order in orders}


def sentence_bleu(hypothesis: Sequence[str], reference: Sequence[str], highest_order: int) -> list[float]:
    """BLEU-1, BLEU-2, … up to `highest_order` of one list of words against one other, each in [0, 1].

    >>> sentence_bleu("a b".split(), "a b c d".split(), 1) == [math.exp(1 - 4 / 2)]
    True
    """
    if not hypothesis or not set(hypothesis) & set(reference):
        return [0.0] * highest_order
    penalty = min(0.0, 1.0 - len(reference) / len(hypothesis))
    log_precisions, scores = 0.0, []
    counts = zip(ngram_counts(hypothesis, highest_order), ngram_counts(reference, highest_order), strict=True)
    for order, (own, other) in enumerate(counts, start=1):
        log_precisions += math.log(((own & other).total() or EPSILON) / max(len(hypothesis) - order + 1, 1))
        scores.append(math.exp(penalty + log_precisions / order))
    return scores


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Corpus BLEU-4 by sacreBLEU with its default settings, and its description of version, tokeniser and smoothing."""
    try:
        from sacrebleu.metrics import BLEU
    except ImportError as error:
        raise UserError("sacreBLEU is not installed: pip install 'depgen[text-metrics]'") from error
    metric = BLEU(force=True)  # `force` only hushes its warning about tokenised text
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return float(score.score), str(metric.get_signature())


# -- each text against all references ---------------------------------------------------------------------------------


class ReferencePool:
    """References that all texts are compared with, by n-grams up to `order`."""

    def __init__(self, references: Sequence[str], *, order: int = 5) -> None:
        if not references:
            raise UserError("BLEU against a pool: expected at least one reference, found none.")
        self.order = order
        self._largest: list[dict[tuple[str, ...], int]] = [{} for _ in range(order)]
        texts = [reference.split() for reference in references]
        self._lengths = sorted({len(words) for words in texts})
        for words in texts:
            for largest, counts in zip(self._largest, ngram_counts(words, order), strict=True):
                for ngram, count in counts.items():
                    if count > largest.get(ngram, 0):
                        largest[ngram] = count

    def bleu(self, texts: Sequence[str]) -> float:
        """Corpus BLEU of the texts, times 100.

        >>> round(ReferencePool(["a b c d e f", "x"]).bleu(["a b c d e f"]), 6)
        100.0
        """
        matches, totals, lengths, closest = np.zeros(self.order), np.zeros(self.order), 0, 0
        for text in texts:
            words = text.split()
            lengths, closest = lengths + len(words), closest + self._closest(len(words))
            for order, counts in enumerate(ngram_counts(words, self.order)):
                largest = self._largest[order]
                matches[order] += sum(min(count, largest.get(ngram, 0)) for ngram, count in counts.items())
                totals[order] += max(1, len(words) - order)
        return _corpus_score(matches, totals, lengths, closest)

    def _closest(self, length: int) -> int:
        """The length of a reference that is closest, the shorter of two."""
        place = bisect_left(self._lengths, length)
        near = self._lengths[max(0, place - 1) : place + 1]
        return min(near, key=lambda other: (abs(other - length), other))


def _corpus_score(matches: np.ndarray, totals: np.ndarray, length: int, closest: int) -> float:
    if not matches[0] or not length:
        return 0.0
    precisions = np.where(matches > 0, matches / totals, sys.float_info.min)
    penalty = min(0.0, 1 - closest / length)
    return float(100 * np.exp(penalty + np.log(precisions).mean()))


# -- each text against all others -------------------------------------------------------------------------------------


def self_bleu(texts: Sequence[str], orders: Sequence[int] = (2, 3)) -> dict[int, Float[np.ndarray, " texts"]]:
    """For each highest order of n-grams the Self-BLEU of every text, times 100; lower means more varied.

    >>> self_bleu(["a b c", "a b c", "a x y"], [2])[2].round(2).tolist()
    [100.0, 100.0, 0.0]
    """
    matches, lengths = _leave_one_out_matches(texts, max(orders))
    with np.errstate(divide="ignore", invalid="ignore"):
        penalty = np.exp(np.minimum(0.0, 1.0 - closest_lengths(lengths) / lengths))
    penalty = np.where(lengths == 0, 0.0, penalty)  # as in NLTK
    scores: dict[int, Float[np.ndarray, " texts"]] = {}
    log_precisions = np.zeros(len(texts))
    for order, of_order in enumerate(matches, start=1):
        with np.errstate(divide="ignore"):  # the logarithm of no match
            log_precisions += np.log(of_order / np.maximum(lengths - order + 1, 1))
        scores[order] = 100.0 * penalty * np.exp(log_precisions / order)
    return {order: scores[order] for order in orders}


def corpus_self_bleu(texts: Sequence[str], *, order: int = 5) -> float:
    """Corpus BLEU of each text against all others, times 100; high where texts resemble each other.

    >>> corpus_self_bleu(["a b c d e", "a b c d e"])
    100.0
    """
    matches, lengths = _leave_one_out_matches(texts, order)
    totals = np.array([np.maximum(lengths - place, 1).sum() for place in range(order)])
    return _corpus_score(matches.sum(1), totals, int(lengths.sum()), int(closest_lengths(lengths).sum()))


def _leave_one_out_matches(
    texts: Sequence[str], highest_order: int
) -> tuple[Float[np.ndarray, "orders texts"], Int[np.ndarray, " texts"]]:
    """For each order and text the sum over its n-grams of min(its count, largest count in any other text); lengths."""
    if len(texts) < 2:
        raise UserError(f"Self-BLEU compares each text with all others: expected at least 2 texts, found {len(texts)}.")
    passages = [text.split() for text in texts]
    matches = np.zeros((highest_order, len(texts)))
    for order, by_text in enumerate(zip(*(ngram_counts(words, highest_order) for words in passages), strict=True)):
        largest, second = dict[tuple[str, ...], int](), dict[tuple[str, ...], int]()
        for counts in by_text:
            for ngram, count in counts.items():
                if count > largest.get(ngram, 0):
                    largest[ngram], second[ngram] = count, largest.get(ngram, 0)
                elif count > second[ngram]:
                    second[ngram] = count
        # A text with the largest count is clipped by the second largest, which is as large where two texts share it.
        matches[order] = [
            sum(second[ngram] if count == largest[ngram] else count for ngram, count in counts.items())
            for counts in by_text
        ]
    return matches, np.array([len(words) for words in passages])


def closest_lengths(lengths: Int[np.ndarray, " texts"]) -> Int[np.ndarray, " texts"]:
    """For each text the closest length of any other text, the shorter of two as close.

    >>> closest_lengths(np.array([3, 3, 5, 9])).tolist()
    [3, 3, 3, 5]
    """
    sizes, place, count = np.unique(lengths, return_inverse=True, return_counts=True)
    far = np.iinfo(np.int64).max // 2
    shorter = np.append(-far, sizes[:-1])
    longer = np.append(sizes[1:], far)
    closest = np.where(sizes - shorter <= longer - sizes, shorter, longer)
    return np.asarray(np.where(count > 1, sizes, closest)[place])


# -- n-grams ----------------------------------------------------------------------------------------------------------


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
