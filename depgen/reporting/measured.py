"""What was measured before and is tracked: `experiments/measured/<table>/<row>.yaml`, one entry a size."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from depgen.errors import UserError
from depgen.reporting.comparison import LEVEL, best_other, gain, judges, summarise
from depgen.reporting.definition import Row, TableDefinition
from depgen.reporting.experiments import experiments_root
from depgen.reporting.fields import entries, mapping, read_yaml
from depgen.reporting.intervals import Bounds
from depgen.reporting.results import Result, read_results

_ROUNDING = 1e-2
"""How far a recorded gain and that of recorded figures may be apart, of the former."""


@dataclass(frozen=True)
class Measured:
    """The tracked results of a row at a size, with what was found from items that are not tracked.

    Attributes:
        results: one a seed.
        tested: by (system, measure), the gain over what it was significantly better or worse than, when recorded.
        intervals: low and high end of the bootstrap interval by measure, as recorded.
        scored_seeds: the seeds whose items intervals and tests were by, where these were not all.
    """

    results: tuple[Result, ...]
    tested: Mapping[tuple[str, str], float] = field(default_factory=dict)
    intervals: Bounds = field(default_factory=dict)
    scored_seeds: tuple[int, ...] = ()


@dataclass(frozen=True)
class Ours:
    """What there is of a row here and in the tracked files.

    Attributes:
        results: the local ones, and tracked ones of other seeds that `join` them; by seed. Empty where none is local.
        apart: tracked ones that do not.
        joined: whether tracked ones are among `results`.
    """

    results: tuple[Result, ...] = ()
    apart: Measured | None = None
    joined: bool = False

    @property
    def shown(self) -> tuple[Result, ...]:
        """The local results with what joins them, or else the tracked ones."""
        return self.results or (() if self.apart is None else self.apart.results)

    @property
    def of_one_training(self) -> tuple[Result, ...]:
        """The same, whoever judged them: their curves have no judge."""
        rest = () if self.apart is None else self.apart.results
        others = of_one_training(self.results, rest) if self.results else rest
        return tuple(sorted([*self.results, *others], key=lambda result: result.seed))


def measured_path(table: str, row_slug: str) -> Path:
    """The tracked file of a row."""
    return experiments_root() / "measured" / table / f"{row_slug}.yaml"


def measured_page(table: str, size: str) -> Path:
    """The file that shows a table's tracked results whole."""
    return experiments_root() / "measured" / table / f"table-{size}.md"


def read_measured_file(path: Path) -> dict[str, Any]:
    """The file's plain content; empty where there is none.

    Raises:
        UserError: the file does not read as one of measurements.
    """
    if not path.is_file():
        return {}
    content = read_yaml(path)
    mapping(content.get("profiles"), f"{path}: profiles")
    return dict(content)


def read_measured(definition: TableDefinition, *, size: str) -> dict[str, Measured]:
    """By row name, what is tracked at a size.

    Raises:
        UserError: a file does not read as one of measurements.
    """
    found = {}
    for row in definition.rows:
        path = measured_path(definition.table, row.slug)
        entry = read_measured_file(path).get("profiles", {}).get(size)
        if entry is not None:
            where = f"{path}: profiles.{size}"
            entry = mapping(entry, where)
            found[row.name] = Measured(
                _seeds(entry, definition, row.name, size, where),
                _tested(entry, where),
                _intervals(entry, where),
                entries(entry.get("scored_seeds") or (), int, f"{where}.scored_seeds"),
            )
    return found


def read_ours(definition: TableDefinition, *, size: str) -> dict[str, Ours]:
    """By row name, every row's local and tracked results; of a floor, which no seed varies, the first of each.

    Raises:
        UserError: a file does not read as a result, or as one of measurements.
    """
    measured = read_measured(definition, size=size)
    found = {}
    for row in definition.rows:
        local = tuple(read_results(definition.table, row.slug, size=size))
        tracked = measured.get(row.name)
        if row.is_floor:
            kept = None if tracked is None else dataclasses.replace(tracked, results=tracked.results[:1])
            found[row.name] = Ours(local[:1], kept)
        elif tracked is None or not local:
            found[row.name] = Ours(local, tracked)
        else:
            found[row.name] = _joined(local, tracked)
    return found


