"""Which system wins: margins over seeds, paired tests over items, and their correction."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from depgen.metrics import significance
from depgen.metrics.significance import holm, paired_bootstrap, paired_t_test, standard_error_over_seeds, welch_t_test
from depgen.reporting.definition import Column, Row, TableDefinition
from depgen.reporting.results import RESAMPLED, Result, item_documents, item_scores, pooled_scores, with_items

Results = Mapping[str, Sequence[Result]]
Verdict = Literal["wins", "loses", "undecided", "not compared"]
LEVEL = 0.05
EMPTY_TOLERANCE = 0.01
"""How far the shares of empty texts may lie apart where a measure depends on them."""
_MOVED_BY_EMPTY_TEXTS = ("union", "bertscore", "bleu", "sacrebleu", "distinct", "selfbleu")


@dataclass(frozen=True)
class Summary:
    """A measure over seeds: its mean, its standard deviation (None for one seed) and the number of seeds."""

    mean: float
    deviation: float | None
    seeds: int


@dataclass(frozen=True)
class SystemComparison:
    """One system against another in one measure.

    Attributes:
        row: the system.
        other: the one it is compared with.
        column: the measure's key.
        gain: by how much the system is better, in the measure's units (negative: worse).
        margin: two standard errors of the gain over seeds; None where a system, but not a floor, has one seed.
        p_value: two-sided, corrected; None where nothing was tested.
        untested: why nothing was tested; None where something was.
        seeds: of the system and of the other one.
        contradicted: whether the test over items and the figures point in opposite directions.
        incomparable: why the figures do not compare at all; None where they do.
        interval: low and high end of the gain's bootstrap interval over items (`depgen.reporting.intervals`); None
            where it was not asked for, or there is none.
    """

    row: str
    other: str
    column: str
    gain: float
    margin: float | None
    p_value: float | None
    untested: str | None = None
    seeds: tuple[int, int] = (1, 1)
    contradicted: bool = False
    incomparable: str | None = None
    interval: tuple[float, float] | None = None

    @property
    def significant(self) -> bool:
        """Whether the paired test tells the two apart."""
        return self.p_value is not None and self.p_value < LEVEL

    @property
    def verdict(self) -> Verdict:
        """A win or a loss counts beyond two standard errors over seeds and, where a test was made, if it agrees."""
        if self.incomparable is not None:
            return "not compared"
        outside = self.margin is not None and abs(self.gain) > self.margin
        if not outside or self.contradicted or (self.p_value is not None and not self.significant):
            return "undecided"
        return "wins" if self.gain > 0 else "loses"


def judges(results: Sequence[Result], key: str) -> set[str | None]:
    """What a measure depends on (model, layer, version) in the seeds that have it; None stands for nothing known."""
    return {result.settings.get(key) for result in results if key in result.metrics}


def summarise(results: Sequence[Result], key: str) -> Summary | None:
    """Mean and sample standard deviation of a measure over the seeds that have it.

    None if none has, or if different models judged them: their figures have no mean.
    """
    values = _figures(results, key)
    if not values or len(judges(results, key)) > 1:
        return None
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Summary(float(np.mean(values)), deviation, len(values))


def gain(column: Column, value: float, other: float) -> float:
    """How much better a value is than another one.

    >>> gain(Column("ppl", "PPL", higher_better=False), 40.0, 42.0)
    2.0
    """
    return value - other if column.higher_better else other - value


def best_other(definition: TableDefinition, results: Results, row: Row, column: Column) -> Row | None:
    """The best other system of the row's group in a measure; None where it has no rival. Floors are no rivals."""
    best: tuple[float, Row] | None = None
    for other in definition.rows:
        if other.name == row.name or other.group != row.group or other.is_floor:
            continue
        summary = summarise(results.get(other.name, ()), column.key)
        if summary is not None and (best is None or gain(column, summary.mean, best[0]) > 0):
            best = (summary.mean, other)
    return None if best is None else best[1]


