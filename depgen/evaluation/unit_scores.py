"""How likely a system finds documents: every token of every sentence, in batches of documents of like length."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import nn

from depgen.data.sampler import budget_starts
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError, check_at_least
from depgen.evaluation.trained import Trained
from depgen.language_models.base import LanguageModel
from depgen.language_models.document import DocumentLanguageModel
from depgen.progress import progress_bar

DocumentIds = Sequence[Sequence[int]]
"""Token ids of a document's sentences, without beginning and end; none is empty."""
TOKENS_AT_ONCE, TOKENS_AT_ONCE_ON_CPU = 8192, 1024
"""Tokens of a batch, padding included, where a caller names no number."""


def score_documents(
    model: LanguageModel,
    documents: Sequence[DocumentIds],
    *,
    vocabulary: Vocabulary,
    tokens_per_batch: int | None = None,
    batch_size: int | None = None,
    progress: bool = False,
) -> list[list[Float[np.ndarray, " tokens"]]]:
    """Log-probabilities (nats) of each document's tokens, sentence by sentence, whatever the batches.

    Documents of the same tokens are read once, so that they tie exactly. What kind the scores are says
    `model.likelihood`, and which tokens there are `LanguageModel.sentence_log_probs`.

    Args:
        model: a system in evaluation mode.
        documents: what it reads as one each; sentences to be read by themselves are documents of one sentence.
        vocabulary: that it was trained with.
        tokens_per_batch: padding included; a longer document is a batch by itself. None: see `tokens_at_once`.
        batch_size: the most documents in a batch; None: any number.
        progress: show a progress bar.

    Raises:
        UserError: the system gives texts no likelihood, or can't read documents of this length.
    """
    assert not model.training, "scores are those of evaluation"
    keys = [tuple(map(tuple, document)) for document in documents]
    different = list(dict.fromkeys(keys))
    batches = _alike if model.likelihood == "bound" else batches_of
    scores: dict[tuple[tuple[int, ...], ...], list[Float[np.ndarray, " tokens"]]] = {}
    with progress_bar("scoring", total=len(different), unit="documents", shown=progress) as advance:
        for places in batches(
            different, tokens_per_batch=tokens_per_batch or tokens_at_once(model), batch_size=batch_size
        ):
            batch = [different[place] for place in places]
            with torch.autocast(model.device.type, enabled=False):
                scores |= zip(batch, model.sentence_log_probs(batch, vocabulary=vocabulary), strict=True)
            advance(len(places))
    return [scores[key] for key in keys]


def tokens_at_once(model: LanguageModel) -> int:
    """The tokens of a batch that a system scores fast.

    On a CPU the hidden states of a small batch stay in the caches. A system that encodes documents sentence by sentence
    needs larger batches, because each of its steps computes one word of each document.
    """
    small = model.device.type == "cpu" and not isinstance(model, DocumentLanguageModel)
    return TOKENS_AT_ONCE_ON_CPU if small else TOKENS_AT_ONCE


def batches_of(
    documents: Sequence[DocumentIds], *, tokens_per_batch: int, batch_size: int | None = None
) -> Iterator[list[int]]:
    """The places of documents of like length, which are scored at once."""
    lengths = np.array([sum(len(ids) + 1 for ids in document) for document in documents], dtype=np.int64)
    return batches_of_lengths(lengths, tokens_per_batch=tokens_per_batch, batch_size=batch_size)


def batches_of_lengths(
    lengths: Int[np.ndarray, " items"], *, tokens_per_batch: int, batch_size: int | None = None
) -> Iterator[list[int]]:
    """The places of items of like length whose padded size is within the budget; a longer item is a batch by itself.

    >>> list(batches_of_lengths(np.array([1, 7, 2, 1]), tokens_per_batch=4))
    [[0, 3], [2], [1]]
    """
    by_length = np.argsort(lengths, kind="stable")
    starts = budget_starts(lengths[by_length].tolist(), tokens_per_batch, most=batch_size)
    for start, end in pairwise([*starts, len(lengths)]):
        yield by_length[start:end].tolist()


def _alike(
    documents: Sequence[DocumentIds], *, tokens_per_batch: int, batch_size: int | None = None
) -> Iterator[list[int]]:
    """The places of documents that begin alike, for systems that search these once."""
    batch, tokens = list[int](), 0
    for place in sorted(range(len(documents)), key=lambda place: [*chain(*documents[place])]):
        size = sum(len(ids) + 1 for ids in documents[place])
        if batch and (tokens + size > tokens_per_batch or len(batch) == batch_size):
            yield batch
            batch, tokens = [], 0
        batch, tokens = [*batch, place], tokens + size
    if batch:
        yield batch


def sequence_losses(
    trained: Trained, sequences: Sequence[Int[np.ndarray, " _"]], *, tokens_per_batch: int | None = None
) -> list[Float[np.ndarray, " tokens"]]:
    """The negative log-likelihood (nats) of each token of sequences that are read by themselves, their ends included.

    Args:
        trained: a run's system.
        sequences: token ids, without beginning and end; none is empty.
        tokens_per_batch: see `score_documents`.

    Raises:
        UserError: the system's likelihood is none or not exact, or it can't read sequences of this length.
    """
    trained.check_exact()
    documents = [[ids.tolist()] for ids in sequences]
    scores = score_documents(trained.model, documents, vocabulary=trained.vocabulary, tokens_per_batch=tokens_per_batch)
    return [-found.astype(np.float64) for (found,) in scores]


@contextmanager
def beam_of(model: nn.Module, size: int | None) -> Iterator[int | None]:
    """Gives a system whose scores are bounds a beam of this size, and its own back afterwards; yields what counts.

    Raises:
        UserError: a size is named, but the system's scores are no bounds by a beam.
    """
    check_at_least(1, beam_size=size)
    system: Any = model
    own = getattr(system, "beam_size", None) if getattr(model, "likelihood", None) == "bound" else None
    if own is None and size is not None:
        raise UserError(
            f"beam_size is of systems whose scores are bounds by a beam, and those of {type(model).__name__} are none: "
            "leave it out."
        )
    if own is not None:
        system.beam_size = size or own
    try:
        yield own and system.beam_size
    finally:
        if own is not None:
            system.beam_size = own


def as_words(beam_size: int | None) -> str:
    """What a log line says of a beam: nothing without one.

    >>> as_words(20)
    ' (beam 20)'
    """
    return "" if beam_size is None else f" (beam {beam_size})"
