"""Texts as token ids: which tokens a word has, and what a system encodes at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from depgen.data.tokenization import Span
from depgen.data.vocabulary import Encoding
from depgen.errors import UserError
from depgen.evaluation.text_documents import TextDocument
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


def encode_documents(
    trained: Trained, documents: Sequence[TextDocument], *, as_one: bool, sliding: bool = False
) -> tuple[list[list[EncodedSentence]], list[DocumentIds]]:
    """The sentences of each document, and the token ids of what a system reads at once, without empty sentences.

    Args:
        trained: the system.
        documents: of any texts.
        as_one: whether a document is read as one (or in the run's segments), or each sentence by itself.
        sliding: whether a window slides over texts that are too long.

    Raises:
        UserError: a sentence or a document is longer than the system can read.
    """
    as_sequence = as_one and not isinstance(trained.model, DocumentLanguageModel)
    encoded, units = list[list[EncodedSentence]](), list[DocumentIds]()
    for document in documents:
        sentences = _encoded(trained, document, as_sequence=as_sequence)
        filled = [
            (sentence.encoding.ids.tolist(), place)
            for sentence, place in zip(sentences, document.places, strict=True)
            if len(sentence.encoding.ids)
        ]
        for unit in trained.reading.segments(filled) if as_one else [[sentence] for sentence in filled]:
            if not sliding:
                _check_length(trained, unit, as_sequence=as_sequence)
            units.append([ids for ids, _ in unit])
        encoded.append(sentences)
    return encoded, units


def _encoded(trained: Trained, document: TextDocument, *, as_sequence: bool) -> list[EncodedSentence]:
    """The sentences of a document; the first word of each text that is read as one begins it."""
    reading, sentences, begins = trained.reading, list[EncodedSentence](), True
    for sentence, spans in zip(document.sentences, document.spans_of_sentences, strict=True):
        kept = reading.kept(sentence)
        words = reading.spelt(sentence, kept)
        encoding = reading.encode(words, trained.vocabulary, begins=begins)
        sentences.append(EncodedSentence(sentence, spans, kept, encoding, encoding.ids == trained.vocabulary.unk))
        begins = not as_sequence or (begins and not words)
    return sentences


def _check_length(trained: Trained, unit: Sequence[tuple[list[int], str]], *, as_sequence: bool) -> None:
    most, lengths = trained.model.longest_scored, [len(ids) for ids, _ in unit]
    length = sum(lengths) if as_sequence else max(lengths)
    if most is not None and length > most:
        place = unit[0 if as_sequence else lengths.index(length)][1]
        raise UserError(
            f"{place}: expected a {'document' if as_sequence else 'sentence'} of at most {most} tokens, which is what "
            f"{type(trained.model).__name__} of {trained.run} reads at once, found {length}: cut it into shorter ones"
            f"{', or leave out --reads document' if as_sequence else ''}."
        )
