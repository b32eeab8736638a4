"""Texts as a system scores them: each word's log-probability, and sums over sentences, documents and all of a text."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import numpy as np
from jaxtyping import Float

from depgen.data.vocabulary import EOS_WORD
from depgen.evaluation.encoded_text import EncodedSentence, TextEncoder
from depgen.evaluation.likelihood.documents import score_documents
from depgen.evaluation.likelihood.next_words import WordFigures, figures_of_next_words
from depgen.evaluation.likelihood.score_table import ScoredText
from depgen.evaluation.tabular import Row, Tabular
from depgen.evaluation.text_documents import Span, TextDocument
from depgen.language_models.base import Likelihood
from depgen.metrics.perplexity import perplexity

PERPLEXITY: Mapping[Likelihood, str] = {
    "exact": "perplexity", "pseudo": "pseudo_perplexity", "bound": "perplexity_bound",
}  # fmt: skip
"""What a perplexity of each kind is called: those of different kinds do not compare."""


@dataclass(frozen=True)
class ScoredWord:
    """A word of a text, or the `<eos>` that the system predicts after it.

    Attributes:
        word: as it is in the text.
        tokens: number of its tokens; 0 for a word that the system does not read.
        unknown: whether `<unk>` replaces it, or a part of it.
        log_prob: nats, summed over its tokens; 0 for a word that is not read.
        is_end: whether it is the end.
        span: its first character in the text and the one after its last; None in texts that come from files.
        entropy: nats, of the distribution over the vocabulary that its first token was predicted from; None where it
            was not measured.
        rank: place of its token in that distribution, 1 for the likeliest token; of several tokens the last place.
    """

    word: str
    tokens: int
    unknown: bool
    log_prob: float
    is_end: bool = False
    span: Span | None = None
    entropy: float | None = None
    rank: int | None = None

    @property
    def surprisal(self) -> float | None:
        """Nats; None for a word that the system does not read."""
        return -self.log_prob if self.tokens else None

    @property
    def start(self) -> int | None:
        """Its first character in the text."""
        return None if self.span is None else self.span[0]

    @property
    def end(self) -> int | None:
        """The character after its last one in the text."""
        return None if self.span is None else self.span[1]


@dataclass
class Totals:
    """Sums over words.

    Attributes:
        words: those that are read, ends not counted.
        ends: how often the system has predicted an end.
        tokens: of words, and the ends.
        unknown: words that `<unk>` replaces.
        unread: words that the system does not read.
        log_prob: nats.
        known_log_prob: nats of all but the unknown words.
    """

    words: int = 0
    ends: int = 0
    tokens: int = 0
    unknown: int = 0
    unread: int = 0
    log_prob: float = 0.0
    known_log_prob: float = 0.0

    @classmethod
    def of(cls, words: Iterable[ScoredWord]) -> "Totals":
        """The sums over these."""
        sums = cls()
        for word in words:
            sums.tokens += word.tokens
            sums.log_prob += word.log_prob
            sums.known_log_prob += 0 if word.unknown else word.log_prob
            sums.ends += word.is_end
            sums.unread += not word.tokens
            sums.unknown += word.unknown
            sums.words += word.tokens > 0 and not word.is_end
        return sums

    def perplexities(self, likelihood: Likelihood) -> dict[str, float | None]:
        """Per word, per token and per known word, each end counted as one; None where nothing counts."""
        name, all_words = PERPLEXITY[likelihood], self.words + self.ends
        return {
            name: _perplexity(self.log_prob, all_words),
            f"token_{name}": _perplexity(self.log_prob, self.tokens),
            f"known_word_{name}": _perplexity(self.known_log_prob, all_words - self.unknown),
        }


def _perplexity(log_prob: float, count: int) -> float | None:
    return perplexity(-log_prob, count) if count else None


@dataclass(frozen=True)
class ScoredDocument(ScoredText[tuple[ScoredWord, ...]], Tabular):
    """A document's sentences as scored words, with the ends that the system predicts.

    Attributes:
        places: where each sentence comes from.
    """

    places: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[ScoredWord, ...]:
        """The words of all sentences, ends included."""
        return tuple(word for sentence in self.sentences for word in sentence)

    @property
    def log_prob(self) -> float:
        """Nats, summed over words and ends."""
        return sum(word.log_prob for word in self.words)

    def rows(self) -> list[Row]:
        """A row for each word, in nats; sentences and positions count from 1."""
        return list(self.word_rows(next_words=any(word.rank is not None for word in self.words)))

    def word_rows(self, *, scale: float = 1.0, next_words: bool = False, **constant: Any) -> Iterator[Row]:  # noqa: ANN401
        """The row of each word; the surprisal is the last column, which pandas shows of any table.

        Args:
            scale: nats of the unit of log-probabilities, surprisals and entropies.
            next_words: whether there are columns of entropies and ranks.
            constant: columns with the same value in all rows.
        """
        for sentence_number, sentence in enumerate(self.sentences, start=1):
            for position, word in enumerate(sentence, start=1):
                log_prob = word.log_prob / scale if word.tokens else None
                entropy = None if word.entropy is None else word.entropy / scale
                yield {
                    "sentence": sentence_number,
                    "position": position,
                    "word": word.word,
                    "tokens": word.tokens,
                    "unknown": word.unknown,
                    "log_prob": log_prob,
                    **constant,
                    **({} if word.span is None else {"start": word.start, "end": word.end}),
                    **({"entropy": entropy, "rank": word.rank} if next_words else {}),
                    "surprisal": None if log_prob is None else -log_prob,
                }


def score_texts(
    encoder: TextEncoder,
    documents: Sequence[TextDocument],
    *,
    tokens_per_batch: int | None = None,
    batch_size: int | None = None,
    next_words: bool = False,
    progress: bool = False,
) -> list[ScoredDocument]:
    """The documents with each word's score.

    Args:
        encoder: how documents are given to the system.
        documents: of any texts.
        tokens_per_batch: see `depgen.evaluation.likelihood.documents.score_documents`; no score depends on it.
        batch_size: the most sentences or documents that are scored at once; no score depends on it.
        next_words: measure entropies and ranks too.
        progress: show a progress bar.

    Raises:
        UserError: a text that is longer than the system reads at once.
    """
    model, vocabulary = encoder.trained.model, encoder.trained.vocabulary
    read, units = encoder.encoded(documents)
    scores = score_documents(
        model, units, vocabulary=vocabulary, tokens_per_batch=tokens_per_batch, batch_size=batch_size, progress=progress
    )
    found, figures = chain.from_iterable(scores), iter(list[WordFigures]())
    if next_words:
        of_units = figures_of_next_words(model, units, vocabulary=vocabulary, progress=progress)
        figures = chain.from_iterable(of_units)
    return [
        ScoredDocument(
            document.identifier,
            tuple(
                _scored(each, next(found), next(figures, None))
                if len(each.encoding.ids)
                else _scored(each, np.zeros(0))
                for each in sentences
            ),
            document.fields,
            document.sentence_ids,
            document.places,
        )
        for document, sentences in zip(documents, read, strict=True)
    ]


def _scored(
    sentence: EncodedSentence, log_probs: Float[np.ndarray, " tokens"], figures: WordFigures | None = None
) -> tuple[ScoredWord, ...]:
    """Each word with the sum over its tokens, and the end where there is a score for it."""
    length, owner = len(sentence.encoding.ids), sentence.encoding.word_of_piece
    scores, read = log_probs.astype(np.float64), sum(sentence.kept)
    sums = np.bincount(owner, weights=scores[:length], minlength=read).tolist()
    counts = np.bincount(owner, minlength=read).tolist()
    unknown = [False] * read
    if sentence.unknown.any():
        unknown = (np.bincount(owner, weights=sentence.unknown, minlength=read) > 0).tolist()
    measured: Iterable[tuple[float | None, int | None]] = repeat((None, None))
    if figures is not None:
        measured = figures.of_words(owner, read)
    numbers = zip(counts, unknown, sums, measured, strict=False)
    words, spans = [], sentence.spans
    for word, keep, span in zip(sentence.sentence.words, sentence.kept, spans, strict=True):
        if keep:
            count, new, log_prob, (entropy, rank) = next(numbers)
            words.append(ScoredWord(word, count, new, log_prob, False, span, entropy, rank))
        else:
            words.append(ScoredWord(word, 0, False, 0.0, span=span))
    last = None if not spans or spans[-1] is None else (spans[-1][1],) * 2
    for place in range(length, len(scores)):
        ends = (None, None) if figures is None else (float(figures.entropies[place]), int(figures.ranks[place]))
        words.append(ScoredWord(EOS_WORD, 1, False, float(scores[place]), True, last, *ends))
    return tuple(words)