def compare(definition: TableDefinition, results: Results) -> tuple[list[SystemComparison], int]:
    """Each system against the best other one and against the rows it names, measure by measure; and the tests made.

    Tests pair the items' scores averaged over the seeds that have them, and the bootstrap draws pieces of one document
    together; Welch's takes those of all such seeds together. The p-values are Holm's over all tests of the table (the
    same two systems in the same measure count once). A test whose items differ in the
    other direction than the figures counts among them, and nothing follows from it. Figures of different judges are not
    compared, nor measures that empty texts move where the shares of empty texts differ.
    """
    pairs = list(_pairs(definition, results))
    tested: dict[tuple[str, frozenset[str]], _Tested] = {}
    for row, other, column in pairs:
        pair = (column.key, frozenset((row.name, other.name)))
        if pair not in tested:
            tested[pair] = _tested(column, results[row.name], row, results[other.name], other)
    raw = {pair: each.p_value for pair, each in tested.items() if each.p_value is not None}
    corrected = dict(zip(raw, holm(list(raw.values())), strict=True))
    comparisons = []
    for row, other, column in pairs:
        pair = (column.key, frozenset((row.name, other.name)))
        mine, theirs, outcome = results[row.name], results[other.name], tested[pair]
        comparisons.append(
            SystemComparison(
                row.name,
                other.name,
                column.key,
                gain(column, _mean(mine, column), _mean(theirs, column)),
                _margin(mine, row, theirs, other, column.key),
                corrected[pair] if outcome.untested is None else None,
                outcome.untested,
                (len(_figures(mine, column.key)), len(_figures(theirs, column.key))),
                outcome.contradicted,
                outcome.incomparable,
            )
        )
    return comparisons, len(raw)


@dataclass(frozen=True)
class _Tested:
    """What came of comparing two systems in a measure: an uncorrected p-value, or reasons as in `SystemComparison`."""

    p_value: float | None = None
    untested: str | None = None
    contradicted: bool = False
    incomparable: str | None = None


def _tested(column: Column, mine: Sequence[Result], row: Row, theirs: Sequence[Result], other: Row) -> _Tested:
    unequal = _different_judges(column, mine, row, theirs, other)
    unequal = unequal or _unequal_empty_texts(column, mine, row, theirs, other)
    if unequal is not None:
        return _Tested(untested=unequal, incomparable=unequal)
    outcome = _test(column, mine, row, theirs, other)
    if isinstance(outcome, str):
        return _Tested(untested=outcome)
    if gain(column, _mean(mine, column), _mean(theirs, column)) * gain(column, outcome.difference, 0.0) < 0:
        return _Tested(outcome.p_value, "the items differ in the other direction than the figures", contradicted=True)
    return _Tested(outcome.p_value)


def starred(
    definition: TableDefinition, results: Results, comparisons: Sequence[SystemComparison]
) -> set[tuple[str, str]]:
    """(row, column) where a system is significantly better than the best other one of its group."""
    stars = set()
    for comparison in comparisons:
        row, column = definition.row(comparison.row), definition.column(comparison.column)
        rival = best_other(definition, results, row, column)
        if rival is not None and rival.name == comparison.other and comparison.gain > 0 and comparison.significant:
            stars.add((row.name, column.key))
    return stars


def _pairs(definition: TableDefinition, results: Results) -> list[tuple[Row, Row, Column]]:
    """What is compared, in the table's order, nothing twice."""
    pairs: dict[tuple[str, str, str], tuple[Row, Row, Column]] = {}
    directed = [column for column in definition.columns if column.higher_better is not None]
    for row, column in itertools.product(definition.rows, directed):
        if row.is_floor or summarise(results.get(row.name, ()), column.key) is None:
            continue
        others = [best_other(definition, results, row, column), *(definition.row(name) for name in row.against)]
        for other in others:
            if other is not None and summarise(results.get(other.name, ()), column.key) is not None:
                pairs.setdefault((row.name, other.name, column.key), (row, other, column))
    return list(pairs.values())


def _figures(results: Sequence[Result], key: str) -> list[float]:
    return [result.metrics[key] for result in results if key in result.metrics]


def _mean(results: Sequence[Result], column: Column) -> float:
    summary = summarise(results, column.key)
    assert summary is not None
    return summary.mean


def empty_texts(results: Sequence[Result]) -> tuple[int, int] | None:
    """How many texts of a row are empty, of how many over all seeds; None where no seed counted them."""
    counted = [result.metrics for result in results if {"texts", "empty"} <= set(result.metrics)]
    if not counted:
        return None
    return round(sum(each["empty"] for each in counted)), round(sum(each["texts"] for each in counted))


