"""The scores that a system gives the words of texts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from depgen.evaluation.likelihood.score_table import By, ScoreTable, Unit
from depgen.evaluation.likelihood.scored_text import ScoredDocument, ScoredWord, Totals
from depgen.evaluation.tabular import Row
from depgen.language_models.base import Likelihood


@dataclass(frozen=True)
class Scores(ScoreTable[ScoredDocument]):
    """The scores of texts, in the order in which the texts were given.

    Attributes:
        texts: words and sums of each.
        likelihood: what the scores are: `exact`, `pseudo` or `bound`; perplexities of different kinds do not compare.
        by: what a row of the table is.
        unit: of the table's log-probabilities, surprisals and entropies; all attributes are in nats.
        next_words: whether rows of words have entropies and ranks.
        beam_size: structures of a text that a bound sums over; None for other scores.
    """

    likelihood: Likelihood
    by: By = "word"
    unit: Unit = "nats"
    next_words: bool = False
    beam_size: int | None = None

    @property
    def totals(self) -> Totals:
        """The sums over all words."""
        return Totals.of(word for text in self.texts for word in text.words)

    def _of_several(self, sentences: Sequence[tuple[ScoredWord, ...]]) -> Row:
        return {"sentences": len(sentences), **self._sums(Totals.of(chain.from_iterable(sentences)))}

    def _of_each(self, text: ScoredDocument, places: Sequence[Row]) -> Iterator[Row]:
        if self.by == "word":
            for row in text.word_rows(scale=self.scale, next_words=self.next_words, **self._kind):
                yield places[row["sentence"] - 1] | row
            return
        for place, where, sentence in zip(places, text.places, text.sentences, strict=True):
            words = " ".join(word.word for word in sentence if not word.is_end)
            yield {**place, "place": where, **self._sums(Totals.of(sentence)), "text": words}

    def _blank(self) -> ScoredDocument:
        return ScoredDocument("", ((ScoredWord("", 0, False, 0.0, span=(0, 0)),),), places=("",))

    def _sums(self, totals: Totals) -> Row:
        log_prob = totals.log_prob / self.scale if totals.tokens else None
        return {
            "words": totals.words,
            "tokens": totals.tokens,
            "unknown": totals.unknown,
            "log_prob": log_prob,
            "surprisal": None if log_prob is None else -log_prob,
            **totals.perplexities(self.likelihood),
            **self._kind,
        }

    @property
    def _kind(self) -> Row:
        return {"likelihood": self.likelihood, "beam_size": self.beam_size, "unit": self.unit}
