"""Which system wins: tests over seeds, tests over items, and their correction."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from depgen.metrics.significance import (
    Comparison,
    bootstrap_over_seeds,
    holm,
    paired_bootstrap,
    paired_t_test,
    rank_sum_over_seeds,
    welch_over_seeds,
    welch_t_test,
)
from depgen.reporting.results import Bounds, Result, Results, pooled_scores
from depgen.reporting.table import Column, Row

Verdict = Literal["wins", "loses", "ahead over items only", "behind over items only", "undecided", "not compared"]
LEVEL = 0.05
EMPTY_TOLERANCE = 0.01
"""How far the shares of empty texts may lie apart where a measure depends on them."""
UNEQUAL_EMPTY = "the shares of empty texts differ by more than 1 point"
UNKNOWN_TOLERANCE = 0.01
"""How far the shares of `<unk>` may lie apart where perplexities are compared; a larger share is shown beside one."""
UNEQUAL_UNKNOWN = "the shares of <unk> differ by more than 1 point"
OTHER_JUDGE = "judged by different models or settings"
_GONE, _TOO_FEW = "no per-item scores of", "fewer than two items with scores"
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
        incomparable: why the figures do not compare at all; None where they do.
        interval: of the gain, over items, of a planned comparison over seeds; None where there is none.
    """

    row: str
    other: str
    column: str
    gain: float
    p_seeds: float | None
    p_items: float | None = None
    items: int | None = None
    untested: str | None = None
    incomparable: str | None = None
    interval: Bounds | None = None

    def of(self, row: str) -> "SystemComparison":
        """The same comparison with this one of its two systems named first."""
        if row == self.row:
            return self
        ends = None if self.interval is None else (0.0 - self.interval[1], 0.0 - self.interval[0])  # no -0.0
        return replace(self, row=self.other, other=self.row, gain=0.0 - self.gain, interval=ends)

    @property
    def verdict(self) -> Verdict:
        """A win or a loss is significant over seeds and, where items were tested, over items too.

        Where the seeds allow no test, items alone say who is ahead in these runs, not which system is better.
        """
        if self.incomparable is not None:
            return "not compared"
        if any(p_value is not None and p_value >= LEVEL for p_value in (self.p_items, self.p_seeds)):
            return "undecided"
        if self.p_seeds is not None:
            return "wins" if self.gain > 0 else "loses"
        if self.p_items is None:
            return "undecided"
        return "ahead over items only" if self.gain > 0 else "behind over items only"


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


def compare(results: Results) -> list[SystemComparison]:
    """Each system against the best other one and against the rows it names, by measure.

    Tests pair the items' scores averaged over seeds, and the bootstrap draws pieces of one document together; Welch's
    takes those of all seeds together. Where items are gone, the recorded test of the same seeds takes their place, with
    its recorded p-value. A test that points in the other direction than the figures counts with p = 1.

    All p-values are corrected by Holm's method: those over items over all tests of the table (the same two systems in
    the same measure count once), those over seeds over the pairs of each measure. The pairs that rows name by `against`
    are one family there, in which a pair without a test counts with p = 1, and all other pairs are a second one.

    Of a table with planned comparisons, these alone are tested, by the exact rank-sum test over seeds, once all runs
    are there.
    """
    if results.definition.planned:
        return _planned(results)
    pairs = dict.fromkeys(_pairs(results))
    compared: dict[_Pair, SystemComparison] = {}
    raw: dict[_Pair, float] = {}
    for row, other, key in pairs:
        pair = (key, frozenset((row, other)))
        if pair not in compared:
            compared[pair], p_value = _compared(results, row, other, key)
            if p_value is not None:
                raw[pair] = p_value
    for pair, p_value in zip(raw, holm(list(raw.values())), strict=True):
        compared[pair] = replace(compared[pair], p_items=p_value)
    against = {frozenset((row.name, other)) for row in results.definition.rows for other in row.against}
    for column in results.definition.columns:
        named = [(column.key, pair) for pair in against]
        _correct_over_seeds(compared, named)
        _correct_over_seeds(compared, [pair for pair in compared if pair[0] == column.key and pair not in named])
    return [compared[key, frozenset((row, other))].of(row) for row, other, key in pairs]


