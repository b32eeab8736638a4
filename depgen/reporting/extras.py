"""The tables below a table: verdicts between its systems, and the runs that its numbers come from."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

from depgen.reporting.compare import SystemComparison, Verdict, empty_texts
from depgen.reporting.definition import Row
from depgen.reporting.results import Result
from depgen.reporting.store import Ours

SMALLEST = 1e-16
"""Below this, p-values are not told apart."""


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
    parts = [] if item.p_seeds is None else [f"seeds {p_value_in_words(item.p_seeds)}"]
    if item.interval is not None:
        low, high = (f"{end:+.{column.decimals}f}" for end in item.interval)
        parts.append(f"[{low}, {high}]")
    parts += [] if item.p_items is None else [f"items {p_value_in_words(item.p_items)}"]
    if item.untested is not None and column.test != "none":
        parts.append(f"not tested: {item.untested}")
    return f"{column.header} {item.gain:+.{column.decimals}f}" + (f" ({', '.join(parts)})" if parts else "")


def p_value_in_words(p_value: float) -> str:
    """Two digits, such as `p 0.036`."""
    return f"p {p_value:.2g}" if p_value >= SMALLEST else f"p < {SMALLEST}"


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
        "data": _every(results, _data),
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


def _data(result: Result) -> str:
    data = result.data.corpus + (" (reduced)" if result.data.reduced else "")
    return data if result.data.train_documents is None else f"{data}, {result.data.train_documents:,} documents"


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