def tracked_stars(definition: TableDefinition, row: Row, ours: Mapping[str, Ours]) -> set[str]:
    """The measures in which a row's tracked results are significantly better than the best other system of its block.

    As it is now: a test against one that others have overtaken since gives no star, nor one of other figures.
    """
    apart, shown = ours[row.name].apart, {name: each.shown for name, each in ours.items()}
    if apart is None:
        return set()
    stars = set()
    for column in definition.columns:
        mine, rival = summarise(apart.results, column.key), best_other(definition, shown, row, column)
        theirs = None if rival is None else summarise(shown[rival.name], column.key)
        if mine is None or rival is None or theirs is None:
            continue
        ahead = gain(column, mine.mean, theirs.mean)
        if ahead > 0 and math.isclose(ahead, _recorded(ours, row, rival, column.key), rel_tol=_ROUNDING):
            stars.add(column.key)
    return stars


def _recorded(ours: Mapping[str, Ours], row: Row, rival: Row, key: str) -> float:
    """The significant gain over a rival that either of the two has on record; infinite where none has."""
    for one, other, sign in ((row, rival, 1), (rival, row, -1)):
        apart = ours[one.name].apart
        found = None if apart is None else apart.tested.get((other.name, key))
        if found is not None:
            return sign * found
    return math.inf


def _joined(local: tuple[Result, ...], tracked: Measured) -> Ours:
    """Local results with the tracked ones that join them; what is left of the others loses tests and intervals."""
    both = join(local, tracked.results)
    if len(both) == len(local):
        return Ours(local, tracked)
    seeds = {result.seed for result in both}
    rest = tuple(each for each in tracked.results if each.seed not in seeds)
    return Ours(both, Measured(rest) if rest else None, joined=True)


def join(local: Sequence[Result], tracked: Sequence[Result]) -> tuple[Result, ...]:
    """The local results of a row, and the tracked ones that `of_one_training` has and the same models judged; by seed.

    Results of other judges stay apart whole: one system's numbers are all over the same seeds, or marked.
    """
    others = [each for each in of_one_training(local, tracked) if not judged_otherwise(local, each)]
    return tuple(sorted([*local, *others], key=lambda result: result.seed))


def of_one_training(local: Sequence[Result], tracked: Sequence[Result]) -> list[Result]:
    """The tracked results of other seeds than the local ones, made from the same configuration and data."""
    seeds, trainings = {result.seed for result in local}, {training_of(result) for result in local}
    return [each for each in tracked if each.seed not in seeds and training_of(each) in trainings]


def training_of(result: Result) -> tuple[str | None, str | None, str | None, str | None]:
    """What the seeds of one system share: configuration, data, trees and what weights began from."""
    return result.config_sha256, result.data.fingerprint, result.trees, result.beginning


def judged_otherwise(local: Sequence[Result], tracked: Result) -> list[str]:
    """The measures that other models gave a tracked result than the local ones."""
    return [key for key in tracked.metrics if (known := judges(local, key)) and tracked.settings.get(key) not in known]


def _seeds(
    entry: Mapping[str, Any], definition: TableDefinition, row: str, size: str, where: str
) -> tuple[Result, ...]:
    seeds = mapping(entry.get("seeds"), f"{where}.seeds")
    place = {"table": definition.table, "row": row, "size": size}
    never = {column.key for column in definition.columns if column.published_only}
    return tuple(
        dataclasses.replace(result, not_computed={k: v for k, v in result.not_computed.items() if k not in never})
        for seed, content in seeds.items()
        for told in [f"{where}.seeds.{seed}"]
        for result in [Result.from_dict({**place, "seed": seed, **mapping(content, told)}, where=told)]
    )


def _tested(entry: Mapping[str, Any], where: str) -> dict[tuple[str, str], float]:
    compared = entries(entry.get("comparisons") or (), dict, f"{where}.comparisons")
    try:
        return {
            (str(each["against"]), str(each["column"])): float(each["gain"])
            for each in compared
            if each["p_value"] is not None and each["p_value"] < LEVEL
        }
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{where}.comparisons: expected against, column, gain and p_value of each, found {compared!r}."
        ) from error


def _intervals(entry: Mapping[str, Any], where: str) -> dict[str, tuple[float, float]]:
    content = entry.get("intervals") or {}
    try:
        return {str(key): (float(low), float(high)) for key, (low, high) in content.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise UserError(f"{where}.intervals: expected a low and a high end by measure, found {content!r}.") from error
