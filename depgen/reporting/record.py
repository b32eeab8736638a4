"""Results that are worth keeping, written to the tracked tree."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from depgen.errors import UserError
from depgen.locations import results_root, write_atomically
from depgen.reporting.compare import compare
from depgen.reporting.render import tracked_page
from depgen.reporting.results import Result, Results, load_results, measured_page, measured_path, tracked_lines
from depgen.reporting.table import TableDefinition

CURVE_POINTS = 40
_NOT_IN_LINE = ("table", "items", "run", "curve", "clock")
"""The file is named by the table, items and runs stay on this machine, and curves have lines of their own."""


def record_table(definition: TableDefinition, size: str) -> Iterator[str]:
    """Which tracked files of a table were written: `experiments/measured/<table>.jsonl` and its page.

    A line for each local result is added, and lines of its curve and of the intervals and comparisons that items of
    single seeds gave. Only lines of a seed that was made again are replaced. The page is written again if the table's
    definition has changed, too.

    Raises:
        UserError: a local result was made before its experiment was changed.
    """
    results, path = load_results(definition, size=size), measured_path(definition.table)
    runs = [run for run in results.runs if run.row in results.local]
    if runs:
        if changed := [f"{run.row}, seed {run.seed}" for run in runs if _is_outdated(definition, run)]:
            raise UserError(
                f"{results_root() / definition.table}: {'; '.join(changed)}: made before the experiment was changed, "
                f"so that nothing was recorded. Make it again: {definition.command(size, option='--redo')} --rows ROW."
            )
        again = {(run.row, run.seed) for run in runs}
        old = [line for line in tracked_lines(definition.table) if line["size"] != size or not _seeds_of(line) & again]
        lines = [*(json.dumps(line, ensure_ascii=False) for line in old), *_lines(results, runs)]
        write_atomically(path, "".join(f"{line}\n" for line in lines))
        yield f"{path}: size {size}, {'; '.join(dict.fromkeys(run.row for run in runs))}"
    page, text = measured_page(definition.table, size), tracked_page(definition, size)
    if results.runs and (not page.is_file() or page.read_text("utf-8") != text):
        write_atomically(page, text)
        yield f"{page}: the tracked results, size {size}"


def _is_outdated(definition: TableDefinition, run: Result) -> bool:
    """Whether an experiment gives something else today; the sizes of a corpus depend on no configuration."""
    from depgen.reporting.jobs import Job  # torch

    row = definition.row(run.row)
    return row.floor != "corpus" and run.config_sha256 != Job(definition, row, run.size, run.seed).config.digest


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
    seeds = {place: sorted(figure.values) for place, figure in results.figures.items()}
    of_rows: dict[str, dict[str, Any]] = {}
    for (row, key), ends in results.intervals.items():
        if row in results.local:  # a line for the figures of a row that are over the same seeds
            line = {"row": row, "size": results.size, "seeds": seeds[row, key]}
            of_rows.setdefault(str(line), {**line, "intervals": {}})["intervals"][key] = ends
    yield from (_line("intervals", line) for line in of_rows.values())
    done = set[tuple[str, frozenset[str]]]()
    for item in compare(results):
        pair = (item.column, frozenset((item.row, item.other)))
        if pair in done or not {item.row, item.other} <= results.local or {item.p_items, item.interval} == {None}:
            continue
        done.add(pair)
        content = {
            "row": item.row, "size": results.size, "against": item.other, "measure": item.column,
            "test": results.definition.column(item.column).test, "seeds": seeds[item.row, item.column],
            "other_seeds": seeds[item.other, item.column], "gain": item.gain, "p": item.p_items, "items": item.items,
            "interval": item.interval,
        }  # fmt: skip
        yield _line("comparison", content)


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
