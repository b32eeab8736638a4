"""Bootstrap intervals over items, of a table's numbers and of what one system gains over another.

Percentile intervals of the mean over seeds; items are resampled, the same ones for all seeds and pieces of one document
together, while the trained models and, in Self-BLEU, the texts that each was compared with stay.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from depgen.metrics.significance import bootstrap_means, by_group, percentile_interval
from depgen.reporting.compare import SystemComparison
from depgen.reporting.definition import Column, Row
from depgen.reporting.results import item_documents, seed_scores
from depgen.reporting.store import Bounds, Ours

CONFIDENCE = 0.95
RESAMPLES = 2000
SEED = 0
AGREEMENT = 1e-3
"""How far, relative, a figure may lie from what its items give."""


@dataclass(frozen=True)
class _Scored:
    """The item scores of a number of the table, one series a seed; of pieces of documents, those of each document."""

    row: str
    column: str
    scores: Float[np.ndarray, "items seeds"]
    weights: Float[np.ndarray, "items seeds"]
    exponential: bool
    documents: Int[np.ndarray, " pieces"] | None

    def figure(self, means: Float[np.ndarray, "*resamples seeds"]) -> Float[np.ndarray, "*resamples"]:
        """The number, over all seeds, that means over items give."""
        return np.asarray((np.exp(means) if self.exponential else means).mean(axis=-1))


Resampled = Mapping[tuple[str, str], Float[np.ndarray, " resamples"]]


def intervals(ours: Ours) -> dict[tuple[str, str], tuple[Bounds, frozenset[int]]]:
    """By row and column, the interval of each number and the seeds whose items it is over; the same on every call.

    It is from item scores where all seeds have them, else as recorded.
    """
    found = {
        (row, column): (_bounds(each), frozenset(ours.figures[row, column].values))
        for (row, column), each in _resampled(_all_scored(ours)).items()
    }
    for (row, column), recorded in ours.recorded.intervals.items():
        figure = ours.figure(row, column)
        if ours.source(row) == "measured" and figure is not None and recorded[1] >= set(figure.values):
            found.setdefault((row, column), recorded)
    return found


def with_intervals(ours: Ours, comparisons: Sequence[SystemComparison]) -> list[SystemComparison]:
    """The comparisons, with the interval of each gain where both numbers have item scores of the same items.

    Both systems are resampled at once: the difference is that of the two numbers on the same items.
    """
    figures = {(each.row, each.column): each for each in _all_scored(ours)}
    compared = {(name, item.column) for item in comparisons for name in (item.row, item.other)}
    resampled = _resampled([figure for place, figure in figures.items() if place in compared])
    found = []
    for item in comparisons:
        mine, theirs = ((name, item.column) for name in (item.row, item.other))
        column = ours.definition.column(item.column)
        if mine in resampled and theirs in resampled and _paired(figures[mine], figures[theirs], item, column):
            gains = (resampled[mine] - resampled[theirs]) * (1 if column.higher_better else -1)
            item = dataclasses.replace(item, interval=_bounds(gains))
        found.append(item)
    return found


def _paired(mine: _Scored, theirs: _Scored, item: SystemComparison, column: Column) -> bool:
    """Whether two systems' numbers compare, and are over the same items or pieces of the same documents."""
    if item.incomparable is not None or column.test == "welch_t" or len(mine.scores) != len(theirs.scores):
        return False
    if mine.documents is None or theirs.documents is None:
        return mine.documents is theirs.documents
    return np.array_equal(mine.documents, theirs.documents)


def _bounds(resampled: Float[np.ndarray, " resamples"]) -> Bounds:
    return percentile_interval(resampled, confidence=CONFIDENCE)


def _all_scored(ours: Ours) -> list[_Scored]:
    """Every number of the table that has its items."""
    definition = ours.definition
    found = (_scored(ours, row, column) for row in definition.rows for column in definition.columns)
    return [figure for figure in found if figure is not None]


def _resampled(figures: Sequence[_Scored]) -> Resampled:
    """Each number, by row and column, on the same resamples of the items of all that have as many."""
    found = {}
    for items in sorted({len(figure.scores) for figure in figures}):
        of_size = [figure for figure in figures if len(figure.scores) == items]
        means = bootstrap_means(
            np.concatenate([figure.scores for figure in of_size], axis=1),
            np.concatenate([figure.weights for figure in of_size], axis=1),
            resamples=RESAMPLES,
            seed=SEED,
        )
        ends = np.cumsum([figure.scores.shape[1] for figure in of_size])
        for figure, part in zip(of_size, np.split(means, ends[:-1], axis=1), strict=True):
            found[figure.row, figure.column] = figure.figure(part)
    return found


def _scored(ours: Ours, row: Row, column: Column) -> _Scored | None:
    """A number with its items; None where a seed lacks them, or they give another number."""
    results, figure = ours.results_of(row.name, column.key), ours.figure(row.name, column.key)
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
    found = _Scored(row.name, column.key, scores, weights, column.is_perplexity, documents)
    given = float(found.figure((np.where(weights > 0, scores, 0.0) * weights).sum(axis=0) / weights.sum(axis=0)))
    return found if math.isclose(given, figure.mean, rel_tol=AGREEMENT, abs_tol=1e-9) else None
