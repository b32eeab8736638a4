"""BLEU: sentence level as the DMLM paper's code computes it, and corpus level through sacreBLEU.

Sentence-level BLEU-n here is NLTK's `sentence_bleu` with uniform weights over orders 1 to n and smoothing method 1
(Chen & Cherry, 2014): 0.1 replaces a numerator of zero, unless no word matches at all, which is a plain zero. The
figure is the mean over items times 100, not corpus BLEU.

Deviations:
    D1. An empty text scores zero and is counted (`empty="zero"`); the authors' code drops it together with its
        reference (`empty="drop"`), which rewards a model that falls silent where it would do badly.
"""

import logging
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from depgen.errors import UserError

EmptyPolicy = Literal["zero", "drop"]
EPSILON = 0.1
"""What smoothing method 1 puts in place of a numerator of zero."""

logger = logging.getLogger(__name__)


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], orders: Sequence[int] = (1, 2), *, empty: EmptyPolicy = "zero"
) -> dict[int, Float[np.ndarray, " items"]]:
    """For each order the sentence BLEU of every item, times 100; `numpy.nanmean` of it is the figure papers report.

    Args:
        hypotheses: one text an item, split at whitespace.
        references: one reference an item.
        orders: the highest n-gram orders wanted.
        empty: what an empty hypothesis is worth: zero, or nothing (NaN; the number of them is logged).

    Raises:
        UserError: the numbers of hypotheses and references differ.

    >>> bleu(["a b c d"], ["a b c x"], [1])[1].tolist()
    [75.0]
    """
    _check_pairs(hypotheses, references)
    scores = {order: np.zeros(len(hypotheses)) for order in orders}
    dropped = 0
    for index, (hypothesis, reference) in enumerate(zip(hypotheses, references, strict=True)):
        words = hypothesis.split()
        if not words and empty == "drop":
            dropped += 1
            by_order = [math.nan] * max(orders)
        else:
            by_order = sentence_bleu(words, reference.split(), max(orders))
        for order in orders:
            scores[order][index] = 100.0 * by_order[order - 1]
    if dropped:
        logger.warning(
            "BLEU leaves out %d empty texts of %d, together with their references.", dropped, len(hypotheses)
        )
    return scores


def sentence_bleu(hypothesis: Sequence[str], reference: Sequence[str], highest_order: int) -> list[float]:
    """BLEU-1, BLEU-2, … up to `highest_order` of one list of words against one other, each in [0, 1].

    >>> sentence_bleu("a b".split(), "a b c d".split(), 1) == [math.exp(1 - 4 / 2)]
    True
    """
    if not hypothesis or not set(hypothesis) & set(reference):
        return [0.0] * highest_order
    penalty = min(0.0, 1.0 - len(reference) / len(hypothesis))
    log_precisions, scores = 0.0, []
    for order in range(1, highest_order + 1):
        matches = (_ngrams(hypothesis, order) & _ngrams(reference, order)).total()
        log_precisions += math.log((matches or EPSILON) / max(len(hypothesis) - order + 1, 1))
        scores.append(math.exp(penalty + log_precisions / order))
    return scores


def _check_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Raise a UserError unless there is one reference a text."""
    if len(hypotheses) != len(references):
        found = f"{len(hypotheses)} texts and {len(references)} references"
        raise UserError(f"BLEU wants one reference a text: found {found}.")


def _ngrams(words: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    """The counts of the n-grams of one order."""
    return Counter(zip(*(words[start:] for start in range(order)), strict=False))


@dataclass(frozen=True)
class CorpusBleu:
    """Corpus BLEU-4 and the settings it was computed with.

    Attributes:
        score: between 0 and 100.
        signature: sacreBLEU's own description of version, tokeniser and smoothing.
    """

    score: float
    signature: str


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str], *, tokenizer: str = "13a") -> CorpusBleu:
    """Corpus BLEU-4 by sacreBLEU with its default settings, one reference a text, with its signature.

    Args:
        hypotheses: one text an item.
        references: one reference an item.
        tokenizer: a tokeniser of sacreBLEU's; `none` splits at whitespace.

    Raises:
        UserError: the numbers of texts and references differ, or sacreBLEU is not installed.
    """
    _check_pairs(hypotheses, references)
    try:
        from sacrebleu.metrics import BLEU
    except ImportError as error:
        raise UserError("sacreBLEU is not installed: pip install 'depgen[text-metrics]'") from error
    metric = BLEU(tokenize=tokenizer, force=True)  # `force` only hushes its warning about tokenised text
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return CorpusBleu(float(score.score), str(metric.get_signature()))
