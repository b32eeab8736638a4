"""The hidden state of each word of a text, from the states of its tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from depgen.evaluation.encoded_text import EncodedSentence, TextEncoder
from depgen.evaluation.tabular import Results, Row, Tabular
from depgen.evaluation.text_documents import Span, TextDocument
from depgen.evaluation.token_states import States, token_states

Pooling = Literal["last", "first", "mean"]
"""Which of the states of a word's tokens is the word's: that of the last, that of the first, or the mean of all."""


@dataclass(frozen=True, eq=False)
class SentenceStates:
    """A sentence's words with their states.

    Attributes:
        words: of the text.
        states: a row for each word; NaN for words that the system does not read.
        tokens: how many tokens each word has; 0 for words that the system does not read.
        spans: the characters of each word in the text; None in files.
    """

    words: tuple[str, ...]
    states: Float[np.ndarray, "words width"]
    tokens: tuple[int, ...]
    spans: tuple[Span | None, ...]


@dataclass(frozen=True, eq=False)
class TextStates(Tabular):
    """The states of a text's words, sentence by sentence.

    Attributes:
        identifier: of the text.
        sentences: in the order of the text.
    """

    identifier: str
    sentences: tuple[SentenceStates, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The words of all sentences."""
        return tuple(chain.from_iterable(sentence.words for sentence in self.sentences))

    @property
    def states(self) -> Float[np.ndarray, "words width"]:
        """The states of all words, a row for each."""
        return np.concatenate([sentence.states for sentence in self.sentences] or [np.empty((0, 0))])

    def rows(self) -> list[Row]:
        """A row for each word, a column `state_0`, … for each dimension; sentences and positions count from 1."""
        return [
            {
                "sentence": number,
                "position": position + 1,
                "word": word,
                "tokens": sentence.tokens[position],
                **({} if (span := sentence.spans[position]) is None else {"start": span[0], "end": span[1]}),
                **{f"state_{dimension}": value for dimension, value in enumerate(state.tolist())},
            }
            for number, sentence in enumerate(self.sentences, start=1)
            for position, (word, state) in enumerate(zip(sentence.words, sentence.states, strict=True))
        ]


@dataclass(frozen=True, eq=False)
class HiddenStates(Results[TextStates]):
    """The states of the words of texts, in the order in which the texts were given.

    Attributes:
        layer: of the states.
        pooling: which of the states of a word's tokens is the word's.
    """

    layer: int = -1
    pooling: Pooling = "last"

    def rows(self) -> list[Row]:
        """A row for each word, a column `state_0`, … for each dimension; documents, sentences, positions from 1."""
        return [{"document": number, **row} for number, text in enumerate(self.texts, start=1) for row in text.rows()]


def states_of_documents(
    encoder: TextEncoder,
    documents: Sequence[TextDocument],
    *,
    layer: int,
    pooling: Pooling,
    tokens_per_batch: int,
    batch_size: int | None,
    progress: bool,
) -> HiddenStates:
    """The states of all words of documents.

    Raises:
        UserError: the system has no states of words, no such layer, or can't encode a text of this length.
    """
    encoded, units = encoder.encoded(documents)
    states = token_states(
        encoder.trained.model, units, vocabulary=encoder.trained.vocabulary, layer=layer,
        tokens_per_batch=tokens_per_batch, batch_size=batch_size, progress=progress,
    )  # fmt: skip
    found = chain.from_iterable(states)
    width = states[0][0].shape[1] if states else 0
    texts = (
        TextStates(document.identifier, tuple(_of_words(each, found, width, pooling) for each in sentences))
        for document, sentences in zip(documents, encoded, strict=True)
    )
    return HiddenStates(tuple(texts), layer, pooling)


def _of_words(sentence: EncodedSentence, found: Iterator[States], width: int, pooling: Pooling) -> SentenceStates:
    """A sentence's words with the next states found, if it has tokens."""
    kept, owner = np.array(sentence.kept, dtype=bool), sentence.encoding.word_of_piece
    states = np.full((len(kept), width), np.nan, dtype=np.float32)
    tokens = np.zeros(len(kept), dtype=np.int64)
    if len(owner):
        of_tokens = next(found)
        states = states.astype(of_tokens.dtype)
        states[kept] = pooled(of_tokens, owner, pooling)
        tokens[kept] = np.bincount(owner)
    return SentenceStates(sentence.sentence.words, states, tuple(tokens.tolist()), tuple(sentence.spans))


def pooled(states: States, owner: Int[np.ndarray, " tokens"], pooling: Pooling) -> Float[np.ndarray, "words width"]:
    """The state of each word, from those of its tokens.

    >>> pooled(np.array([[1.0], [2.0], [4.0]]), np.array([0, 1, 1]), "mean").tolist()
    [[1.0], [3.0]]
    """
    counts = np.bincount(owner)
    last = np.cumsum(counts) - 1
    first = last - counts + 1
    if pooling == "mean":
        sums: States = np.add.reduceat(states, first)
        found: States = sums / counts[:, None].astype(states.dtype)
    else:
        found = states[{"last": last, "first": first}[pooling]]
    return found
