"""Results that are worth keeping, written to the tracked tree."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from depgen.errors import UserError
from depgen.locations import results_root, write_atomically
from depgen.reporting.compare import compare
from depgen.reporting.render import tracked_page
from depgen.reporting.results import (
    Result,
    Results,
    load_results,
    measured_page,
    measured_path,
    outdated,
    tracked_lines,
)
from depgen.reporting.table import chosen_tables

CURVE_POINTS = 40
_LOCAL = ("items", "run", "curve", "clock")
"""What the line of a result leaves out: it stays on this machine, or has a line of its own."""


def record(table: str | None = None, *, size: str | None = None) -> str:
    """Which tracked files were written: `experiments/measured/<table>.jsonl` and its page `<table>-<size>.md`.

    A line for each local result is added, and lines of its curve and of the intervals and comparisons that items of
    single seeds gave. Only lines of a seed that was made again are replaced. The page is written again if the table's
    definition has changed, too.

    Args:
        table: the table's name; unset: every table that has results, each at the given size or at its only one.
        size: whose results to copy; unset: `small`, or the table's only one.

    Raises:
        UserError: there are no results at that size, or some are out of date.
    """
    written = []
    for definition, chosen, reason in chosen_tables(table, size):
        results = load_results(definition, size=chosen)
        if results.local:
            written += [f"{definition.table}. {reason}" if table is None else reason, _record(results)]
        elif not results.runs and table is not None:
            raise UserError(
                f"No results of size {chosen} under {results_root() / definition.table}. "
                f"Make them first: {definition.command(chosen)}."
            )
        path = measured_page(definition.table, chosen)
        if results.runs and (not path.is_file() or path.read_text("utf-8") != tracked_page(definition, chosen)):
            write_atomically(path, tracked_page(definition, chosen))
            written.append(f"{path}: the tracked results, size {chosen}")
    return "\n".join(written) or f"No results under {results_root()}: nothing to record."


def _record(results: Results) -> str:
    """The tracked file of one table, written; one line that says so.

    Raises:
        UserError: local results are out of date.
    """
    definition, path = results.definition, measured_path(results.definition.table)
    runs = [run for run in results.runs if run.row in results.local]
    old = {(row, seed): reason for (row, seed), reason in outdated(results).items() if row in results.local}
    if old:
        listed = "; ".join(f"{row}, seed {seed}: {reason}" for (row, seed), reason in old.items())
        raise UserError(
            f"{results_root() / definition.table}: results are out of date, so that nothing was recorded: {listed}. "
            f"Make them again: {definition.command(results.size, option='--redo')} --row ROW."
        )
    again = {(run.row, run.seed) for run in runs}
    kept = [line for _, line in tracked_lines(path) if line["size"] != results.size or not _seeds_of(line) & again]
    new = [line for run in runs for line in _lines_of(run)]
    lines = [*kept, *new, *_of_items(results)]
    write_atomically(path, "".join(f"{json.dumps(line, ensure_ascii=False, allow_nan=False)}\n" for line in lines))
    rows = sorted(results.local, key=[row.name for row in definition.rows].index)
    return f"{path}: size {results.size}, {'; '.join(rows)}"


def _seeds_of(line: dict[str, Any]) -> set[tuple[str, int]]:
    """The rows and seeds that a tracked line is of."""
    seeds = [(line["row"], seed) for seed in line.get("seeds") or [line.get("seed")]]
    return {*seeds, *((line["against"], seed) for seed in line.get("other_seeds") or ())}


def _lines_of(run: Result) -> list[dict[str, Any]]:
    """A result's line and that of its curve: numbers to six digits, the curve thinned, empty values left out."""
    place = {"row": run.row, "size": run.size, "seed": run.seed}
    content = {**place, **{name: value for name, value in asdict(run).items() if name not in _LOCAL}}
    content["metrics"] = {name: float(f"{value:.6g}") for name, value in run.metrics.items()}
    kept = thin(run.curve or run.clock, CURVE_POINTS)
    points = {name: values for name, values in (("curve", run.curve), ("clock", run.clock)) if values}
    curve = {
        name: [[float(f"{each:.6g}") for each in values[index]] for index in kept] for name, values in points.items()
    }
    lines = [{"kind": "result", **{name: value for name, value in content.items() if value not in (None, {}, [])}}]
    return [*lines, {"kind": "curve", **place, **curve}] if curve else lines


def _of_items(results: Results) -> list[dict[str, Any]]:
    """The lines of the intervals and comparisons that local items gave, comparisons in one direction."""
    size, lines = results.size, dict[Any, dict[str, Any]]()
    for (row, column), ends in results.intervals.items():
        if row in results.local:
            seeds = sorted(results.figures[row, column].values)
            line = {"kind": "intervals", "row": row, "size": size, "seeds": seeds, "intervals": {}}
            lines.setdefault((row, *seeds), line)["intervals"][column] = [*map(_digits, ends)]
    for item in compare(results)[0]:
        pair = (item.column, frozenset((item.row, item.other)))
        if pair in lines or not {item.row, item.other} <= results.local or {item.p_items, item.interval} == {None}:
            continue
        line = {
            "kind": "comparison",
            "row": item.row,
            "size": size,
            "against": item.other,
            "measure": item.column,
            "test": results.definition.column(item.column).test,
            "seeds": sorted(results.figures[item.row, item.column].values),
            "other_seeds": sorted(results.figures[item.other, item.column].values),
            "gain": _digits(item.gain),
            "p": None if item.p_items is None else _digits(item.p_items),
            "items": item.items,
            "interval": item.interval and [*map(_digits, item.interval)],
        }
        lines[pair] = {name: value for name, value in line.items() if value is not None}
    return [*lines.values()]


def _digits(number: float) -> float:
    """Ten significant digits."""
    return float(f"{number:.10g}")


def thin(curve: Sequence[tuple[float, float]], points: int) -> list[int]:
    """Which points of a curve to keep, at most `points`, evenly by rank: both ends and the lowest value stay.

    >>> thin([(0.0, 9.0), (1.0, 3.0), (2.0, 4.0), (3.0, 5.0), (4.0, 6.0)], 3)
    [0, 1, 4]
    """
    if len(curve) <= points:
        return list(range(len(curve)))
    kept = {round(index * (len(curve) - 1) / (points - 2)) for index in range(points - 1)} if points > 2 else {0}
    lowest = min(range(len(curve)), key=lambda index: curve[index][1])
    return sorted(kept | {lowest})
