"""Directed and undirected dependency accuracy of trees that were learnt without trees: DDA and UDA.

As the code of Shen et al. (2022) counts: every word does, roots too, over the whole corpus at once. Whatever should not
count, such as punctuation, is no word of the sentences any more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from jaxtyping import Int


@dataclass(frozen=True)
class InductionCounts:
    """What is right in each sentence, so that sentences can be resampled.

    Attributes:
        directed: words with the right head, or rightly a root; DDA is their share.
        undirected: pairs of a word and its head, whichever is which, that both trees have; a root is paired with
            itself. Two words that head one another are one pair, so that heads that form no tree may have fewer pairs
            than words. UDA is the number of right pairs over that of words.
        words: of the sentence.
    """

    directed: Int[np.ndarray, " sentences"]
    undirected: Int[np.ndarray, " sentences"]
    words: Int[np.ndarray, " sentences"]


def induction_counts(predicted: Sequence[Sequence[int]], gold: Sequence[Sequence[int]]) -> InductionCounts:
    """How many heads and pairs of each sentence are right.

    Heads are 1-based, 0 = root, one a word; those that are predicted may form no tree.

    >>> counts = induction_counts([[2, 1, 2]], [[0, 1, 2]])
    >>> counts.directed.tolist(), counts.undirected.tolist(), counts.words.tolist()
    ([2], [2], [3])
    """
    words = np.array([len(heads) for heads in gold], dtype=np.int64)
    if [len(heads) for heads in predicted] != words.tolist():
        raise ValueError("Predicted and gold heads are not those of the same sentences: their numbers differ.")
    sentence = np.repeat(np.arange(len(words)), words)
    starts = np.repeat(np.cumsum(words) - words, words)
    own, right = (np.fromiter(chain.from_iterable(heads), np.int64, len(sentence)) for heads in (predicted, gold))
    if ((np.minimum(own, right) < 0) | (np.maximum(own, right) > words[sentence])).any():
        raise ValueError("Expected heads from 0 (root) to the number of words; -1 means that a word has none.")
    common = np.intersect1d(_pairs(own, starts), _pairs(right, starts))
    return InductionCounts(
        directed=np.bincount(sentence[own == right], minlength=len(words)),
        undirected=np.bincount(sentence[common // max(1, len(sentence))], minlength=len(words)),
        words=words,
    )


def _pairs(heads: Int[np.ndarray, " words"], starts: Int[np.ndarray, " words"]) -> Int[np.ndarray, " words"]:
    """Each word's pair with its head as one number, whichever of the two is the head."""
    own = np.arange(len(heads))
    other = np.where(heads == 0, own, starts + heads - 1)
    pairs: Int[np.ndarray, " words"] = np.minimum(own, other) * len(heads) + np.maximum(own, other)
    return pairs
