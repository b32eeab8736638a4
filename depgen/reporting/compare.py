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
from depgen.reporting.results import (
    Bounds,
    Result,
    Results,
    item_documents,
    item_scores,
    pooled_scores,
)
from depgen.reporting.table import Column, Row

Verdict = Literal["wins", "loses", "ahead over items only", "behind over items only", "undecided", "not compared"]
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
        items: how many the test is over; None where nothing was tested, or that was not recorded.
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


def best_other(results: Results, row: Row, column: Column) -> Row | None:
    """The best other system of the row's group in a measure, by the row's judge; None where it has no rival.

    Floors are no rivals.
    """
    own, gains = results.figure(row.name, column.key), {}
    for other in results.definition.rows:
        figure = results.figure(other.name, column.key)
        is_rival = other.name != row.name and other.group == row.group and not other.is_floor
        if is_rival and figure is not None and (own is None or own.judge == figure.judge):
            gains[other.name] = column.gain(figure.mean, 0.0)
    return results.definition.row(max(gains, key=gains.__getitem__)) if gains else None


def compare(results: Results) -> tuple[list[SystemComparison], int]:
    """Each system against the best other one and against the rows it names, by measure; and the number of item tests.

    Tests pair the items' scores averaged over the seeds that have them, and the bootstrap draws pieces of one document
    together; Welch's takes those of all such seeds together. Where items are gone, the recorded test of the same seeds
    takes their place, with its recorded p-value.

    All p-values are corrected by Holm's method: those over items over all tests of the table (the same two systems in
    the same measure count once), those over seeds over the pairs of each measure. The pairs that rows name by `against`
    are one family there, in which a pair without a test counts with p = 1, and all other pairs are a second one.
    """
    pairs = _pairs(results)
    compared: dict[_Pair, SystemComparison] = {}
    raw: dict[_Pair, float] = {}
    for row, other, column in pairs:
        pair = (column.key, frozenset((row.name, other.name)))
        if pair not in compared:
            compared[pair], p_value = _compared(results, row, other, column)
            if p_value is not None:
                raw[pair] = p_value
    for pair, p_value in zip(raw, holm(list(raw.values())), strict=True):
        if not compared[pair].contradicted:
            compared[pair] = replace(compared[pair], p_items=p_value)
    for column in results.definition.columns:
        named = [(column.key, pair) for pair in results.definition.named_pairs]
        _correct_over_seeds(compared, named)
        _correct_over_seeds(compared, [pair for pair in compared if pair[0] == column.key and pair not in named])
    ordered = [compared[column.key, frozenset((row.name, other.name))].of(row.name) for row, other, column in pairs]
    return ordered, len(raw)


def _correct_over_seeds(compared: dict[_Pair, SystemComparison], family: Sequence[_Pair]) -> None:
    """Correct the p-values over seeds of a family, whose pairs without one count with p = 1."""
    raw = [compared[pair].p_seeds if pair in compared else None for pair in family]
    for pair, old, new in zip(family, raw, holm([1.0 if p is None else p for p in raw]), strict=True):
        if old is not None:
            compared[pair] = replace(compared[pair], p_seeds=new)


def _pairs(results: Results) -> list[tuple[Row, Row, Column]]:
    """What is compared, in the table's order, nothing twice."""
    definition = results.definition
    pairs: dict[tuple[str, str, str], tuple[Row, Row, Column]] = {}
    directed = [column for column in definition.columns if column.higher_better is not None]
    for row, column in itertools.product(definition.rows, directed):
        if row.is_floor or results.figure(row.name, column.key) is None:
            continue
        for other in (best_other(results, row, column), *map(definition.row, row.against)):
            if other is not None and results.figure(other.name, column.key) is not None:
                pairs.setdefault((row.name, other.name, column.key), (row, other, column))
    return list(pairs.values())


