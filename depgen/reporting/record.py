"""Results that are worth keeping, copied into the tracked tree."""

import logging
from collections.abc import Sequence
from typing import Any

import yaml

from depgen.errors import UserError
from depgen.locations import results_root, write_atomically
from depgen.reporting.comparison import Comparison, compare, starred
from depgen.reporting.definition import Row, load_definition
from depgen.reporting.measured import measured_path, read_measured_file
from depgen.reporting.provenance import choose_profile
from depgen.reporting.results import Result, read_results

logger = logging.getLogger(__name__)
CURVE_POINTS = 40


def record(table: str, *, profile: str | None = None) -> str:
    """Which tracked files were written: `experiments/measured/<table>/<row>.yaml`, a profile's entry in each.

    Args:
        table: the table's name.
        profile: whose results to copy; unset: `paper` where a GPU is found, `small` elsewhere.

    Raises:
        UserError: there are no results at that profile.
    """
    definition = load_definition(table)
    profile, reason = choose_profile(definition.profiles, profile)
    results = {row.name: read_results(definition.table, row.slug, profile=profile) for row in definition.rows}
    rows = [row for row in definition.rows if results[row.name]]
    if not rows:
        raise UserError(
            f"No results of profile {profile} under {results_root() / definition.table}. "
            f"Make them first: depgen reproduce {definition.table} --profile {profile}."
        )
    comparisons, _ = compare(definition, results)
    stars = starred(definition, results, comparisons)
    written = [reason]
    for row in rows:
        path = measured_path(definition.table, row.slug)
        content = read_measured_file(path)
        profiles = dict(content.get("profiles", {}))
        profiles[profile] = {
            "seeds": {result.seed: _plain(result) for result in results[row.name]},
            "stars": [column.key for column in definition.columns if (row.name, column.key) in stars],
            "comparisons": _plain_comparisons(row, comparisons),
        }
        text = yaml.safe_dump({"row": row.name, "table": definition.table, "profiles": profiles}, sort_keys=False)
        write_atomically(path, text)
        seeds = ", ".join(str(result.seed) for result in results[row.name])
        written.append(f"{path}: {row.name}, profile {profile}, seeds {seeds}")
    return "\n".join(written)


def _plain(result: Result) -> dict[str, Any]:
    """A result without what its place says already, per-item files left out and the curve thinned."""
    content = result.to_dict()
    for name in ("table", "row", "profile", "seed", "items"):
        del content[name]
    content["metrics"] = {name: float(f"{value:.6g}") for name, value in content["metrics"].items()}
    content["curve"] = [[float(f"{x:.6g}"), float(f"{y:.6g}")] for x, y in thin(result.curve, CURVE_POINTS)]
    return content


def _plain_comparisons(row: Row, comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    return [
        {
            "against": item.other,
            "column": item.column,
            "gain": float(f"{item.gain:.4g}"),
            "two_standard_errors": None if item.margin is None else float(f"{item.margin:.4g}"),
            "p_value": None if item.p_value is None else float(f"{item.p_value:.3g}"),
            "verdict": item.verdict,
        }
        for item in comparisons
        if item.row == row.name
    ]


def thin(curve: Sequence[tuple[float, float]], points: int) -> list[tuple[float, float]]:
    """At most that many points of a curve, evenly by rank: both ends and the lowest value stay.

    >>> thin([(0.0, 9.0), (1.0, 3.0), (2.0, 4.0), (3.0, 5.0), (4.0, 6.0)], 3)
    [(0.0, 9.0), (1.0, 3.0), (4.0, 6.0)]
    """
    if len(curve) <= points:
        return list(curve)
    kept = {round(index * (len(curve) - 1) / (points - 2)) for index in range(points - 1)} if points > 2 else {0}
    lowest = min(range(len(curve)), key=lambda index: curve[index][1])
    return [curve[index] for index in sorted(kept | {lowest})]
