"""Results that are worth keeping, written to the tracked tree."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from depgen.errors import UserError
from depgen.locations import results_root, write_atomically
from depgen.reporting.compare import compare
from depgen.reporting.render import tracked_page
from depgen.reporting.results import (
    RecordedComparison,
    RecordedIntervals,
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
_NOT_IN_LINE = ("table", "items", "run", "curve", "clock")
"""The file is named by the table, items and runs stay on this machine, and curves have lines of their own."""


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
    lines = [*(json.dumps(line, ensure_ascii=False) for line in kept), *_lines(results, runs)]
    write_atomically(path, "".join(f"{line}\n" for line in lines))
    rows = sorted(results.local, key=[row.name for row in definition.rows].index)
    return f"{path}: size {results.size}, {'; '.join(rows)}"


def _seeds_of(line: dict[str, Any]) -> set[tuple[str, int]]:
    """The rows and seeds that a tracked line is of."""
    seeds = [(line["row"], seed) for seed in line.get("seeds") or [line.get("seed")]]
    return {*seeds, *((line["against"], seed) for seed in line.get("other_seeds") or ())}


def _lines(results: Results, runs: Sequence[Result]) -> Iterator[str]:
    """The lines of local results, of their curves, and of what their items gave, comparisons in one direction."""
    for run in runs:
        place = {"row": run.row, "size": run.size, "seed": run.seed}
        content = {name: value for name, value in asdict(run).items() if name not in _NOT_IN_LINE}
        yield _line("result", place | content, digits=6)
        kept = thin(run.curve or run.clock, CURVE_POINTS)
        curve, clock = ([points[index] for index in kept if points] for points in (run.curve, run.clock))
        if kept:
            yield _line("curve", {**place, "curve": curve, "clock": clock}, digits=6)
    seeds = {place: tuple(sorted(figure.values)) for place, figure in results.figures.items()}
    local = [place for place in results.intervals if place[0] in results.local]
    for row, of_row in dict.fromkeys((place[0], seeds[place]) for place in local):
        ends = {place[1]: results.intervals[place] for place in local if (place[0], seeds[place]) == (row, of_row)}
        yield _line("intervals", asdict(RecordedIntervals(row, results.size, of_row, ends)))
    done = set[tuple[str, frozenset[str]]]()
    for item in compare(results)[0]:
        pair = (item.column, frozenset((item.row, item.other)))
        if pair in done or not {item.row, item.other} <= results.local or {item.p_items, item.interval} == {None}:
            continue
        done.add(pair)
        mine, theirs = (seeds[name, item.column] for name in (item.row, item.other))
        test = results.definition.column(item.column).test
        told = (item.gain, item.p_items, item.items, item.interval)
        recorded = RecordedComparison(item.row, results.size, item.other, item.column, test, mine, theirs, *told)
        yield _line("comparison", asdict(recorded))


def _line(kind: str, content: dict[str, Any], *, digits: int = 10) -> str:
    """A tracked line: numbers to so many digits, empty values left out."""
    text = json.dumps(content, allow_nan=False)
    rounded = json.loads(text, parse_float=lambda number: float(f"{float(number):.{digits}g}"))
    plain = {name: value for name, value in rounded.items() if value not in (None, {}, [])}
    return json.dumps({"kind": kind, **plain}, ensure_ascii=False)


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
