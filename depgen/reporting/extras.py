"""Below a table: verdicts between its systems, as a table and in sentences, and the runs that its numbers come from."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

from depgen.reporting.compare import SystemComparison, Verdict, empty_texts
from depgen.reporting.definition import Column, Row
from depgen.reporting.results import Result
from depgen.reporting.store import Ours

SMALLEST = 1e-16
"""Below this, p-values are not told apart."""
DECIDED: tuple[Verdict, ...] = ("wins", "loses")
ITEMS_ONLY: tuple[Verdict, ...] = ("ahead over items only", "behind over items only")
_SAID: dict[Verdict, str] = {
    "wins": "better than",
    "loses": "worse than",
    "ahead over items only": "ahead of",
    "behind over items only": "behind",
    "undecided": "not surely different from",
    "not compared": "not comparable with",
}
_COUNTED: dict[Verdict, str] = {"wins": "better", "loses": "worse"}


@dataclass(frozen=True)
class Extra:
    """A table below the table."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def verdicts_of(ours: Ours, comparisons: Sequence[SystemComparison]) -> Extra:
    """Each pair of systems that the table names, a line a pair."""
    kinds = get_args(Verdict)
    rows = []
    for row in ours.definition.rows:
        for other in row.against:
            items = [item for item in comparisons if (item.row, item.other) == (row.name, other)]
            cells = ["; ".join(_gain(ours, each) for each in items if each.verdict == kind) for kind in kinds]
            if items:
                rows.append((row.name, other, *cells))
    return Extra("Verdicts", ("System", "against", *kinds), tuple(rows))


def _gain(ours: Ours, item: SystemComparison) -> str:
    """A gain with its p-values and interval; of figures that do not compare the measure's name alone."""
    column = ours.definition.column(item.column)
    if item.incomparable is not None:
        return column.header
    ends = [f"{end:+.{column.decimals}f}" for end in item.interval or ()]
    parts = _p_values(item, f"[{', '.join(ends)}]" if ends else None)
    if item.untested is not None and column.test != "none":
        parts.append(f"not tested: {item.untested}")
    return f"{column.header} {item.gain:+.{column.decimals}f}" + (f" ({', '.join(parts)})" if parts else "")


def _p_values(item: SystemComparison, between: str | None = None) -> list[str]:
    """The p-values that there are, over seeds and over items, with something between them."""
    seeds, items = (None if p is None else p_value_in_words(p) for p in (item.p_seeds, item.p_items))
    found = (seeds and f"seeds {seeds}", between, items and f"items {items}")
    return [each for each in found if each]


def p_value_in_words(p_value: float) -> str:
    """Two digits, such as `p 0.036`."""
    return f"p {p_value:.2g}" if p_value >= SMALLEST else f"p < {SMALLEST}"


@dataclass(frozen=True)
class Finding:
    """One comparison in words.

    Attributes:
        claim: which system is better than which, in what.
        numbers: of both, in this order.
        sure: the p-values, or why there are none.
        verdict: of the comparison.
    """

    claim: str
    numbers: str
    sure: str
    verdict: Verdict


def findings(ours: Ours, comparisons: Sequence[SystemComparison]) -> list[Finding]:
    """The comparisons that the table's rows name, in the table's order."""
    return [_finding(ours, each) for each in comparisons if each.other in ours.definition.row(each.row).against]


def _finding(ours: Ours, item: SystemComparison) -> Finding:
    column = ours.definition.column(item.column)
    return Finding(
        f"{column.header}: {item.row} {_SAID[item.verdict]} {item.other}",
        " against ".join(_number(ours, name, column) for name in (item.row, item.other)),
        ", ".join(_p_values(item)) or item.incomparable or item.untested or "not tested",
        item.verdict,
    )


def _number(ours: Ours, row: str, column: Column) -> str:
    figure = ours.figures[row, column.key]
    deviation = "" if figure.deviation is None else f" ± {figure.deviation:.{column.decimals}f}"
    return f"{figure.mean:.{column.decimals}f}{deviation}"