def _planned(results: Results) -> list[SystemComparison]:
    """The planned comparisons; none before every row that they name has all seeds, so that no look decides on more."""
    comparisons = list[SystemComparison]()
    for plan in results.definition.planned:
        mine, theirs = (results.figure(name, plan.column) for name in (plan.row, plan.against))
        seeds = {*results.definition.seeds_at(results.size)}
        if mine is None or theirs is None or not seeds <= {*mine.values} & {*theirs.values}:
            return []
        column, values = results.definition.column(plan.column), [[*each.values.values()] for each in (mine, theirs)]
        low, high = sorted(column.gain(end, 0.0) for end in bootstrap_over_seeds(*values))
        comparisons.append(
            SystemComparison(
                plan.row, plan.against, plan.column, column.gain(mine.mean, theirs.mean), rank_sum_over_seeds(*values),
                interval=(low, high),
            )
        )  # fmt: skip
    corrected = holm([1.0 if comparison.p_seeds is None else comparison.p_seeds for comparison in comparisons])
    return [replace(comparison, p_seeds=p) for comparison, p in zip(comparisons, corrected, strict=True)]


def _correct_over_seeds(compared: dict[_Pair, SystemComparison], family: Sequence[_Pair]) -> None:
    """Correct the p-values over seeds of a family, whose pairs without one count with p = 1."""
    raw = [compared[pair].p_seeds if pair in compared else None for pair in family]
    for pair, old, new in zip(family, raw, holm([1.0 if p is None else p for p in raw]), strict=True):
        if old is not None:
            compared[pair] = replace(compared[pair], p_seeds=new)


def _pairs(results: Results) -> Iterator[tuple[str, str, str]]:
    """The systems that are compared and the measure, in the table's order."""
    directed = [column for column in results.definition.columns if column.higher_better is not None]
    for row, column in itertools.product(results.definition.rows, directed):
        best = best_other(results, row, column)
        for other in [*([] if best is None else [best.name]), *row.against]:
            if not row.is_floor and {(row.name, column.key), (other, column.key)} <= results.figures.keys():
                yield row.name, other, column.key


def _compared(results: Results, row: str, other: str, key: str) -> tuple[SystemComparison, float | None]:
    """A comparison before corrections, and the p-value over items that is to be corrected; None where there is none."""
    column, systems = results.definition.column(key), [results.definition.row(name) for name in (row, other)]
    mine, theirs = (results.figures[name, key] for name in (row, other))
    # No seed varies a floor: its one figure stands for two seeds.
    values = [
        [*figure.values.values()] * (2 if system.is_floor else 1)
        for system, figure in zip(systems, (mine, theirs), strict=True)
    ]
    gain, p_seeds = column.gain(mine.mean, theirs.mean), welch_over_seeds(*values)
    if reason := _why_incomparable(results, row, other, column):
        return SystemComparison(row, other, key, gain, p_seeds, incomparable=reason), None
    recorded = _recorded(results, row, other, key)
    interval = results.gain_interval(row, other, column) or (None if recorded is None else recorded.interval)
    comparison = SystemComparison(row, other, key, gain, p_seeds, interval=interval)
    outcome = _test(results, row, other, column)
    if isinstance(outcome, Comparison):
        is_opposite = gain * column.gain(outcome.difference, 0.0) < 0
        return replace(comparison, items=outcome.items), 1.0 if is_opposite else outcome.p_value
    if outcome.startswith(_GONE) and recorded is not None and recorded.p_items is not None:
        return replace(comparison, p_items=recorded.p_items, items=recorded.items), None
    return replace(comparison, untested=outcome), None


