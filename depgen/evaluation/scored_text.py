"""Texts as a system scores them: each word's log-probability, and sums over sentences, documents and all of a text."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from depgen.data.vocabulary import EOS_WORD, AnyVocabulary, Encoding
from depgen.errors import UserError
from depgen.evaluation.likelihood import DocumentIds, score_documents
from depgen.evaluation.reading import Reading
from depgen.evaluation.text_documents import TextDocument
from depgen.evaluation.trained import Trained
from depgen.language_models.base import Likelihood
from depgen.metrics.perplexity import perplexity
from depgen.trees.sentence import Sentence

PERPLEXITY: Mapping[Likelihood, str] = {
    "exact": "perplexity", "pseudo": "pseudo_perplexity", "bound": "perplexity_bound",
}  # fmt: skip
"""What a perplexity of each kind is called: those of different kinds do not compare."""


@dataclass(frozen=True)
class ScoredWord:
    """A word of a text, or the `<eos>` that the system predicts behind it.

    Attributes:
        word: as it stands in the text.
        tokens: that stand for it; 0 for a word that the system does not read.
        unknown: whether `<unk>` stands for it, or for a part of it.
        log_prob: nats, summed over its tokens; 0 for a word that is not read.
        is_end: whether it is the end.
    """

    word: str
    tokens: int
    unknown: bool
    log_prob: float
    is_end: bool = False


@dataclass
class Totals:
    """Sums over words.

    Attributes:
        words: those that are read, ends not counted.
        ends: how often the system has predicted an end.
        tokens: of words, and the ends.
        unknown: words that `<unk>` stands for.
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
class ScoredDocument:
    """A document's sentences as scored words, in the order of the text."""

    identifier: str
    sentences: tuple[tuple[ScoredWord, ...], ...]
    places: tuple[str, ...]

    @property
    def words(self) -> Iterator[ScoredWord]:
        """All of them, ends included."""
        return (word for sentence in self.sentences for word in sentence)


@dataclass(frozen=True)
class Scorer:
    """Scores documents by a trained system.

    Attributes:
        trained: the system.
        reading: how sentences and documents are given to it.
        as_one: whether a document is read as one (or in the run's segments), or each sentence by itself.
        tokens_per_batch: see `depgen.evaluation.likelihood.score_documents`; no score depends on it.
        progress: show a progress bar.
    """

    trained: Trained
    reading: Reading
    as_one: bool
    tokens_per_batch: int = 8192
    progress: bool = False

    def score(self, documents: Sequence[TextDocument]) -> list[ScoredDocument]:
        """The documents with each word's score.

        Raises:
            UserError: a text that is longer than the system reads at once, or none of whose words it reads.
        """
        read = [
            [_Read.of(each, self.reading, self.vocabulary) for each in document.sentences] for document in documents
        ]
        units: list[DocumentIds] = []
        for document, sentences in zip(documents, read, strict=True):
            filled = [
                (ids, place)
                for each, place in zip(sentences, document.places, strict=True)
                if (ids := each.encoding.ids.tolist())
            ]
            parts = self.reading.segments(filled) if self.as_one else [[each] for each in filled]
            units += map(self._unit, parts)
        if not units:
            raise UserError(
                f"The text has no word that a system which reads the form `{self.reading.form}` could score."
            )
        scores = score_documents(
            self.trained.model, units, vocabulary=self.vocabulary, tokens_per_batch=self.tokens_per_batch,
            progress=self.progress,
        )  # fmt: skip
        found = iter(each for unit in scores for each in unit)
        return [
            ScoredDocument(
                document.identifier,
                tuple(
                    each.scored(next(found) if len(each.encoding.ids) else None, self.vocabulary) for each in sentences
                ),
                document.places,
            )
            for document, sentences in zip(documents, read, strict=True)
        ]

    @property
    def vocabulary(self) -> AnyVocabulary:
        """The run's own."""
        return self.trained.vocabulary

    def _unit(self, sentences: Sequence[tuple[list[int], str]]) -> DocumentIds:
        """Token ids of what is read as one; too long a text is named by where it stands."""
        model = self.trained.model
        together = self.as_one and not model.reads_sentences
        lengths = [len(ids) for ids, _ in sentences]
        most = sum(lengths) if together else max(lengths)
        if model.longest_scored is not None and most > model.longest_scored:
            place = sentences[0 if together else lengths.index(most)][1]
            remedy = "leave out --reads document, or cut it" if together else "cut it"
            raise UserError(
                f"{place}: expected a {'document' if together else 'sentence'} of at most {model.longest_scored} "
                f"tokens, which is what {type(model).__name__} of {self.trained.run} reads at once, found {most}: "
                f"{remedy} into shorter ones."
            )
        return [ids for ids, _ in sentences]


@dataclass(frozen=True)
class _Read:
    """A sentence, which of its words are read, and as what."""

    sentence: Sentence
    kept: Sequence[bool]
    encoding: Encoding

    @classmethod
    def of(cls, sentence: Sentence, reading: Reading, vocabulary: AnyVocabulary) -> "_Read":
        return cls(sentence, reading.kept(sentence), reading.encode(reading.words(sentence), vocabulary))

    def scored(
        self, log_probs: Float[np.ndarray, " tokens"] | None, vocabulary: AnyVocabulary
    ) -> tuple[ScoredWord, ...]:
        """Each word with its own tokens' sum, and the end where there is a score for it."""
        ids, owner = self.encoding.ids, self.encoding.word_of_piece
        scores = np.zeros(0) if log_probs is None else log_probs.astype(np.float64)
        read = sum(self.kept)
        sums = np.bincount(owner, weights=scores[: len(ids)], minlength=read)
        counts = np.bincount(owner, minlength=read)
        unknown = np.bincount(owner, weights=ids == vocabulary.unk, minlength=read) > 0
        numbers = iter(zip(counts.tolist(), unknown.tolist(), sums.tolist(), strict=True))
        words = [
            ScoredWord(word, *next(numbers)) if keep else ScoredWord(word, 0, False, 0.0)
            for word, keep in zip(self.sentence.words, self.kept, strict=True)
        ]
        words += [ScoredWord(EOS_WORD, 1, False, float(end), is_end=True) for end in scores[len(ids) :]]
        return tuple(words)