def counted(found: Sequence[Finding]) -> str:
    """How many comparisons have each verdict; empty where there is none.

    >>> counted([Finding("", "", "", "wins"), Finding("", "", "", "undecided"), Finding("", "", "", "undecided")])
    '1 better, 2 undecided'
    """
    numbers = Counter(each.verdict for each in found)
    return ", ".join(
        f"{numbers[verdict]} {_COUNTED.get(verdict, verdict)}" for verdict in get_args(Verdict) if numbers[verdict]
    )


def runs_of(ours: Ours) -> Extra:
    """Where every row's numbers come from; a column that no row has is left out."""
    rows = [{"System": row.name, **_run(ours, row)} for row in ours.definition.rows if ours.of(row.name)]
    head = [name for name in next(iter(rows), ()) if any(row[name] for row in rows)]
    return Extra("Runs", tuple(head), tuple(tuple(row[name] for name in head) for row in rows))


def _run(ours: Ours, row: Row) -> dict[str, str]:
    """What is told of a row's runs, by the heads of the columns."""
    results, empty = ours.of(row.name), empty_texts(ours.of(row.name))
    measured_by = _every(results, lambda each: each.measured_commit)
    trained_by = _every(results, lambda each: each.commit)
    unknown = ours.figure(row.name, "unk_rate")
    return {
        "data": _every(results, data_in_words),
        "trees": "" if row.is_floor else _every(results, lambda each: each.trees or "none"),
        "seeds": "" if row.is_floor else ", ".join(str(each.seed) for each in results),
        "began from": _every(results, lambda each: each.beginning),
        "parameters (M)": _millions(mean_of(ours, row, lambda each: each.parameters)),
        "epochs": _every(results, lambda each: None if each.budget.epochs is None else str(each.budget.epochs)),
        "tokens (M)": _millions(mean_of(ours, row, tokens_of)),
        "minutes": _minutes(mean_of(ours, row, seconds_of)),
        "empty texts": f"{empty[0]:,} of {empty[1]:,}" if empty is not None and empty[0] else "",
        "<unk>": "" if unknown is None else f"{100 * unknown.mean:.2f} %",
        "precision": _every(results, lambda each: each.precision),
        "machine": _every(results, lambda each: each.hardware),
        "date": _every(results, lambda each: each.date),
        "commit": trained_by,
        "measured by": "" if measured_by == trained_by else measured_by,
    }


def _every(results: Sequence[Result], read: Callable[[Result], str | None]) -> str:
    """What the results say, each once."""
    return " / ".join(dict.fromkeys(each for result in results if (each := read(result)) is not None))


def data_in_words(result: Result, documents: str = "documents") -> str:
    """The corpus, whether it is reduced, and how many training documents it has."""
    data = result.data.corpus + (" (reduced)" if result.data.reduced else "")
    return data if result.data.train_documents is None else f"{data}, {result.data.train_documents:,} {documents}"


def seconds_of(result: Result) -> float | None:
    """Wall time of training, validation included; where it was not kept, time on processors."""
    return result.clock[-1][1] if result.clock else result.processor_seconds


def _millions(number: float | None) -> str:
    """A number in millions: two decimals, and below 1 three significant digits.

    >>> _millions(1234567890), _millions(2.5e6), _millions(34512), _millions(0)
    ('1,234.57', '2.50', '0.0345', '0.00')
    """
    if number is None:
        return ""
    decimals = 2 if number <= 0 else max(2, 2 - math.floor(math.log10(number / 1e6)))
    return f"{number / 1e6:,.{decimals}f}"


def mean_of(ours: Ours, row: Row, read: Callable[[Result], float | None]) -> float | None:
    """The mean over a row's results that have a value; None where none has."""
    found = [each for result in ours.of(row.name) if (each := read(result)) is not None]
    return sum(found) / len(found) if found else None


def tokens_of(result: Result) -> float | None:
    """Training tokens seen over all phases."""
    return result.budget.train_tokens


def _minutes(seconds: float | None) -> str:
    """Minutes, and less than one in seconds.

    >>> _minutes(3720.0), _minutes(12.4)
    ('62', '12 s')
    """
    if seconds is None:
        return ""
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds / 60:,.0f}"
