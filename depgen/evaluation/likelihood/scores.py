"""The scores of texts as rows: a row for each word, sentence or document, or one for all."""

import math
from dataclasses import dataclass, replace
from typing import Literal

from depgen.evaluation.likelihood.scored_text import ScoredDocument, ScoredWord, Totals
from depgen.evaluation.likelihood.text_columns import TextColumns
from depgen.evaluation.tabular import Results, Row
from depgen.language_models.base import Likelihood

By = Literal["word", "sentence", "document", "all"]
Unit = Literal["nats", "bits"]


@dataclass(frozen=True)
class Scores(Results[ScoredDocument]):
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

    def rows(self) -> list[Row]:
        """The rows, those of a text one after the other; documents, sentences and positions count from 1."""
        if self.by == "all":
            counts = {"documents": len(self.texts), "sentences": sum(len(each.sentences) for each in self.texts)}
            return [counts | self._sums(self.totals)]
        rows, columns = list[Row](), TextColumns.of(self.texts)
        for number, document in enumerate(self.texts, start=1):
            if self.by == "document":
                place = {"identifier": document.identifier, "sentences": len(document.sentences)}
                rows.append(columns.of_text(number, document) | place | self._sums(Totals.of(document.words)))
                continue
            places = [columns.of_sentence(number, document, index) for index in range(len(document.sentences))]
            if self.by == "word":
                words = document.word_rows(scale=self._scale, next_words=self.next_words, **self._kind)
                rows += [places[row["sentence"] - 1] | row for row in words]
                continue
            for place, where, sentence in zip(places, document.places, document.sentences, strict=True):
                text = " ".join(word.word for word in sentence if not word.is_end)
                rows.append(place | {"place": where} | self._sums(Totals.of(sentence)) | {"text": text})
        return rows

    def columns(self) -> list[str]:
        """The names of the columns, whether there are rows or not."""
        names = TextColumns.of(self.texts).names
        text = ScoredDocument("", ((ScoredWord("", 0, False, 0.0, span=(0, 0)),),), ("",), dict.fromkeys(names))
        return list(replace(self, texts=(text,)).rows()[0])

    def _sums(self, totals: Totals) -> Row:
        return {
            "words": totals.words,
            "tokens": totals.tokens,
            "unknown": totals.unknown,
            **self._scores(totals.log_prob if totals.tokens else None),
            **totals.perplexities(self.likelihood),
            **self._kind,
        }

    @property
    def _kind(self) -> Row:
        return {"likelihood": self.likelihood, "beam_size": self.beam_size, "unit": self.unit}

    def _scores(self, log_prob: float | None) -> Row:
        scaled = None if log_prob is None else log_prob / self._scale
        return {"log_prob": scaled, "surprisal": None if scaled is None else -scaled}

    @property
    def _scale(self) -> float:
        """Nats of the unit."""
        return math.log(2) if self.unit == "bits" else 1.0
