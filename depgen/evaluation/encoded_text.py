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

    def encoded(self, documents: Sequence[TextDocument]) -> tuple[list[list[EncodedSentence]], list[DocumentIds]]:
        """The sentences of each document, and the token ids of what is encoded at once; see `units`."""
        sentences = list(map(self.sentences, documents))
        return sentences, [unit for pair in zip(documents, sentences, strict=True) for unit in self.units(*pair)]

    def sentences(self, document: TextDocument) -> list[EncodedSentence]:
        """The sentences of a document; the first word of each text that is encoded as one begins it."""
        vocabulary, found = self.trained.vocabulary, list[EncodedSentence]()
        together, begins = self.as_one and not isinstance(self.trained.model, DocumentLanguageModel), True
        for sentence, spans in zip(document.sentences, document.spans_of_sentences, strict=True):
            kept = self.trained.reading.kept(sentence)
            words = self.trained.reading.spelt(sentence, kept)
            encoding = self.trained.reading.encode(words, vocabulary, begins=begins)
            found.append(EncodedSentence(sentence, spans, kept, encoding, encoding.ids == vocabulary.unk))
            begins = begins and not words if together else True
        return found

    def units(self, document: TextDocument, sentences: Sequence[EncodedSentence]) -> list[DocumentIds]:
        """The token ids of what is encoded at once; sentences without tokens are left out.

        Raises:
            UserError: a sentence or a document is longer than the system can encode.
        """
        filled = [
            (ids, place)
            for each, place in zip(sentences, document.places, strict=True)
            if (ids := each.encoding.ids.tolist())
        ]
        parts = self.trained.reading.segments(filled) if self.as_one else [[each] for each in filled]
        return [self._unit(part) for part in parts]

    def _unit(self, sentences: Sequence[tuple[list[int], str]]) -> DocumentIds:
        model = self.trained.model
        together = self.as_one and not isinstance(model, DocumentLanguageModel)
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
