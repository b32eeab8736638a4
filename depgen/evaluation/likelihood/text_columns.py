"""The columns of a table of scores that say which text and which sentence a row is of."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from depgen.evaluation.tabular import Row
from depgen.evaluation.text_documents import TextDocument

logger = logging.getLogger(__name__)


class Described(Protocol):
    """A text with what is said about it."""

    @property
    def identifier(self) -> str:
        """Its name, or file and line."""
        ...

    @property
    def fields(self) -> Mapping[str, Any]:
        """What is said about the text, such as item and condition."""
        ...

    @property
    def sentence_ids(self) -> Sequence[str | None]:
        """The `sent_id` of each sentence; empty where there are none."""
        ...


@dataclass(frozen=True)
class TextColumns:
    """The columns that the texts of a table need: a text that lacks a field has None there.

    Attributes:
        names: the fields of all texts.
        has_sentence_ids: whether a sentence of any text has an identifier.
    """

    names: tuple[str, ...]
    has_sentence_ids: bool

    @classmethod
    def of(cls, texts: Sequence[Described]) -> "TextColumns":
        """Those of these texts."""
        names = dict.fromkeys(name for text in texts for name in text.fields)
        return cls(tuple(names), any(text.sentence_ids for text in texts))

    def of_text(self, number: int, text: Described) -> Row:
        """The text's number and fields."""
        return {"document": number, **{name: text.fields.get(name) for name in self.names}}

    def of_sentence(self, number: int, text: Described, index: int) -> Row:
        """The same, the sentence's number, which counts from 1, and its identifier."""
        row = {**self.of_text(number, text), "sentence": index + 1}
        if self.has_sentence_ids:
            row["sent_id"] = text.sentence_ids[index] if text.sentence_ids else None
        return row


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
