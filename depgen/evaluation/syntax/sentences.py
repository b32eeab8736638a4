"""The log-probability of each token of a sentence, with the place in the sentence where its word begins."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64, Int

from depgen.errors import UserError
from depgen.evaluation.encoded_text import EncodedSentence, TextEncoder
from depgen.evaluation.system import System
from depgen.evaluation.text_documents import TextDocument, Tokens, document_of
from depgen.evaluation.unit_scores import DocumentIds, score_documents

Protocol = Literal["plain", "paper"]
"""`paper`: that of the GiLT paper; `plain`: whole sentences, all pairs and all predictions."""


@dataclass(frozen=True)
class TestSentence:
    """A sentence of a benchmark.

    Attributes:
        place: file and line or item, for messages.
        text: with single blanks.
    """

    place: str
    text: str
    __test__ = False  # not a test case


@dataclass(frozen=True)
class ScoredSentence:
    """A sentence as a system scores it.

    Attributes:
        ids: of the tokens that it reads; sentences of the same ids have the very same scores.
        starts: of each token, the character of the text at which its word begins.
        log_probs: nats, of each token.
        unknown: whether each token is `<unk>`.
        end: nats of the end of the sentence; None where the system predicts none.
    """

    ids: tuple[int, ...]
    starts: Int[np.ndarray, " tokens"]
    log_probs: Float64[np.ndarray, " tokens"]
    unknown: Bool[np.ndarray, " tokens"]
    end: float | None

    def log_prob(self, *, with_end: bool) -> float:
        """Nats of the sentence."""
        return float(self.log_probs.sum()) + (self.end if with_end and self.end is not None else 0.0)

    def length(self, *, with_end: bool) -> int:
        """Tokens that `log_prob` sums over."""
        return len(self.ids) + (with_end and self.end is not None)


def one_line(text: str) -> str:
    r"""The text with single blanks and none at its ends.

    >>> one_line(" the  cat\n sat ")
    'the cat sat'
    """
    return " ".join(text.split())


def usual_tokens(protocol: Protocol, system: System) -> Tokens:
    """How words are separated if no option says it: by rules for runs in the plain protocol, as in most corpora."""
    return "rules" if protocol == "plain" and system.checkpoint != system.run else "whitespace"


def documents_of(sentences: Sequence[TestSentence], tokens: Tokens) -> list[TextDocument]:
    """Each sentence as a document of one sentence, which knows its place."""
    return [replace(document_of(each.text, tokens=tokens), places=(each.place,)) for each in sentences]


def score_sentences(
    system: System,
    sentences: Sequence[TestSentence],
    *,
    tokens: Tokens,
    tokens_per_batch: int | None = None,
    progress: bool = False,
) -> list[ScoredSentence]:
    """The sentences with the score of each token; each is read by itself.

    Sentences of the same token ids are scored once, so that they tie exactly.

    Raises:
        UserError: the system gives texts no likelihood, can't read a sentence, reads none of its words, or gives a
            token a score that is no number.
    """
    encoder = TextEncoder(system, system.reads_documents())
    read: list[EncodedSentence] = []
    places: dict[tuple[int, ...], int] = {}
    units: list[DocumentIds] = []
    for sentence, document in zip(sentences, documents_of(sentences, tokens), strict=True):
        found = encoder.sentences(document)
        ids = tuple(found[0].encoding.ids.tolist()) if found else ()
        if not ids:
            raise UserError(
                f"{sentence.place}: the system reads no word of {sentence.text!r} in the form "
                f"`{system.reading.known_form}`: name another by --form, or leave the sentence out."
            )
        read.append(found[0])
        if ids not in places:
            places[ids] = len(units)
            units += encoder.units(document, found)
    scores = score_documents(
        system.model, units, vocabulary=system.vocabulary, tokens_per_batch=tokens_per_batch, progress=progress
    )
    return [
        _scored(each, scores[places[tuple(each.encoding.ids.tolist())]][0].astype(np.float64), sentence.place)
        for each, sentence in zip(read, sentences, strict=True)
    ]


def _scored(sentence: EncodedSentence, log_probs: Float64[np.ndarray, " scores"], place: str) -> ScoredSentence:
    """A sentence with its tokens' scores, the last of which may be the end's.

    Raises:
        UserError: a score is no number.
    """
    ids, owner = sentence.encoding.ids, sentence.encoding.word_of_piece
    if np.isnan(log_probs).any():
        raise UserError(
            f"{place}: expected log-probabilities, found nan: the system's weights are damaged. Take another "
            "checkpoint of the run."
        )
    starts = np.array([span[0] for span, kept in zip(sentence.spans, sentence.kept, strict=True) if kept and span])
    end = float(log_probs[len(ids)]) if len(log_probs) > len(ids) else None
    return ScoredSentence(tuple(ids.tolist()), starts[owner], log_probs[: len(ids)], sentence.unknown, end)
