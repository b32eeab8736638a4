"""Results that are worth keeping, copied into the tracked tree."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from depgen.errors import UserError
from depgen.locations import results_root, write_atomically
from depgen.reporting.asked import asked_for
from depgen.reporting.comparison import Results, SystemComparison, compare, scored, seeds_scored
from depgen.reporting.definition import Row, TableDefinition
from depgen.reporting.intervals import intervals, with_intervals
from depgen.reporting.measured import (
    Ours,
    judged_otherwise,
    measured_page,
    measured_path,
    read_measured,
    read_measured_file,
    read_ours,
)
from depgen.reporting.results import Result
from depgen.reporting.tables import tracked_page

logger = logging.getLogger(__name__)
CURVE_POINTS = 40


def record(table: str | None = None, *, size: str | None = None) -> str:
    """Which tracked files were written: `experiments/measured/<table>/<row>.yaml`, a size's entry in each.

    Beside them `table-<size>.md` shows the table of all tracked results; it is written anew where the table's
    definition has changed alone, too.

    Seeds that are tracked already stay beside the local ones; a local result goes before a tracked one of its seed.
    Figures are over both, intervals and tests by the seeds whose per-item scores are here, which the file names. A
    comparison that the table tests but of which no seed has such scores is left out and named in the log.

    Args:
        table: the table's name; unset: every table that has results, each at the size asked for or at its only one.
        size: whose results to copy; unset: `small`, or the only one of the table.

    Raises:
        UserError: there are no results at that size, or tracked seeds are of another configuration.
    """
    written = []
    for definition, chosen, reason in asked_for(table, size):
        ours = read_ours(definition, size=chosen)
        if any(each.results for each in ours.values()):
            written += [
                f"{definition.table}. {reason}" if table is None else reason,
                *_record(definition, chosen, ours),
            ]
        tracked = read_measured(definition, size=chosen)
        if tracked:
            written += _show(definition, chosen)
        elif table is not None:
            raise UserError(
                f"No results of size {chosen} under {results_root() / definition.table}. "
                f"Make them first: depgen reproduce {definition.argument} --size {chosen}."
            )
    return "\n".join(written) or f"No results under {results_root()}: nothing to record."


def _show(definition: TableDefinition, size: str) -> list[str]:
    """The page of a table's tracked results, written where it has changed; one line then."""
    path, text = measured_page(definition.table, size), tracked_page(definition, size)
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return []
    write_atomically(path, text)
    return [f"{path}: the tracked results, size {size}"]


def _record(definition: TableDefinition, size: str, ours: Mapping[str, Ours]) -> list[str]:
    """The tracked files of one table, written; one line each.

    Raises:
        UserError: tracked seeds that have no local result do not go with the local ones of their row.
    """
    rows = [row for row in definition.rows if ours[row.name].results]
    for row in rows:
        _check_that_none_is_lost(definition, row, ours[row.name])
    results = {name: each.shown for name, each in ours.items()}
    compared = [each for each in compare(definition, results)[0] if ours[each.row].results]
    kept = [each for each in compared if _is_recorded(definition, each, results)]
    comparisons = with_intervals(definition, results, kept)
    bounds = intervals(definition, results)
    written = []
    for row in rows:
        path = measured_path(definition.table, row.slug)
        content = read_measured_file(path)
        sizes = dict(content.get("profiles", {}))
        having = seeds_scored(definition, results[row.name])
        sizes[size] = {
            "seeds": {result.seed: _plain(result) for result in results[row.name]},
            "intervals": {key: [float(f"{end:.6g}") for end in each] for key, each in bounds.get(row.name, {}).items()},
            "comparisons": _plain_comparisons(row, comparisons),
            **({"scored_seeds": having} if 0 < len(having) < len(results[row.name]) else {}),
        }
        text = yaml.safe_dump({"row": row.name, "table": definition.table, "profiles": sizes}, sort_keys=False)
        write_atomically(path, text)
        seeds = ", ".join(str(result.seed) for result in results[row.name])
        written.append(f"{path}: {row.name}, size {size}, seeds {seeds}")
    return written