def _different_judges(
    column: Column, mine: Sequence[Result], row: Row, theirs: Sequence[Result], other: Row
) -> str | None:
    """Why figures do not compare that were come by in two ways; None where it was one."""
    if judges(mine, column.key) == judges(theirs, column.key):
        return None
    return f"{row.name} and {other.name} were judged by different models or settings"


def _unequal_empty_texts(
    column: Column, mine: Sequence[Result], row: Row, theirs: Sequence[Result], other: Row
) -> str | None:
    """Why a measure that empty texts move does not compare; None where it does, or nobody counted."""
    first, second = empty_texts(mine), empty_texts(theirs)
    if not (column.measure or column.key).startswith(_MOVED_BY_EMPTY_TEXTS) or first is None or second is None:
        return None
    share, another = first[0] / first[1], second[0] / second[1]
    if abs(share - another) <= EMPTY_TOLERANCE:
        return None
    return (
        f"{100 * share:.1f} % of the texts of {row.name} are empty and {100 * another:.1f} % of those of {other.name}"
    )


def _margin(mine: Sequence[Result], row: Row, theirs: Sequence[Result], other: Row, key: str) -> float | None:
    """Two standard errors of the difference over seeds; None where a system has one seed. No seed varies a floor."""
    first, second = (
        _figures(results, key) * (2 if each.is_floor else 1) for results, each in ((mine, row), (theirs, other))
    )
    error = standard_error_over_seeds(first, second)
    return None if math.isnan(error) else 2 * error


def _test(
    column: Column, mine: Sequence[Result], row: Row, theirs: Sequence[Result], other: Row
) -> significance.Comparison | str:
    """The outcome of a measure's test, or the reason why there is none."""
    if column.test == "none":
        return "no test for this measure"
    mine, theirs = scored(mine, column), scored(theirs, column)
    first, second = _scores(mine, column), _scores(theirs, column)
    if first is None or second is None:
        lacking = row.name if first is None else other.name
        return f"no per-item scores of {lacking}"
    if column.test == "welch_t":
        if min((~np.isnan(first)).sum(), (~np.isnan(second)).sum()) < 2:
            return "fewer than two items with a score"
        return welch_t_test(first, second)
    if len(first) != len(second):
        return f"{row.name} has {len(first)} items and {other.name} {len(second)}"
    if (~np.isnan(first) & ~np.isnan(second)).sum() < 2:
        return "fewer than two items with scores of both"
    if column.test == "paired_t":
        return paired_t_test(first, second)
    groups = shared_documents(mine, theirs, column.items or column.key)
    return groups if isinstance(groups, str) else paired_bootstrap(first, second, groups=groups)


def seeds_scored(definition: TableDefinition, results: Sequence[Result]) -> list[int]:
    """The seeds whose per-item scores are here, of any measure of the table."""
    found = {each.seed for column in definition.ours for each in scored(results, column)}
    return sorted(found)


def scored(results: Sequence[Result], column: Column) -> list[Result]:
    """Those with the per-item scores behind a measure, and what they are weighed by: what tests and intervals take."""
    names = (column.items or column.key, column.weighed_by)
    return with_items(results, *(name for name in names if name is not None))


def shared_documents(
    mine: Sequence[Result], theirs: Sequence[Result], name: str
) -> Int[np.ndarray, " items"] | str | None:
    """The documents that the items of two systems are pieces of; None where items are whole, or why there are none."""
    first, second = item_documents(mine, name), item_documents(theirs, name)
    for results, documents in ((mine, first), (theirs, second)):
        if documents is None and any(name + RESAMPLED in result.items for result in results):
            return f"the items of {results[0].row} do not say which are pieces of one document; --remeasure them"
    if first is None and second is None:
        return None
    if first is None or second is None or not np.array_equal(first, second):
        return f"the items of {mine[0].row} and {theirs[0].row} are of other documents"
    return first if len(np.unique(first)) > 1 else "all items are of one document"


def _scores(results: Sequence[Result], column: Column) -> Float[np.ndarray, " items"] | None:
    """Scores whose plain mean is the figure: each times its share of the column's weights, where it has any."""
    read = pooled_scores if column.test == "welch_t" else item_scores
    scores = read(results, column.items or column.key)
    if scores is None or column.weighed_by is None:
        return scores
    weights = item_scores(results, column.weighed_by)
    return None if weights is None or weights.shape != scores.shape else scores * (weights / weights.mean())
