"""How likely a system finds every arrangement of every trial, in nats over whole documents.

Documents are read as `depgen score` reads them: in the form of the run's text, of which a sentence may have no word,
and in segments where the run is tested so. Most systems read each arrangement. Where a sentence depends on the one
before it alone, the log-probabilities of all pairs of a document's sentences are computed once and every arrangement
is a look-up; where it depends on none, those of single sentences are enough, and all orders of the same sentences are
exactly as likely.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from jaxtyping import Float, Int

from depgen.data.vocabulary import Vocabulary
from depgen.evaluation.coherence.arrangements import Trial
from depgen.evaluation.reading import Reading
from depgen.evaluation.unit_scores import score_documents
from depgen.language_models.base import LanguageModel
from depgen.language_models.document import DocumentLanguageModel
from depgen.progress import progress_bar

Ids = tuple[int, ...]
LogLikelihoods = Float[np.ndarray, " arrangements"]
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
    """
    coded = [_coded(trial, vocabulary, reading) for trial in trials]

    def totals(units: Sequence[Sequence[Ids]]) -> Iterator[float]:
        """The log-likelihood of each of what is read as one."""
        scores = score_documents(model, units, vocabulary=vocabulary, tokens_per_batch=tokens_per_batch)
        return (math.fsum(np.concatenate(sentences).tolist()) for sentences in scores)

    if model.sentence_context == "none":
        of_orders = _of_single_sentences(coded, totals)
    elif isinstance(model, DocumentLanguageModel) and model.sentence_context == "previous":
        of_orders = _of_pairs(model, coded, vocabulary, reading)
    else:
        of_orders = _read(coded, totals, reading)
    total, scores = sum(len(trial.arrangements) for trial in trials), []
    with progress_bar("scoring", total=total, unit="arrangements", shown=progress) as advance:
        for trial, own in zip(coded, of_orders, strict=True):
            scores.append(np.array(own, dtype=np.float64)[trial.row_of])
            advance(len(trial.row_of))
    return scores


@dataclass(frozen=True)
class _Coded:
    """A trial as a system is given it: sentences that its vocabulary can't tell apart are one.

    Attributes:
        sentences: token ids, no two alike and none empty.
        orders: places in `sentences` of those that are read, no two rows alike.
        row_of: of each arrangement, its row in `orders`.
    """

    sentences: list[Ids]
    orders: list[tuple[int, ...]]
    row_of: Int[np.ndarray, " arrangements"]


def _coded(trial: Trial, vocabulary: Vocabulary, reading: Reading) -> _Coded:
    texts: dict[Ids, int] = {}
    place_of = []
    for sentence in trial.sentences:
        ids = tuple(reading.encode(reading.words(sentence), vocabulary).ids.tolist())
        place_of.append(texts.setdefault(ids, len(texts)) if ids else None)
    orders = [
        tuple(place for each in order if (place := place_of[each]) is not None) for order in trial.arrangements.tolist()
    ]
    rows = {order: row for row, order in enumerate(sorted({*orders}))}
    return _Coded(list(texts), list(rows), np.array([rows[order] for order in orders]))


_Totals = Callable[[Sequence[Sequence[Ids]]], Iterator[float]]
_OfOrders = Iterator[list[float]]
"""Of each trial, the log-likelihoods of its orders."""


def _of_single_sentences(coded: Sequence[_Coded], totals: _Totals) -> _OfOrders:
    """Sums over sentences that were read by themselves; the same in every order, to the last bit."""
    known = list(dict.fromkeys(chain.from_iterable(each.sentences for each in coded)))
    of_sentence = dict(zip(known, totals([[ids] for ids in known]), strict=True))
    for each in coded:
        yield [math.fsum(of_sentence[each.sentences[place]] for place in order) for order in each.orders]


def _of_pairs(
    model: DocumentLanguageModel, coded: Sequence[_Coded], vocabulary: Vocabulary, reading: Reading
) -> _OfOrders:
    """Look-ups in a table of each sentence at the beginning (column 0) and after each other one."""
    for each in coded:
        table = (
            model.pair_log_likelihoods(each.sentences, vocabulary=vocabulary) if each.sentences else np.zeros((0, 1))
        )
        yield [
            math.fsum(
                table[place, before]
                for unit in reading.segments(order)
                for place, before in zip(unit, (0, *(other + 1 for other in unit[:-1])), strict=True)
            )
            for order in each.orders
        ]


def _read(coded: Sequence[_Coded], totals: _Totals, reading: Reading) -> _OfOrders:
    """Every order is read; those of several trials at once, since batches want documents of like length."""
    for part in _in_parts(coded):
        units = [
            [reading.segments([each.sentences[place] for place in order]) for order in each.orders] for each in part
        ]
        of_units = totals([unit for orders in units for order in orders for unit in order])
        for orders in units:
            yield [math.fsum(next(of_units) for _ in order) for order in orders]


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