def _check_that_none_is_lost(definition: TableDefinition, row: Row, ours: Ours) -> None:
    """Whether every tracked seed is among the results to be written, or has a local one in its place.

    Raises:
        UserError: one is not: it is of another configuration than the local ones, or other models judged it.
    """
    if ours.apart is None or row.is_floor:
        return
    seeds = {result.seed for result in ours.results}
    for tracked in ours.apart.results:
        if tracked.seed not in seeds:
            raise _one_row_holds_one(definition, row, ours.results, tracked)


def _one_row_holds_one(definition: TableDefinition, row: Row, local: Sequence[Result], lost: Result) -> UserError:
    """Why a tracked seed does not go with the local ones, and what to do."""
    where = f"{measured_path(definition.table, row.slug)}: seed {lost.seed} of size {lost.size}"
    again = f"depgen reproduce {definition.argument} --row {row.slug} --size {lost.size} --seeds [{lost.seed}]"
    digests = {result.config_sha256 for result in local}
    if lost.config_sha256 not in digests:
        return UserError(
            f"{where} was made with the configuration {lost.config_sha256}, but the local results with "
            f"{', '.join(sorted(digests))}; one row holds one configuration. Make the seed again ({again} --redo) or "
            "delete the tracked entry."
        )
    if judged := judged_otherwise(local, lost):
        return UserError(
            f"{where} was judged by other models than the local results ({', '.join(judged)}); one row holds one "
            f"judge. Measure the seed again ({again} --remeasure) or delete the tracked entry."
        )
    return UserError(
        f"{where} was trained on other data, by other trees or from other weights than the local results; one row "
        f"holds one training. Make the seed again ({again} --redo) or delete the tracked entry."
    )


def _is_recorded(definition: TableDefinition, item: SystemComparison, results: Results) -> bool:
    """Whether a comparison that the table tests could be tested; what is left out is logged with the reason."""
    column = definition.column(item.column)
    if column.test == "none" or item.incomparable is not None:
        return True
    for row in (item.row, item.other):
        if not scored(results[row], column):
            logger.warning(
                "%s against %s in %s is not recorded: no per-item scores of %s on this machine.",
                item.row, item.other, column.header, row,
            )  # fmt: skip
            return False
    return True


def _plain(result: Result) -> dict[str, Any]:
    """A result without what its place says already, per-item files left out and the curve thinned."""
    content = result.to_dict()
    for name in ("table", "row", "size", "seed", "items"):
        del content[name]
    content["metrics"] = {name: float(f"{value:.6g}") for name, value in content["metrics"].items()}
    kept = thin(result.curve, CURVE_POINTS)
    for name, points in (("curve", result.curve), ("clock", result.clock)):
        content[name] = [[float(f"{each:.6g}") for each in points[index]] for index in kept if points]
    return content


def _plain_comparisons(row: Row, comparisons: Sequence[SystemComparison]) -> list[dict[str, Any]]:
    return [
        {
            "against": item.other,
            "column": item.column,
            "gain": float(f"{item.gain:.4g}"),
            "two_standard_errors": None if item.margin is None else float(f"{item.margin:.4g}"),
            "p_value": None if item.p_value is None else float(f"{item.p_value:.3g}"),
            "verdict": item.verdict,
            **({} if item.interval is None else {"interval": [float(f"{end:.4g}") for end in item.interval]}),
        }
        for item in comparisons
        if item.row == row.name
    ]


def thin(curve: Sequence[tuple[float, float]], points: int) -> list[int]:
    """Which points of a curve to keep, at most so many, evenly by rank: both ends and the lowest value stay.

    >>> thin([(0.0, 9.0), (1.0, 3.0), (2.0, 4.0), (3.0, 5.0), (4.0, 6.0)], 3)
    [0, 1, 4]
    """
    if len(curve) <= points:
        return list(range(len(curve)))
    kept = {round(index * (len(curve) - 1) / (points - 2)) for index in range(points - 1)} if points > 2 else {0}
    lowest = min(range(len(curve)), key=lambda index: curve[index][1])
    return sorted(kept | {lowest})
