"""Which system wins: tests over seeds, tests over items, and their correction."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from depgen.metrics.significance import (
    Comparison,
    holm,
    paired_bootstrap,
    paired_t_test,
    welch_over_seeds,
    welch_t_test,
)
from depgen.reporting.definition import Column, Row
from depgen.reporting.intervals import gain_intervals
from depgen.reporting.results import Result, item_documents, item_scores, pooled_scores
from depgen.reporting.store import Bounds, Ours, recorded_test

Verdict = Literal["wins", "loses", "ahead over items only", "behind over items only", "undecided", "not compared"]
Mark = Literal["", "*", "°"]
"""Of a number: better than the best other system over seeds and items (*), or over items only, of one seed (°)."""
LEVEL = 0.05
EMPTY_TOLERANCE = 0.01
"""How far the shares of empty texts may lie apart where a measure depends on them."""
UNEQUAL_EMPTY = "the shares of empty texts differ by more than 1 point"
OTHER_JUDGE = "judged by different models or settings"
_GONE = "no per-item scores of"
_MOVED_BY_EMPTY_TEXTS = ("union", "bertscore", "bleu", "sacrebleu", "distinct", "selfbleu")
_Pair = tuple[str, frozenset[str]]
"""A measure's key and two systems, in no order."""


@dataclass(frozen=True)
class SystemComparison:
    """One system against another in one measure.

    Attributes:
        row: the system.
        other: the one it is compared with.
        column: the measure's key.
        gain: by how much the system is better, in the measure's units (negative: worse).
        p_seeds: two-sided, of Welch's t-test over seeds, corrected; None where a system, but not a floor, has one
            seed, or no system varies.
        p_items: two-sided, over items, corrected; None where nothing was tested.
        items: how many the test is over; None where nothing was tested, or a record does not say.
        untested: why nothing was tested over items; None where something was.
        contradicted: whether the items and the figures differ in opposite directions.
        incomparable: why the figures do not compare at all; None where they do.
        interval: of the gain, over items; None where there is none.
    """

    row: str
    other: str
    column: str
    gain: float
    p_seeds: float | None
    p_items: float | None = None
    items: int | None = None
    untested: str | None = None
    contradicted: bool = False
    incomparable: str | None = None
    interval: Bounds | None = None

    def of(self, row: str) -> "SystemComparison":
        """The same comparison with this one of its two systems named first."""
        if row == self.row:
            return self
        ends = None if self.interval is None else (0.0 - self.interval[1], 0.0 - self.interval[0])  # no -0.0
        return replace(self, row=self.other, other=self.row, gain=0.0 - self.gain, interval=ends)

    @property
    def significant(self) -> bool:
        """Whether the test over items finds a difference."""
        return self.p_items is not None and self.p_items < LEVEL

    @property
    def verdict(self) -> Verdict:
        """A win or a loss is significant over seeds and, where items were tested, over items too.

        Where the seeds allow no test, items alone say who is ahead in these runs, not which system is better.
        """
        if self.incomparable is not None:
            return "not compared"
        if self.contradicted or (self.p_items is not None and not self.significant):
            return "undecided"
        if self.p_seeds is None:
            ahead: Verdict = "ahead over items only" if self.gain > 0 else "behind over items only"
            return ahead if self.significant else "undecided"
        if self.p_seeds >= LEVEL:
            return "undecided"
        return "wins" if self.gain > 0 else "loses"


def gain(column: Column, value: float, other: float) -> float:
    """How much better a value is than another one.

    >>> gain(Column("ppl", "PPL", higher_better=False), 40.0, 42.0)
    2.0
    """
    return value - other if column.higher_better else other - value


def best_other(ours: Ours, row: Row, column: Column) -> Row | None:
    """The best other system of the row's group in a measure, by the row's judge; None where it has no rival.

    Floors are no rivals.
    """
    own, gains = ours.figure(row.name, column.key), {}
    for other in ours.definition.rows:
        figure = ours.figure(other.name, column.key)
        is_rival = other.name != row.name and other.group == row.group and not other.is_floor
        if is_rival and figure is not None and (own is None or own.judge == figure.judge):
            gains[other.name] = gain(column, figure.mean, 0.0)
    return ours.definition.row(max(gains, key=gains.__getitem__)) if gains else None


def compare(ours: Ours) -> tuple[list[SystemComparison], int]:
    """Each system against the best other one and against the rows it names, by measure; and the tests over items.

    Tests pair the items' scores averaged over the seeds that have them, and the bootstrap draws pieces of one document
    together; Welch's takes those of all such seeds together. Where item scores are gone, a recorded test of the same
    figures takes their place, with its recorded p-value.

    All p-values are corrected by Holm's method: those over items over all tests of the table (the same two systems in
    the same measure count once), those over seeds over the pairs of each measure. The pairs that rows name by `against`
    are one family there, in which a pair without a test counts with p = 1, and all other pairs are a second one.
    """
    pairs = _pairs(ours)
    found: dict[_Pair, SystemComparison] = {}
    raw: dict[_Pair, float] = {}
    for row, other, column in pairs:
        pair = (column.key, frozenset((row.name, other.name)))
        if pair not in found:
            found[pair], p_value = _tested(ours, row, other, column)
            if p_value is not None:
                raw[pair] = p_value
    for pair, p_value in zip(raw, holm(list(raw.values())), strict=True):
        if not found[pair].contradicted:
            found[pair] = replace(found[pair], p_items=p_value)
    for column in ours.definition.columns:
        named = [(column.key, pair) for pair in ours.definition.named_pairs]
        _correct_over_seeds(found, named)
        _correct_over_seeds(found, [pair for pair in found if pair[0] == column.key and pair not in named])
    comparable = {(each.row, each.other, each.column): pair for pair, each in found.items() if not each.incomparable}
    for names, interval in gain_intervals(ours, comparable).items():
        found[comparable[names]] = replace(found[comparable[names]], interval=interval)
    return [found[column.key, frozenset((row.name, other.name))].of(row.name) for row, other, column in pairs], len(raw)


