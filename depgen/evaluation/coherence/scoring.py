"""How likely a system finds every arrangement of every trial, in nats over whole documents.

Documents are read as `depgen score` reads them: in the form of the run's text, of which a sentence may have no word,
and in segments where the run is tested so. Most systems read each arrangement. Where a sentence depends on the one
before it alone, the log-probabilities of all pairs of a document's sentences are computed once and every arrangement
is a look-up; where it depends on none, those of single sentences are enough, and all orders of the same sentences are
exactly as likely.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np
from jaxtyping import Float, Int

from depgen.data.vocabulary import Vocabulary
from depgen.evaluation.coherence.arrangements import Trial
from depgen.evaluation.reading import Reading
from depgen.evaluation.unit_scores import DocumentIds, score_documents
from depgen.language_models.base import LanguageModel
from depgen.language_models.document import DocumentLanguageModel
from depgen.progress import progress_bar

Ids = tuple[int, ...]
LogLikelihoods = Float[np.ndarray, " _"]
TOKENS_AT_A_TIME = 1 << 20
"""Read by one call: batches enough for documents of like length, and a progress bar that moves."""


def score_trials(
    model: LanguageModel,
    trials: Sequence[Trial],
    *,
    vocabulary: Vocabulary,
    reading: Reading = Reading(),  # noqa: B008 - frozen
    tokens_per_batch: int = 65_536,
    progress: bool = False,
) -> list[LogLikelihoods]:
    """The log-likelihood of each trial's arrangements; those that are the same to the vocabulary have the same.

    Args:
        model: a system in evaluation mode.
        trials: of a corpus.
        vocabulary: that it was trained with.
        reading: how the system is given documents.
        tokens_per_batch: of `score_documents`.
        progress: show a progress bar.

    Raises:
        UserError: the system gives texts no likelihood, or can't read documents of this length.
    """
    coded = [_Coded(trial, vocabulary, reading) for trial in trials]
    if model.sentence_context == "none":
        return list(_of_single_sentences(model, coded, vocabulary, tokens_per_batch, progress))
    total = sum(len(trial.arrangements) for trial in trials)
    with progress_bar("scoring", total=total, unit="arrangements", shown=progress) as advance:
        if isinstance(model, DocumentLanguageModel) and model.sentence_context == "previous":
            return list(_of_pairs(model, coded, vocabulary, advance))
        return list(_read(model, coded, vocabulary, tokens_per_batch, advance))


class _Coded:
    """A trial as a system is given it: sentences that its vocabulary can't tell apart are one.

    Attributes:
        reading: how the system is given documents.
        sentences: token ids, no two alike and none empty.
        orders: places in `sentences`, no two rows alike; -1 after the last where sentences are not read.
        row_of: of each arrangement, its row in `orders`.
    """

    def __init__(self, trial: Trial, vocabulary: Vocabulary, reading: Reading) -> None:
        self.reading = reading
        texts: dict[Ids, int] = {}
        place_of = []
        for sentence in trial.sentences:
            ids = tuple(reading.encode(reading.words(sentence), vocabulary).ids.tolist())
            place_of.append(texts.setdefault(ids, len(texts)) if ids else -1)
        self.sentences = list(texts)
        orders = np.array(place_of)[trial.arrangements]
        orders = np.take_along_axis(orders, np.argsort(orders < 0, axis=1, kind="stable"), axis=1)
        self.orders: Int[np.ndarray, "orders length"]
        self.orders, row_of = np.unique(orders, axis=0, return_inverse=True)
        self.row_of: Int[np.ndarray, " arrangements"] = row_of.reshape(-1)

    @property
    def read(self) -> list[list[int]]:
        """The sentences of each order that are read, as places."""
        return [[place for place in order if place >= 0] for order in self.orders.tolist()]

    @property
    def units(self) -> list[list[DocumentIds]]:
        """What is read as one, in each order."""
        return [self.reading.segments([self.sentences[place] for place in order]) for order in self.read]

    @property
    def before(self) -> list[list[int]]:
        """What each sentence of an order follows: 0 at the beginning of what is read as one, else place + 1."""
        return [
            [place for unit in self.reading.segments(order) for place in (0, *(each + 1 for each in unit[:-1]))]
            for order in self.read
        ]

    def log_likelihoods(self, of_orders: Sequence[float]) -> LogLikelihoods:
        return np.take(np.array(of_orders, dtype=np.float64), self.row_of)


def _of_single_sentences(
    model: LanguageModel,
    coded: Sequence[_Coded],
    vocabulary: Vocabulary,
    tokens_per_batch: int,
    progress: bool,
) -> Iterator[LogLikelihoods]:
    """Sums over sentences that were read by themselves; the same in every order, to the last bit."""
    known = {ids: place for place, ids in enumerate(dict.fromkeys(chain.from_iterable(c.sentences for c in coded)))}
    scores = score_documents(
        model, [[ids] for ids in known], vocabulary=vocabulary, tokens_per_batch=tokens_per_batch, progress=progress
    )
    found = np.array([_total(each) for each in scores])
    for each in coded:
        own = found[[known[ids] for ids in each.sentences]]
        yield each.log_likelihoods([math.fsum(own[order]) for order in each.read])


def _of_pairs(
    model: DocumentLanguageModel, coded: Sequence[_Coded], vocabulary: Vocabulary, advance: Callable[[int], None]
) -> Iterator[LogLikelihoods]:
    """Look-ups in a table of each sentence at the beginning (column 0) and after each other one."""
    for each in coded:
        table = (
            model.pair_log_likelihoods(each.sentences, vocabulary=vocabulary) if each.sentences else np.zeros((0, 1))
        )
        orders = zip(each.read, each.before, strict=True)
        yield each.log_likelihoods([math.fsum(table[order, before].tolist()) for order, before in orders])
        advance(len(each.row_of))


def _read(
    model: LanguageModel,
    coded: Sequence[_Coded],
    vocabulary: Vocabulary,
    tokens_per_batch: int,
    advance: Callable[[int], None],
) -> Iterator[LogLikelihoods]:
    """Every order is read; those of several trials at once, since batches want documents of like length."""
    for some in _in_parts(coded):
        units = [each.units for each in some]
        read = [unit for orders in units for order in orders for unit in order]
        totals = map(_total, score_documents(model, read, vocabulary=vocabulary, tokens_per_batch=tokens_per_batch))
        for each, orders in zip(some, units, strict=True):
            yield each.log_likelihoods([math.fsum(next(totals) for _ in order) for order in orders])
            advance(len(each.row_of))


def _in_parts(coded: Sequence[_Coded]) -> Iterator[list[_Coded]]:
    """Trials in order, some at a time, each lot of about `TOKENS_AT_A_TIME`."""
    part: list[_Coded] = []
    tokens = 0
    for each in coded:
        part.append(each)
        tokens += sum(map(len, each.sentences)) * len(each.orders)
        if tokens >= TOKENS_AT_A_TIME:
            yield part
            part, tokens = [], 0
    if part:
        yield part


def _total(sentences: Sequence[Float[np.ndarray, " _"]]) -> float:
    return math.fsum(np.concatenate(sentences).tolist())
