"""Bootstrap intervals of a table's numbers, and of what one system gains over another: how far they might lie
elsewhere had the test split other items.

Percentile intervals of the mean over seeds; items are resampled, the same ones for all seeds and pieces of one document
together, while the trained models and, in Self-BLEU, the texts that each was compared with stay. Where only some seeds
have items, these say how far the mean over all seeds might lie elsewhere.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from depgen.metrics.significance import bootstrap_means, by_group
from depgen.reporting.comparison import Results, SystemComparison, scored, summarise
from depgen.reporting.definition import Column, Row, TableDefinition
from depgen.reporting.results import Result, item_documents, seed_scores

CONFIDENCE = 0.95
RESAMPLES = 2000
SEED = 0
AGREEMENT = 1e-3
"""How far, relative, a figure may lie from what its items give."""

Bounds = Mapping[str, tuple[float, float]]
"""Low and high end by column key."""


@dataclass(frozen=True)
class _Figure:
    """A number of the table, one series a seed; where items are pieces of documents, over these, and with theirs.

    `beyond` is by how much the seeds without items move the mean.
    """

    row: str
    column: str
    scores: Float[np.ndarray, "items seeds"]
    weights: Float[np.ndarray, "items seeds"]
    exponential: bool
    documents: Int[np.ndarray, " pieces"] | None
    beyond: float

    def of(self, means: Float[np.ndarray, "*resamples seeds"]) -> Float[np.ndarray, "*resamples"]:
        """The number that means over items stand for, over all seeds."""
        return np.asarray((np.exp(means) if self.exponential else means).mean(axis=-1) + self.beyond)


def intervals(definition: TableDefinition, results: Results) -> dict[str, Bounds]:
    """By row, the interval of each number with item scores that give it; the same on every call."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for (row, column), resampled in _resampled(_figures(definition, results)).items():
        found.setdefault(row, {})[column] = _bounds(resampled)
    return dict(found)


def with_intervals(
    definition: TableDefinition, results: Results, comparisons: Sequence[SystemComparison]
) -> list[SystemComparison]:
    """The comparisons, with the interval of each gain where both numbers have one and their items belong together.

    Both systems are resampled at once: the difference is that of the two numbers on the same items.
    """
    figures = {(figure.row, figure.column): figure for figure in _figures(definition, results)}
    compared = {(name, item.column) for item in comparisons for name in (item.row, item.other)}
    resampled = _resampled([figure for place, figure in figures.items() if place in compared])
    found = []
    for item in comparisons:
        mine, theirs = ((name, item.column) for name in (item.row, item.other))
        column = definition.column(item.column)
        if mine in resampled and theirs in resampled and _paired(figures[mine], figures[theirs], item, column):
            gains = (resampled[mine] - resampled[theirs]) * (1 if column.higher_better else -1)
            item = dataclasses.replace(item, interval=_bounds(gains))
        found.append(item)
    return found


def _paired(mine: _Figure, theirs: _Figure, item: SystemComparison, column: Column) -> bool:
    """Whether two systems' numbers compare, and are over the same items or pieces of the same documents."""
    if item.incomparable is not None or column.test == "welch_t" or len(mine.scores) != len(theirs.scores):
        return False
    if mine.documents is None or theirs.documents is None:
        return mine.documents is theirs.documents
    return np.array_equal(mine.documents, theirs.documents)


def _bounds(resampled: Float[np.ndarray, " resamples"]) -> tuple[float, float]:
    low, high = np.quantile(resampled, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def _figures(definition: TableDefinition, results: Results) -> list[_Figure]:
    """Every number of the table that has its items."""
    found = (
        _figure(row, column, results.get(row.name, ())) for row in definition.rows for column in definition.columns
    )
    return [figure for figure in found if figure is not None]


def _resampled(figures: Sequence[_Figure]) -> dict[tuple[str, str], Float[np.ndarray, " resamples"]]:
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
            found[figure.row, figure.column] = figure.of(part)
    return found


def _figure(row: Row, column: Column, results: Sequence[Result]) -> _Figure | None:
    """A number with its items; None where there is no such number, no seed has them, or they give another number."""
    measured = scored([result for result in results if column.key in result.metrics], column)
    summary, whole, name = summarise(measured, column.key), summarise(results, column.key), column.items or column.key
    scores = seed_scores(measured, name)
    if summary is None or whole is None or scores is None:
        return None
    weights = np.ones_like(scores)
    if column.weighed_by is not None:
        found = seed_scores(measured, column.weighed_by)
        if found is None or found.shape != scores.shape:
            return None
        weights = found
    weights = np.where(np.isnan(scores), 0.0, weights)
    documents = item_documents(measured, name)
    if documents is not None:
        scores, weights = by_group(scores, weights, documents)
    if len(scores) < 2 or (weights.sum(axis=0) <= 0).any():
        return None
    beyond = whole.mean - summary.mean
    figure = _Figure(row.name, column.key, scores, weights, column.is_perplexity, documents, beyond)
    given = float(figure.of((np.where(weights > 0, scores, 0.0) * weights).sum(axis=0) / weights.sum(axis=0)))
    return figure if math.isclose(given, whole.mean, rel_tol=AGREEMENT, abs_tol=1e-9) else None