def _correct_over_seeds(found: dict[_Pair, SystemComparison], family: Sequence[_Pair]) -> None:
    """Correct the p-values over seeds of a family, whose pairs without one count with p = 1."""
    raw = [found[pair].p_seeds if pair in found else None for pair in family]
    for pair, old, new in zip(family, raw, holm([1.0 if p is None else p for p in raw]), strict=True):
        if old is not None:
            found[pair] = replace(found[pair], p_seeds=new)


def _pairs(ours: Ours) -> list[tuple[Row, Row, Column]]:
    """What is compared, in the table's order, nothing twice."""
    definition = ours.definition
    pairs: dict[tuple[str, str, str], tuple[Row, Row, Column]] = {}
    directed = [column for column in definition.columns if column.higher_better is not None]
    for row, column in itertools.product(definition.rows, directed):
        if row.is_floor or ours.figure(row.name, column.key) is None:
            continue
        others = [best_other(ours, row, column), *(definition.row(name) for name in row.against)]
        for other in others:
            if other is not None and ours.figure(other.name, column.key) is not None:
                pairs.setdefault((row.name, other.name, column.key), (row, other, column))
    return list(pairs.values())


def _tested(ours: Ours, row: Row, other: Row, column: Column) -> tuple[SystemComparison, float | None]:
    """A comparison before corrections, and the p-value over items that is to be corrected; None where there is none."""
    mine, theirs = (ours.figures[each.name, column.key].mean for each in (row, other))
    found = SystemComparison(
        row.name,
        other.name,
        column.key,
        gain(column, mine, theirs),
        _welch(ours, row, other, column),
        incomparable=_why_incomparable(ours, row, other, column),
    )
    outcome = found.incomparable or _test(ours, row, other, column)
    if isinstance(outcome, Comparison):
        contradicted = found.gain * gain(column, outcome.difference, 0.0) < 0
        differ = "the items differ in the other direction than the figures" if contradicted else None
        return replace(found, items=outcome.items, untested=differ, contradicted=contradicted), outcome.p_value
    if outcome.startswith(_GONE):
        recorded = recorded_test(ours, found.row, found.other, found.column, found.gain)
        if recorded is not None and recorded.p_value is not None:
            return replace(found, p_items=recorded.p_value, items=recorded.items), None
    return replace(found, untested=outcome), None


def marked(ours: Ours, comparisons: Sequence[SystemComparison]) -> dict[tuple[str, str], Mark]:
    """By row and column, the marks of numbers that are better than those of the best other system of the group."""
    marks: dict[Verdict, Mark] = {"wins": "*", "ahead over items only": "°"}
    found = {}
    for item in comparisons:
        row, column = ours.definition.row(item.row), ours.definition.column(item.column)
        rival = best_other(ours, row, column)
        if rival is not None and rival.name == item.other and item.verdict in marks:
            found[row.name, column.key] = marks[item.verdict]
    return found


def empty_texts(results: Sequence[Result]) -> tuple[int, int] | None:
    """How many texts of a row are empty, of how many over all seeds; None where no seed counted them."""
    counted = [result.metrics for result in results if {"texts", "empty"} <= set(result.metrics)]
    if not counted:
        return None
    return round(sum(each["empty"] for each in counted)), round(sum(each["texts"] for each in counted))


def _why_incomparable(ours: Ours, row: Row, other: Row, column: Column) -> str | None:
    """Why figures of two systems do not compare; None where they do."""
    mine, theirs = (ours.figures[each.name, column.key].judge for each in (row, other))
    if mine != theirs:
        return OTHER_JUDGE
    first, second = empty_texts(ours.of(row.name)), empty_texts(ours.of(other.name))
    if not (column.measure or column.key).startswith(_MOVED_BY_EMPTY_TEXTS) or first is None or second is None:
        return None
    apart = abs(first[0] / first[1] - second[0] / second[1])
    return UNEQUAL_EMPTY if apart > EMPTY_TOLERANCE else None


def _welch(ours: Ours, row: Row, other: Row, column: Column) -> float | None:
    """The p-value of Welch's t-test over seeds; None where a system has one seed, or no system varies.

    No seed varies a floor.
    """
    first, second = (
        list(ours.figures[each.name, column.key].values.values()) * (2 if each.is_floor else 1) for each in (row, other)
    )
    return welch_over_seeds(first, second)


def _test(ours: Ours, row: Row, other: Row, column: Column) -> Comparison | str:
    """The outcome of a measure's test over items, or the reason why there is none."""
    if column.test == "none":
        return "no test for this measure"
    mine, theirs = (scored(ours.results_of(each.name, column.key), column) for each in (row, other))
    first, second = _scores(mine, column), _scores(theirs, column)
    if first is None or second is None:
        lacking = row.name if first is None else other.name
        return f"{_GONE} {lacking}"
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


def scored(results: Sequence[Result], column: Column) -> list[Result]:
    """Those with the item scores of a measure and their weights, which tests and intervals take."""
    names = {column.items or column.key, column.weighed_by} - {None}
    return [each for each in results if names <= each.items.keys()]


def shared_documents(
    mine: Sequence[Result], theirs: Sequence[Result], name: str
) -> Int[np.ndarray, " items"] | str | None:
    """The documents that two systems' items are pieces of; None where items are whole, else why there are none."""
    first, second = item_documents(mine, name), item_documents(theirs, name)
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
