"""The scores of texts as rows: a row for each word, sentence or document, or one for all."""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar

from depgen.evaluation.tabular import Results, Row
from depgen.evaluation.text_documents import TextDocument

logger = logging.getLogger(__name__)

By = Literal["word", "sentence", "document", "all"]
Unit = Literal["nats", "bits"]
_Sentence = TypeVar("_Sentence", covariant=True)


@dataclass(frozen=True)
class ScoredText(Generic[_Sentence]):
    """A text's sentences with their scores, and what is said about it besides.

    Attributes:
        identifier: its name, or file and line.
        sentences: in the order of the text.
        fields: what is said about it, such as item and condition.
        sentence_ids: the `sent_id` of each sentence; empty where there are none.
    """

    identifier: str
    sentences: tuple[_Sentence, ...]
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)
    sentence_ids: tuple[str | None, ...] = ()


_Text = TypeVar("_Text", bound=ScoredText[Any], covariant=True)


class ScoreTable(Results[_Text], ABC):
    """The scores of texts, in the order in which the texts were given; a text that lacks a field has None there.

    Attributes:
        by: what a row of the table is.
        unit: of the table's log-probabilities and surprisals; all attributes are in nats.
    """

    by: By
    unit: Unit

    @property
    def fields(self) -> list[str]:
        """The names of the fields of all texts."""
        return list(dict.fromkeys(name for text in self.texts for name in text.fields))

    def rows(self) -> list[Row]:
        """The rows, those of a text one after the other; documents, sentences and positions count from 1."""
        if self.by == "all":
            every = [sentence for text in self.texts for sentence in text.sentences]
            return [{"documents": len(self.texts), **self._of_several(every)}]
        rows, names, identified = list[Row](), self.fields, any(text.sentence_ids for text in self.texts)
        for number, text in enumerate(self.texts, start=1):
            place = {"document": number, **{name: text.fields.get(name) for name in names}}
            if self.by == "document":
                rows.append({**place, "identifier": text.identifier, **self._of_several(text.sentences)})
                continue
            places = [{**place, "sentence": index} for index in range(1, len(text.sentences) + 1)]
            if identified:
                ids = text.sentence_ids or [None] * len(places)
                places = [{**each, "sent_id": own} for each, own in zip(places, ids, strict=True)]
            rows += self._of_each(text, places)
        return rows

    def columns(self) -> list[str]:
        """The names of the columns, whether there are rows or not."""
        blank = replace(self._blank(), fields=dict.fromkeys(self.fields))
        return list(replace(self, texts=(blank,)).rows()[0])

    @property
    def scale(self) -> float:
        """Nats of the unit."""
        return math.log(2) if self.unit == "bits" else 1.0

    @abstractmethod
    def _of_several(self, sentences: Sequence[Any]) -> Row:
        """The sums over sentences."""

    @abstractmethod
    def _of_each(self, text: Any, places: Sequence[Row]) -> Iterable[Row]:  # noqa: ANN401 - the table's own
        """A row for each sentence, or word, of a text, after the columns that say which sentence it is."""

    @abstractmethod
    def _blank(self) -> Any:  # noqa: ANN401 - the table's own
        """A text of one sentence, which has all columns."""


def without_clashes(texts: Sequence[TextDocument], columns: Collection[str]) -> list[TextDocument]:
    """The texts without the fields that have the name of a column of the scores; these are named in one warning.

    Args:
        texts: with their fields.
        columns: of the scores; those of characters (`start`, `end`) have values for strings alone, not for files.
    """
    unused = {"start", "end"} if all(text.spans is None for text in texts) else set[str]()
    taken = {*columns, *(["sent_id"] if any(text.sentence_ids for text in texts) else [])} - unused
    clash = dict.fromkeys(name for text in texts for name in text.fields if name in taken)
    if clash:
        logger.warning(
            "The scores have columns of their own called %s: those of the texts are left out. Rename them if they are "
            "to be kept.",
            ", ".join(clash),
        )
    return [
        replace(text, fields={name: value for name, value in text.fields.items() if name not in clash})
        for text in texts
    ]
