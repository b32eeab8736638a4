"""Texts as token ids: which tokens a word has, and what a system encodes at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from depgen.data.vocabulary import Encoding
from depgen.errors import UserError
from depgen.evaluation.text_documents import Span, TextDocument
from depgen.evaluation.trained import Trained
from depgen.evaluation.unit_scores import DocumentIds
from depgen.language_models.document import DocumentLanguageModel
from depgen.trees.sentence import Sentence


@dataclass(frozen=True)
class EncodedSentence:
    """A sentence as token ids.

    Attributes:
        sentence: its words.
        spans: the characters of each word; None for words of files.
        kept: whether the system reads each word.
        encoding: token ids of the words that it reads, and the word that each belongs to.
        unknown: whether each token is `<unk>`.
    """

    sentence: Sentence
    spans: Sequence[Span | None]
    kept: Sequence[bool]
    encoding: Encoding
    unknown: Bool[np.ndarray, " tokens"]


@dataclass(frozen=True)
class TextEncoder:
    """Encodes documents for a trained system.

    Attributes:
        trained: the system.
        as_one: whether a document is encoded as one (or in the run's segments), or each sentence by itself.
    """

    trained: Trained
    as_one: bool

    @property
    def as_sequence(self) -> bool:
        """Whether a document is one sequence of words, whose sentences the system does not see."""
        return self.as_one and not isinstance(self.trained.model, DocumentLanguageModel)

    def encoded(self, documents: Sequence[TextDocument]) -> tuple[list[list[EncodedSentence]], list[DocumentIds]]:
        """The sentences of each document, and the token ids of what is encoded at once; see `units`."""
        sentences = list(map(self.sentences, documents))
        return sentences, [unit for pair in zip(documents, sentences, strict=True) for unit in self.units(*pair)]

    def sentences(self, document: TextDocument) -> list[EncodedSentence]:
        """The sentences of a document; the first word of each text that is encoded as one begins it."""
        reading, vocabulary = self.trained.reading, self.trained.vocabulary
        sentences, begins = list[EncodedSentence](), True
        for place, sentence in enumerate(document.sentences):
            kept = reading.kept(sentence)
            words = reading.spelt(sentence, kept)
            encoding = reading.encode(words, vocabulary, begins=begins)
            spans = [None] * len(sentence.words) if document.spans is None else document.spans[place]
            sentences.append(EncodedSentence(sentence, spans, kept, encoding, encoding.ids == vocabulary.unk))
            begins = not self.as_sequence or (begins and not words)
        return sentences

    def units(self, document: TextDocument, sentences: Sequence[EncodedSentence]) -> list[DocumentIds]:
        """The token ids of what is encoded at once; sentences without tokens are left out.

        Raises:
            UserError: a sentence or a document is longer than the system can encode.
        """
        filled = [
            (sentence.encoding.ids.tolist(), place)
            for sentence, place in zip(sentences, document.places, strict=True)
            if len(sentence.encoding.ids)
        ]
        units = self.trained.reading.segments(filled) if self.as_one else [[sentence] for sentence in filled]
        if self.trained.model.longest_scored is not None:
            for unit in units:
                self._check_length(unit, self.trained.model.longest_scored)
        return [[ids for ids, _ in unit] for unit in units]

    def _check_length(self, unit: Sequence[tuple[list[int], str]], most: int) -> None:
        lengths = [len(ids) for ids, _ in unit]
        length = sum(lengths) if self.as_sequence else max(lengths)
        if length > most:
            place = unit[0 if self.as_sequence else lengths.index(length)][1]
            raise UserError(
                f"{place}: expected a {'document' if self.as_sequence else 'sentence'} of at most {most} tokens, which "
                f"is what {type(self.trained.model).__name__} of {self.trained.run} reads at once, found {length}: cut "
                f"it into shorter ones{', or leave out --reads document' if self.as_sequence else ''}."
            )