def _recorded(results: Results, row: str, other: str, key: str) -> SystemComparison | None:
    """What was recorded of two rows' figures of today, over the same seeds, in either direction."""
    seeds = {name: {*results.figures[name, key].values} for name in (row, other)}
    for line in results.recorded if not results.local & {row, other} else ():
        of_line = {line["row"]: {*line["seeds"]}, line.get("against"): {*line.get("other_seeds", ())}}
        if line.get("measure") == key and of_line == seeds:
            low, high = line.get("interval") or (None, None)
            interval = None if low is None or high is None else (low, high)
            test = SystemComparison(line["row"], line["against"], key, line["gain"], None, line.get("p"))
            return replace(test, items=line.get("items"), interval=interval).of(row)
    return None


def best_cells(results: Results, comparisons: Sequence[SystemComparison]) -> set[tuple[str, str]]:
    """The rows and columns of figures that win against the best other system of their group."""
    won = set()
    for item in comparisons:
        rival = best_other(results, results.definition.row(item.row), results.definition.column(item.column))
        if item.verdict == "wins" and rival is not None and rival.name == item.other:
            won.add((item.row, item.column))
    return won


def empty_texts(results: Sequence[Result]) -> tuple[int, int] | None:
    """How many texts of a row are empty, of how many over all seeds; None where no seed counted them."""
    counted = [result.metrics for result in results if {"texts", "empty"} <= set(result.metrics)]
    if not counted:
        return None
    return round(sum(each["empty"] for each in counted)), round(sum(each["texts"] for each in counted))


def _why_incomparable(results: Results, row: str, other: str, column: Column) -> str | None:
    """Why figures of two systems do not compare; None where they do."""
    mine, theirs = (results.figures[name, column.key].judge for name in (row, other))
    if mine != theirs:
        return OTHER_JUDGE
    shares = [results.figure(name, "unk_rate") for name in (row, other) if column.is_perplexity]
    unknown = [share.mean for share in shares if share is not None]
    if len(unknown) == 2 and abs(unknown[0] - unknown[1]) > UNKNOWN_TOLERANCE:
        return UNEQUAL_UNKNOWN
    first, second = empty_texts(results.of(row)), empty_texts(results.of(other))
    if not (column.measure or column.key).startswith(_MOVED_BY_EMPTY_TEXTS) or first is None or second is None:
        return None
    return UNEQUAL_EMPTY if abs(first[0] / first[1] - second[0] / second[1]) > EMPTY_TOLERANCE else None


def _test(results: Results, row: str, other: str, column: Column) -> Comparison | str:
    """The outcome of a measure's test over items, or the reason why there is none."""
    if column.test == "none":
        return "no test for this measure"
    if column.test == "welch_t":
        first, second = (pooled_scores(results.runs_of(name, column.key), column.scores) for name in (row, other))
        if first is None or second is None:
            return f"{_GONE} {row if first is None else other}"
        if min((~np.isnan(scores)).sum() for scores in (first, second)) < 2:
            return _TOO_FEW
        return welch_t_test(first, second)
    mine, theirs = (results.items.get((name, column.key)) for name in (row, other))
    if mine is None or theirs is None:
        return f"{_GONE} {row if mine is None else other}"
    if len(mine.means) != len(theirs.means):
        return f"{row} has {len(mine.means)} items and {other} {len(theirs.means)}"
    if (~np.isnan(mine.means + theirs.means)).sum() < 2:
        return _TOO_FEW
    if column.test == "paired_t":
        return paired_t_test(mine.means, theirs.means)
    if not np.array_equal(mine.documents, theirs.documents):
        return f"the items of {row} and {other} are of other documents"
    if len(np.unique(mine.documents)) == 1:
        return "all items are of one document"
    return paired_bootstrap(mine.means, theirs.means, groups=mine.documents if len(mine.documents) else None)
