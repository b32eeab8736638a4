"""Which system wins: margins over seeds, paired tests over items, and their correction."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from depgen.metrics.significance import difference_over_seeds, holm, paired_bootstrap, paired_t_test
from depgen.reporting.definition import Column, Row, TableDefinition
from depgen.reporting.results import Result, item_scores

Results = Mapping[str, Sequence[Result]]
Verdict = Literal["wins", "loses", "undecided"]
LEVEL = 0.05


@dataclass(frozen=True)
class Summary:
    """A measure over seeds: its mean, its standard deviation (None for one seed) and the number of seeds."""

    mean: float
    deviation: float | None
    seeds: int


@dataclass(frozen=True)
class Comparison:
    """One system against another in one measure.

    Attributes:
        row: the system.
        other: the one it is compared with.
        column: the measure's key.
        gain: by how much the system is better, in the measure's units (negative: worse).
        margin: two standard errors of the gain over seeds; None where a system has one seed.
        p_value: two-sided, corrected; None where nothing was tested.
        untested: why nothing was tested; None where something was.
    """

    row: str
    other: str
    column: str
    gain: float
    margin: float | None
    p_value: float | None
    untested: str | None = None

    @property
    def significant(self) -> bool:
        """Whether the paired test tells the two apart."""
        return self.p_value is not None and self.p_value < LEVEL

    @property
    def verdict(self) -> Verdict:
        """A win or a loss counts beyond two standard errors over seeds and, where a test was made, if it agrees."""
        outside = self.margin is not None and abs(self.gain) > self.margin
        if not outside or (self.p_value is not None and not self.significant):
            return "undecided"
        return "wins" if self.gain > 0 else "loses"


def summarise(results: Sequence[Result], key: str) -> Summary | None:
    """Mean and sample standard deviation of a measure over the seeds that have it; None if none has."""
    values = [result.metrics[key] for result in results if key in result.metrics]
    if not values:
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
        if other.name == row.name or other.group != row.group or other.floor_of is not None:
            continue
        summary = summarise(results.get(other.name, ()), column.key)
        if summary is not None and (best is None or gain(column, summary.mean, best[0]) > 0):
            best = (summary.mean, other)
    return None if best is None else best[1]


def compare(definition: TableDefinition, results: Results) -> tuple[list[Comparison], int]:
    """Each system against the best other one and against the rows it names, measure by measure; and the tests made.

    Tests pair the items' scores averaged over seeds. The p-values are Holm's over all tests of the table (the same two
    systems in the same measure count once).
    """
    pairs = list(_pairs(definition, results))
    raw: dict[tuple[str, frozenset[str]], float] = {}
    reasons: dict[tuple[str, frozenset[str]], str] = {}
    for row, other, column in pairs:
        test = (column.key, frozenset((row.name, other.name)))
        if test not in raw and test not in reasons:
            p_value, reason = _test(column, results[row.name], row, results[other.name], other)
            if p_value is None:
                reasons[test] = reason
            else:
                raw[test] = p_value
    corrected = dict(zip(raw, holm(list(raw.values())), strict=True))
    comparisons = []
    for row, other, column in pairs:
        test = (column.key, frozenset((row.name, other.name)))
        mine, theirs = summarise(results[row.name], column.key), summarise(results[other.name], column.key)
        assert mine is not None
        assert theirs is not None
        comparisons.append(
            Comparison(
                row.name,
                other.name,
                column.key,
                gain(column, mine.mean, theirs.mean),
                _margin(results[row.name], results[other.name], column.key),
                corrected.get(test),
                reasons.get(test),
            )
        )
    return comparisons, len(raw)


def starred(definition: TableDefinition, results: Results, comparisons: Sequence[Comparison]) -> set[tuple[str, str]]:
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
    for row, column in itertools.product(definition.rows, definition.columns):
        if row.floor_of is not None or summarise(results.get(row.name, ()), column.key) is None:
            continue
        others = [best_other(definition, results, row, column), *(definition.row(name) for name in row.against)]
        for other in others:
            if other is not None and summarise(results.get(other.name, ()), column.key) is not None:
                pairs.setdefault((row.name, other.name, column.key), (row, other, column))
    return list(pairs.values())


def _margin(mine: Sequence[Result], theirs: Sequence[Result], key: str) -> float | None:
    """Two standard errors of the difference over seeds; None where a system has one seed."""
    first, second = ([result.metrics[key] for result in results if key in result.metrics] for results in (mine, theirs))
    error = difference_over_seeds(first, second).standard_error
    return None if math.isnan(error) else 2 * error


def _test(
    column: Column, mine: Sequence[Result], row: Row, theirs: Sequence[Result], other: Row
) -> tuple[float | None, str]:
    """The two-sided p-value of a measure's paired test, or None with the reason."""
    if column.test == "none":
        return None, "no test for this measure"
    name = column.items or column.key
    first, second = item_scores(mine, row.slug, name), item_scores(theirs, other.slug, name)
    if first is None or second is None:
        lacking = row.name if first is None else other.name
        return None, f"no per-item scores of {lacking}"
    if len(first) != len(second):
        return None, f"{row.name} has {len(first)} items and {other.name} {len(second)}"
    if (~np.isnan(first) & ~np.isnan(second)).sum() < 2:
        return None, "fewer than two items with scores of both"
    test = paired_t_test if column.test == "paired_t" else paired_bootstrap
    return test(first, second).p_value, ""
