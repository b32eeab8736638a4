"""Results that are worth keeping, written to the tracked tree."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from depgen.errors import UserError
from depgen.locations import results_root, write_atomically
from depgen.reporting.age import ages_in
from depgen.reporting.compare import SystemComparison, compare
from depgen.reporting.definition import TableDefinition, chosen_tables
from depgen.reporting.intervals import intervals
from depgen.reporting.results import Result
from depgen.reporting.store import (
    Ours,
    measured_page,
    measured_path,
    read_ours,
    read_tracked,
    tracked_lines,
    training_of,
)
from depgen.reporting.tables import tracked_page

CURVE_POINTS = 40
MAX_BYTES = 1_000_000
"""The size up to which a table's file keeps item scores."""


def record(table: str | None = None, *, size: str | None = None) -> str:
    """Which tracked files were written: `experiments/measured/<table>.jsonl` and its page `<table>-<size>.md`.

    The file has a line for each row, size and seed, and lines of the intervals and tests that item scores gave. The
    scores are kept too, compressed, as long as the file stays below 1 MB. A local result replaces the tracked one of
    its seed; other tracked seeds stay. The page is written again if the table's definition has changed, too.

    Args:
        table: the table's name; unset: every table that has results, each at the given size or at its only one.
        size: whose results to copy; unset: `small`, or the table's only one.

    Raises:
        UserError: there are no results at that size, some are out of date, or tracked seeds are of another training.
    """
    written = []
    for definition, chosen, reason in chosen_tables(table, size):
        ours = read_ours(definition, size=chosen)
        if ours.local:
            written += [f"{definition.table}. {reason}" if table is None else reason, _record(ours)]
        elif not ours.results and table is not None:
            raise UserError(
                f"No results of size {chosen} under {results_root() / definition.table}. "
                f"Make them first: {definition.command(chosen)}."
            )
        if ours.results:
            written += _show(definition, chosen)
    return "\n".join(written) or f"No results under {results_root()}: nothing to record."


def _show(definition: TableDefinition, size: str) -> list[str]:
    """The page of a table's tracked results, written where it has changed; one line then."""
    path, text = measured_page(definition.table, size), tracked_page(definition, size)
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return []
    write_atomically(path, text)
    return [f"{path}: the tracked results, size {size}"]


def _record(ours: Ours) -> str:
    """The tracked file of one table, written; one line that says so.

    Raises:
        UserError: local results are out of date, or tracked seeds are of another training than those of their row.
    """
    definition, path = ours.definition, measured_path(ours.definition.table)
    _check_age(ours)
    _check_that_none_is_lost(ours)
    names = {row.name for row in definition.rows}
    others = [line for _, line in tracked_lines(path) if line["size"] != ours.size or line["row"] not in names]
    found = _found(ours, compare(ours)[0])
    whole, bare = (
        _text([*others, *(_plain(each, items=items) for each in ours.results), *found]) for items in (True, False)
    )
    write_atomically(path, whole if len(whole.encode()) < MAX_BYTES else bare)
    rows = sorted({row for row, _ in ours.local}, key=[row.name for row in definition.rows].index)
    return f"{path}: size {ours.size}, {'; '.join(rows)}"


def _text(lines: Iterable[Mapping[str, Any]]) -> str:
    return "".join(f"{json.dumps(line, ensure_ascii=False, allow_nan=False)}\n" for line in lines)


def _check_age(ours: Ours) -> None:
    """Raises UserError if a local result is out of date."""
    old = ages_in(ours)
    if not old:
        return
    definition = ours.definition
    found: dict[tuple[str, str], list[int]] = {}
    for (row, seed), age in old.items():
        found.setdefault((row, age.remedy), []).append(seed)
    reasons = "; ".join(f"{row}, seed {seed}: {age.reason}" for (row, seed), age in old.items())
    commands = "; ".join(
        definition.command(ours.size, definition.row(name), seeds=seeds, option=remedy)
        for (name, remedy), seeds in found.items()
    )
    raise UserError(
        f"{results_root() / definition.table}: results are out of date, so that nothing was recorded: {reasons}. Make "
        f"them again: {commands}."
    )


def _check_that_none_is_lost(ours: Ours) -> None:
    """Raises UserError if a tracked seed would be lost, being of another training than the local seeds of its row."""
    definition, size = ours.definition, ours.size
    for lost in read_tracked(definition, size=size)[0]:
        row, mine = definition.row(lost.row), ours.local_of(lost.row)
        if not mine or row.is_floor or lost.seed in {each.seed for each in ours.of(row.name)}:
            continue
        names = ("configuration", "data", "trees", "initial weights")
        pairs = zip(names, training_of(lost), training_of(mine[0]), strict=True)
        differ = ", ".join(f"{name} ({theirs} before, {own} here)" for name, theirs, own in pairs if theirs != own)
        raise UserError(
            f"{measured_path(definition.table)}: {row.name}, size {size}: seed {lost.seed} is of another training than "
            f"the local results: {differ}. Make it again "
            f"({definition.command(size, row, seeds=[lost.seed], option='--redo')}), or delete its line."
        )


def _plain(result: Result, *, items: bool) -> dict[str, Any]:
    """A result's line: numbers to six digits, the curve thinned, empty values left out."""
    content = {"row": result.row, "size": result.size, "seed": result.seed, **asdict(result)}
    del content["table"], content["run"]
    content["metrics"] = {name: float(f"{value:.6g}") for name, value in content["metrics"].items()}
    kept = thin(result.curve or result.clock, CURVE_POINTS)
    for name, points in (("curve", result.curve), ("clock", result.clock)):
        content[name] = [[float(f"{each:.6g}") for each in points[index]] for index in kept if points]
    content["items"] = dict(sorted(result.items.items())) if items else {}
    return {name: value for name, value in content.items() if value not in (None, {}, [])}


def _found(ours: Ours, comparisons: Sequence[SystemComparison]) -> list[dict[str, Any]]:
    """The lines of intervals, and those of tests, each in one direction."""
    lines: dict[tuple[str, str | frozenset[int]], dict[str, Any]] = {}
    for (row, column), (ends, seeds) in intervals(ours).items():
        line = lines.setdefault((row, seeds), {"row": row, "size": ours.size, "seeds": sorted(seeds), "intervals": {}})
        line["intervals"][column] = [float(f"{end:.6g}") for end in ends]
    for item in comparisons:
        mirrored = lines.get((item.other, item.row), {"tests": {}})["tests"]
        if item.p_items is not None and item.column not in mirrored:
            line = lines.setdefault(
                (item.row, item.other), {"row": item.row, "size": ours.size, "other": item.other, "tests": {}}
            )
            gain, p_value = float(f"{item.gain:.4g}"), float(f"{item.p_items:.3g}")
            line["tests"][item.column] = {"gain": gain, "n": item.items, "p": p_value}
    return [*lines.values()]


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
