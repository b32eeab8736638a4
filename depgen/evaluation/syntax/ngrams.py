"""An interpolated n-gram model of words: a floor that knows no syntax but of neighbouring words."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int, Int64

from depgen.data.corpus import Corpus
from depgen.data.experiment import data_of
from depgen.errors import UserError
from depgen.evaluation.syntax.sentences import ScoredSentence, TestSentence, documents_of
from depgen.evaluation.system import System
from depgen.evaluation.text_documents import Tokens

_BEGIN, _END, _UNKNOWN = range(3)
_SPECIAL = 3
_LEAST = 2
"""How often a word has to occur in training to be known."""


@dataclass(frozen=True)
class _Level:
    """The n-grams of one length.

    Attributes:
        keys: of each n-gram, sorted: the place of its first n - 1 words in the level below, and its last word.
        counts: of each n-gram.
        totals: of each context, the counts of the n-grams that begin with it.
        types: of each context, how many n-grams begin with it.
    """

    keys: Int64[np.ndarray, " grams"]
    counts: Float64[np.ndarray, " grams"]
    totals: Float64[np.ndarray, " contexts"]
    types: Float64[np.ndarray, " contexts"]


class NgramModel:
    """An n-gram model with Witten-Bell interpolation, O(words) in time and memory.

        p_n(w | h) = (count(h w) + types(h) p_{n-1}(w | h')) / (count(h) + types(h)),   p_0 = 1 / predicted words

    where h' is h without its first word, and p_n = p_{n-1} after an h that has not been seen.

    Args:
        sentences: words of the training text.
        order: n.
    """

    def __init__(self, sentences: Iterable[Sequence[str]], *, order: int = 5) -> None:
        text = [list(words) for words in sentences]
        counts = Counter(word for words in text for word in words)
        known = (word for word, count in counts.items() if count >= _LEAST)
        self.known = {word: number for number, word in enumerate(known, start=_SPECIAL)}
        self.size = _SPECIAL + len(self.known)
        self.levels: list[_Level] = []
        ids, within = self._flat(text)
        gram = np.zeros(len(ids), dtype=np.int64)
        contexts = 1
        for length in range(1, order + 1):
            context = _before(gram, length)
            valid = within >= length - 1
            if not valid.any():  # all sentences are shorter
                break
            keys, places = np.unique(context[valid] * self.size + ids[valid], return_inverse=True)
            found = np.bincount(places, weights=(within > 0)[valid], minlength=len(keys))  # nothing predicts the begin
            owner = keys // self.size
            self.levels.append(
                _Level(
                    keys,
                    found,
                    np.bincount(owner, weights=found, minlength=contexts),
                    np.bincount(owner, weights=found > 0, minlength=contexts).astype(np.float64),
                )
            )
            gram = np.full(len(ids), -1, dtype=np.int64)
            gram[valid] = places
            contexts = len(keys)

    def log_probs(self, sentences: Sequence[Sequence[str]]) -> list[Float64[np.ndarray, " words_and_end"]]:
        """Nats of each word and of the end of each sentence."""
        ids, within = self._flat(sentences)
        probability = np.full(len(ids), 1 / (self.size - 1))  # of all but the begin
        gram = np.zeros(len(ids), dtype=np.int64)
        for length, level in enumerate(self.levels, start=1):
            context = _before(gram, length)
            usable = (within >= length - 1) & (context >= 0)
            context = np.where(usable, context, 0)
            keys = context * self.size + ids
            place = np.minimum(np.searchsorted(level.keys, keys), len(level.keys) - 1)
            found = usable & (level.keys[place] == keys)
            count, types = np.where(found, level.counts[place], 0.0), level.types[context]
            total = level.totals[context] + types
            seen = usable & (total > 0)
            probability[seen] = ((count + types * probability)[seen]) / total[seen]
            gram = np.where(found, place, -1)
        begins = np.flatnonzero(within == 0)
        return [part[1:] for part in np.split(np.log(probability), begins[1:])]

    def _flat(self, sentences: Sequence[Sequence[str]]) -> tuple[Int[np.ndarray, " ids"], Int[np.ndarray, " ids"]]:
        """All sentences with their begins and ends, and the place of each word in its sentence."""
        listed = [
            [_BEGIN, *(self.known.get(word, _UNKNOWN) for word in words), _END] for words in sentences
        ]  # fmt: skip
        ids = np.concatenate([np.array(each, dtype=np.int64) for each in listed])
        return ids, np.concatenate([np.arange(len(each)) for each in listed])


def _before(gram: Int64[np.ndarray, " ids"], length: int) -> Int64[np.ndarray, " ids"]:
    """The n-gram that ends just before each place; the empty one before all words for unigrams."""
    return gram if length == 1 else np.concatenate([[-1], gram[:-1]])


def floor_scores(system: System, sentences: Sequence[TestSentence], *, tokens: Tokens) -> list[ScoredSentence]:
    """The sentences as a 5-gram model scores them that has learnt from the training split of the run's corpus.

    Words are in the form in which the run reads them, and known if they occur twice in training.

    Raises:
        UserError: the system is no run that was trained on a corpus, or the corpus is not at hand.
    """
    settings = system.trained.run / "config.yaml"
    corpus = getattr(data_of(settings), "corpus", None) if settings.is_file() else None
    if not isinstance(corpus, Corpus):
        raise UserError(f"{system.trained.run} names no corpus that a 5-gram could learn from: leave out --five_gram.")
    reading = system.reading
    model = NgramModel(
        reading.words(sentence) for document in corpus.documents("train") for sentence in document.sentences
    )
    found = []
    for document in documents_of(sentences, tokens):
        (sentence,), (spans,) = document.sentences, document.spans_of_sentences
        kept = reading.kept(sentence)
        starts = [span[0] for span, keep in zip(spans, kept, strict=True) if keep and span]
        found.append((reading.spelt(sentence, kept), np.array(starts, dtype=np.int64)))
    scores = model.log_probs([words for words, _ in found])
    return [
        _scored([model.known.get(word, _UNKNOWN) for word in words], starts, log_probs)
        for (words, starts), log_probs in zip(found, scores, strict=True)
    ]


def _scored(
    ids: Sequence[int], starts: Int[np.ndarray, " words"], log_probs: Float64[np.ndarray, " words_and_end"]
) -> ScoredSentence:
    unknown = np.array([each == _UNKNOWN for each in ids], dtype=bool)
    return ScoredSentence(tuple(ids), starts, log_probs[:-1], unknown, float(log_probs[-1]))
