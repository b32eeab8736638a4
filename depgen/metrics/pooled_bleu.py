"""Corpus BLEU of texts against one pool of references, and of each text against all others: quality and diversity.

Caccia et al. (2020), and Casas et al. (2020), appendix B: BLEU-5 with uniform weights, without smoothing, and every
text has the whole pool as its references. Equal to NLTK's `corpus_bleu` with the pool given for each text, in time
linear in the number of n-grams: a count is clipped by the n-gram's largest count in any reference.
"""

import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

import numpy as np

from depgen.errors import UserError
from depgen.metrics.ngrams import ngram_ids, starts_within_items, tokenize
from depgen.metrics.self_bleu import closest_lengths, leave_one_out_matches


class ReferencePool:
    """References that all texts are compared with.

    Args:
        references: one string an item, split at whitespace.
        order: of the longest n-grams.

    Raises:
        UserError: there is none.
    """

    def __init__(self, references: Sequence[str], *, order: int = 5) -> None:
        if not references:
            raise UserError("BLEU against a pool: expected at least one reference, found none.")
        self.order = order
        self._largest: list[dict[tuple[str, ...], int]] = [{} for _ in range(order)]
        words = [reference.split() for reference in references]
        self._lengths = sorted({len(each) for each in words})
        for each in words:
            for largest, counts in zip(self._largest, _counts(each, order), strict=True):
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
            for order, counts in enumerate(_counts(words, self.order)):
                largest = self._largest[order]
                matches[order] += sum(min(count, largest.get(ngram, 0)) for ngram, count in counts.items())
                totals[order] += max(1, len(words) - order)
        return _score(matches, totals, lengths, closest)

    def _closest(self, length: int) -> int:
        """The length of a reference that is closest, the shorter of two."""
        place = bisect_left(self._lengths, length)
        return min(self._lengths[max(0, place - 1) : place + 1], key=lambda each: (abs(each - length), each))


def corpus_self_bleu(texts: Sequence[str], *, order: int = 5) -> float:
    """Corpus BLEU of each text against all others, times 100; high where texts resemble each other.

    Raises:
        UserError: fewer than two texts.

    >>> corpus_self_bleu(["a b c d e", "a b c d e"])
    100.0
    """
    if len(texts) < 2:
        raise UserError(f"Self-BLEU compares each text with all others: expected at least 2 texts, found {len(texts)}.")
    table = tokenize(texts)
    matches, totals = np.zeros(order), np.zeros(order)
    for place, ids in enumerate(ngram_ids(table, order)):
        within = starts_within_items(table, place + 1)
        matches[place] = leave_one_out_matches(ids[within], table.owner[: len(ids)][within], len(texts)).sum()
        totals[place] = np.maximum(table.lengths - place, 1).sum()
    return _score(matches, totals, int(table.lengths.sum()), int(closest_lengths(table.lengths).sum()))


def _counts(words: Sequence[str], order: int) -> list[Counter[tuple[str, ...]]]:
    return [Counter(zip(*(words[start:] for start in range(n)), strict=False)) for n in range(1, order + 1)]


def _score(matches: np.ndarray, totals: np.ndarray, length: int, closest: int) -> float:
    if not matches[0] or not length:
        return 0.0
    precisions = np.where(matches > 0, matches / totals, sys.float_info.min)
    penalty = min(0.0, 1 - closest / length)
    return float(100 * np.exp(penalty + np.log(precisions).mean()))