def _compared(results: Results, row: Row, other: Row, column: Column) -> tuple[SystemComparison, float | None]:
    """A comparison before corrections, and the p-value over items that is to be corrected; None where there is none."""
    mine, theirs = (results.figures[each.name, column.key] for each in (row, other))
    # No seed varies a floor: its one figure stands for two seeds.
    values = [
        [*figure.values.values()] * (2 if each.is_floor else 1) for each, figure in ((row, mine), (other, theirs))
    ]
    comparison = SystemComparison(
        row.name,
        other.name,
        column.key,
        column.gain(mine.mean, theirs.mean),
        welch_over_seeds(*values),
        incomparable=_why_incomparable(results, row, other, column),
    )
    if comparison.incomparable is not None:
        return comparison, None
    recorded = _recorded(results, row.name, other.name, column.key)
    interval = results.gain_interval(row.name, other.name, column)
    comparison = replace(comparison, interval=interval or (None if recorded is None else recorded.interval))
    outcome = _test(results, row, other, column)
    if isinstance(outcome, Comparison):
        contradicted = comparison.gain * column.gain(outcome.difference, 0.0) < 0
        differ = "the items differ in the other direction than the figures" if contradicted else None
        return replace(comparison, items=outcome.items, untested=differ, contradicted=contradicted), outcome.p_value
    if outcome.startswith(_GONE) and recorded is not None and recorded.p_items is not None:
        return replace(comparison, p_items=recorded.p_items, items=recorded.items), None
    return replace(comparison, untested=outcome), None


def _recorded(results: Results, row: str, other: str, measure: str) -> SystemComparison | None:
    """What was recorded of two rows' figures of today, over the same seeds, in either direction."""
    seeds = {name: {*results.figures[name, measure].values} for name in (row, other)}
    for line in results.tracked.comparisons if not results.local & {row, other} else ():
        if line.measure == measure and {line.row: {*line.seeds}, line.against: {*line.other_seeds}} == seeds:
            recorded = SystemComparison(line.row, line.against, measure, line.gain, None, line.p, line.items)
            return replace(recorded, interval=line.interval).of(row)
    return None


def best_cells(results: Results, comparisons: Sequence[SystemComparison]) -> set[tuple[str, str]]:
    """The rows and columns of figures that win against the best other system of their group."""
    won = set()
    for item in comparisons:
        row, column = results.definition.row(item.row), results.definition.column(item.column)
        rival = best_other(results, row, column)
        if item.verdict == "wins" and rival is not None and rival.name == item.other:
            won.add((row.name, column.key))
    return won


def empty_texts(results: Sequence[Result]) -> tuple[int, int] | None:
    """How many texts of a row are empty, of how many over all seeds; None where no seed counted them."""
    counted = [result.metrics for result in results if {"texts", "empty"} <= set(result.metrics)]
    if not counted:
        return None
    return round(sum(each["empty"] for each in counted)), round(sum(each["texts"] for each in counted))


def _why_incomparable(results: Results, row: Row, other: Row, column: Column) -> str | None:
    """Why figures of two systems do not compare; None where they do."""
    mine, theirs = (results.figures[each.name, column.key].judge for each in (row, other))
    if mine != theirs:
        return OTHER_JUDGE
    first, second = empty_texts(results.of(row.name)), empty_texts(results.of(other.name))
    if not (column.measure or column.key).startswith(_MOVED_BY_EMPTY_TEXTS) or first is None or second is None:
        return None
    apart = abs(first[0] / first[1] - second[0] / second[1])
    return UNEQUAL_EMPTY if apart > EMPTY_TOLERANCE else None


def _test(results: Results, row: Row, other: Row, column: Column) -> Comparison | str:
    """The outcome of a measure's test over items, or the reason why there is none."""
    if column.test == "none":
        return "no test for this measure"
    names = {column.scores, column.weighed_by} - {None}
    mine, theirs = (
        [run for run in results.runs_of(each.name, column.key) if names <= run.items.keys()] for each in (row, other)
    )
    first, second = _scores(mine, column), _scores(theirs, column)
    if first is None or second is None:
        return f"{_GONE} {row.name if first is None else other.name}"
    if column.test != "welch_t" and len(first) != len(second):
        return f"{row.name} has {len(first)} items and {other.name} {len(second)}"
    has_first, has_second = ~np.isnan(first), ~np.isnan(second)
    paired = () if column.test == "welch_t" else (has_first & has_second,)
    if min(has.sum() for has in (has_first, has_second, *paired)) < 2:
        return "fewer than two items with scores"
    if column.test != "paired_bootstrap":
        return (welch_t_test if column.test == "welch_t" else paired_t_test)(first, second)
    groups = _shared_documents(mine, theirs, column.scores)
    return groups if isinstance(groups, str) else paired_bootstrap(first, second, groups=groups)


def _shared_documents(
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
    scores = read(results, column.scores)
    if scores is None or column.weighed_by is None:
        return scores
    weights = item_scores(results, column.weighed_by)
    return None if weights is None or weights.shape != scores.shape else scores * (weights / weights.mean())
