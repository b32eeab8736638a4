"""Bootstrap intervals over items, of a table's numbers and of what one system gains over another.

Percentile intervals of the mean over seeds; items are resampled, the same ones for all seeds and pieces of one document
together, while the trained models and, in Self-BLEU, the texts that each was compared with stay.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from depgen.metrics.significance import bootstrap_means, by_group, percentile_interval
from depgen.reporting.results import item_documents, seed_scores
from depgen.reporting.store import Bounds, Ours, RecordedIntervals

CONFIDENCE = 0.95
RESAMPLES = 2000
SEED = 0
AGREEMENT = 1e-3
"""How far, relative, a figure may lie from what its items give."""


Place = tuple[str, str]
"""A row's name and a measure's key."""


@dataclass(frozen=True)
class _Scored:
    """The item scores of a number of the table, one series a seed; of pieces of documents, those of each document."""

    scores: Float[np.ndarray, "items seeds"]
    weights: Float[np.ndarray, "items seeds"]
    exponential: bool
    documents: Int[np.ndarray, " pieces"] | None

    def figure(self, means: Float[np.ndarray, "*resamples seeds"]) -> Float[np.ndarray, "*resamples"]:
        """The number, over all seeds, that means over items give."""
        return np.asarray((np.exp(means) if self.exponential else means).mean(axis=-1))


def intervals(ours: Ours) -> dict[Place, tuple[Bounds, frozenset[int]]]:
    """The interval of each number and the seeds whose items it is over; the same on every call.

    It is from item scores where all seeds have them, else as recorded.
    """
    definition = ours.definition
    scored = _scored(ours, [(row.name, column.key) for row in definition.rows for column in definition.columns])
    found = {
        place: (percentile_interval(each, confidence=CONFIDENCE), frozenset(ours.figures[place].values))
        for place, each in _resampled(scored).items()
    }
    for line in (each for each in ours.recorded if isinstance(each, RecordedIntervals)):
        for key, ends in line.intervals.items():
            figure = ours.figure(line.row, key)
            if ours.source(line.row) == "measured" and figure is not None and line.seeds >= set(figure.values):
                found.setdefault((line.row, key), (ends, line.seeds))
    return found


def gain_intervals(ours: Ours, pairs: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str, str], Bounds]:
    """By row, other row and measure, the interval of the gain, where both have item scores of the same items.

    Both systems are resampled at once: the difference is that of the two numbers on the same items.
    """
    directions = {
        each.key: 1 if each.higher_better else -1 for each in ours.definition.columns if each.test != "welch_t"
    }
    paired = [pair for pair in pairs if pair[2] in directions]
    scored = _scored(ours, dict.fromkeys((name, key) for row, other, key in paired for name in (row, other)))
    resampled, found = _resampled(scored), {}
    for row, other, key in paired:
        mine, theirs = (row, key), (other, key)
        if mine in scored and theirs in scored and _of_the_same_items(scored[mine], scored[theirs]):
            gains = (resampled[mine] - resampled[theirs]) * directions[key]
            found[row, other, key] = percentile_interval(gains, confidence=CONFIDENCE)
    return found


def _of_the_same_items(mine: _Scored, theirs: _Scored) -> bool:
    """Whether two systems' numbers are over equally many items, or over pieces of the same documents."""
    if mine.documents is None or theirs.documents is None:
        return mine.documents is theirs.documents and len(mine.scores) == len(theirs.scores)
    return np.array_equal(mine.documents, theirs.documents)


def _resampled(scored: Mapping[Place, _Scored]) -> dict[Place, Float[np.ndarray, " resamples"]]:
    """Each number on the same resamples of the items of all that have as many."""
    found = {}
    for items in sorted({len(each.scores) for each in scored.values()}):
        of_size = {place: each for place, each in scored.items() if len(each.scores) == items}
        means = bootstrap_means(
            np.concatenate([each.scores for each in of_size.values()], axis=1),
            np.concatenate([each.weights for each in of_size.values()], axis=1),
            resamples=RESAMPLES,
            seed=SEED,
        )
        ends = np.cumsum([each.scores.shape[1] for each in of_size.values()])
        for (place, each), part in zip(of_size.items(), np.split(means, ends[:-1], axis=1), strict=True):
            found[place] = each.figure(part)
    return found


def _scored(ours: Ours, places: Iterable[Place]) -> dict[Place, _Scored]:
    """The numbers at these places that have their items."""
    found = {place: _scored_at(ours, place) for place in places}
    return {place: each for place, each in found.items() if each is not None}


def _scored_at(ours: Ours, place: Place) -> _Scored | None:
    """A number with its items; None where a seed lacks them, or they give another number."""
    results, figure, column = ours.results_of(*place), ours.figure(*place), ours.definition.column(place[1])
    name = column.items or column.key
    if figure is None:
        return None
    scores = seed_scores(results, name)
    weights = scores if column.weighed_by is None else seed_scores(results, column.weighed_by)
    if scores is None or weights is None or weights.shape != scores.shape:
        return None
    weights = np.where(np.isnan(scores), 0.0, np.ones_like(scores) if column.weighed_by is None else weights)
    documents = item_documents(results, name)
    if documents is not None:
        scores, weights = by_group(scores, weights, documents)
    if len(scores) < 2 or (weights.sum(axis=0) <= 0).any():
        return None
    found = _Scored(scores, weights, column.is_perplexity, documents)
    given = float(found.figure((np.where(weights > 0, scores, 0.0) * weights).sum(axis=0) / weights.sum(axis=0)))
    return found if math.isclose(given, figure.mean, rel_tol=AGREEMENT, abs_tol=1e-9) else None
