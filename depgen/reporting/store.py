"""Every number of a table in one frame: published, tracked (`experiments/measured/<table>.jsonl`) and local ones."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from depgen.errors import UserError
from depgen.locations import json_value
from depgen.reporting.definition import TableDefinition
from depgen.reporting.experiments import experiments_root
from depgen.reporting.fields import read_as
from depgen.reporting.results import Result, read_results
from depgen.trees.text_files import read_lines

if TYPE_CHECKING:
    from pandas import DataFrame

Bounds = tuple[float, float]
"""Low and high end of an interval."""
Source = Literal["measured", "local", "joined"]


@dataclass(frozen=True)
class ItemTest:
    """A test over items as it was recorded, for systems whose item scores are not tracked.

    Attributes:
        gain: by how much the first system is better, in the measure's units (negative: worse).
        items: how many, `n` in the file; None where that was not recorded.
        p_value: two-sided, corrected by Holm's method over the tests of the table then, `p` in the file; None where
            there was no test.
    """

    gain: float
    items: Annotated[int | None, Field(alias="n")]
    p_value: Annotated[float | None, Field(alias="p")]


@dataclass(frozen=True)
class RecordedIntervals:
    """Intervals of a system by measure, over the items of these seeds."""

    row: str
    size: str
    seeds: frozenset[int]
    intervals: Mapping[str, Bounds]


@dataclass(frozen=True)
class RecordedTests:
    """Tests of a system against another one, by measure."""

    row: str
    size: str
    other: str
    tests: Mapping[str, ItemTest]


Recorded = tuple[RecordedIntervals | RecordedTests, ...]
"""What item scores gave, which are not tracked themselves where they are too many."""


@dataclass(frozen=True)
class Figure:
    """A measure of a row over the seeds that have it, all judged by the same model.

    Attributes:
        values: by seed.
        judge: what the measure depends on (model, layer, version); empty where nothing is known.
    """

    values: Mapping[int, float]
    judge: str = ""

    @property
    def mean(self) -> float:
        """Over seeds."""
        return float(np.mean(list(self.values.values())))

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation over seeds; None for one seed."""
        return float(np.std(list(self.values.values()), ddof=1)) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Ours:
    """All numbers of a table at one size.

    Attributes:
        definition: of the table.
        size: of the experiments.
        results: one a row and seed, by row and seed. A local result replaces the tracked one of its seed; tracked
            seeds of another training than the local ones are left out.
        local: the rows and seeds whose results are on this machine.
        recorded: what item scores gave that may be gone.
    """

    definition: TableDefinition
    size: str
    results: tuple[Result, ...] = ()
    local: frozenset[tuple[str, int]] = frozenset()
    recorded: Recorded = ()

    def of(self, row: str) -> tuple[Result, ...]:
        """The results of a row, by seed."""
        return tuple(result for result in self.results if result.row == row)

    def source(self, row: str) -> Source:
        """`local` or `measured` (tracked), where all results of a row are; else `joined`."""
        found = {(each.row, each.seed) in self.local for each in self.of(row)}
        return "joined" if len(found) > 1 else "local" if True in found else "measured"

    def local_of(self, row: str) -> tuple[Result, ...]:
        """The results of a row that are on this machine, by seed."""
        return tuple(each for each in self.of(row) if (row, each.seed) in self.local)

    @cached_property
    def frame(self) -> "DataFrame":
        """One line a number, with columns `row seed measure value judge source`; published ones have no seed."""
        import pandas as pd

        published = [
            (row.name, None, measure, value, "", "paper")
            for row in self.definition.rows
            for measure, value in row.values.items()
        ]
        ours = [
            (each.row, each.seed, measure, value, each.settings.get(measure, ""), source)
            for each in self.results
            for source in ["local" if (each.row, each.seed) in self.local else "measured"]
            for measure, value in each.metrics.items()
        ]
        return pd.DataFrame([*published, *ours], columns=["row", "seed", "measure", "value", "judge", "source"])

    @cached_property
    def figures(self) -> Mapping[tuple[str, str], Figure]:
        """By row and measure, what seeds of one judge gave; of tracked seeds those that the local ones' judge judged.

        None where different models judged the seeds: there is no mean over them.
        """
        found = {}
        ours = self.frame[self.frame.source != "paper"]
        for (row, measure), lines in ours.groupby(["row", "measure"], sort=False):
            local = lines[lines.source == "local"]
            judges = (local if len(local) else lines).judge.unique()
            if len(judges) == 1:
                kept = lines[lines.judge == judges[0]]
                values = zip(kept.seed.astype(int).tolist(), kept.value.tolist(), strict=True)
                found[str(row), str(measure)] = Figure(dict(values), str(judges[0]))
        return found

    def figure(self, row: str, measure: str) -> Figure | None:
        """A measure of a row; None where it has none, or several judges gave it."""
        return self.figures.get((row, measure))

    def results_of(self, row: str, measure: str) -> tuple[Result, ...]:
        """The results behind a figure."""
        figure = self.figure(row, measure)
        return () if figure is None else tuple(each for each in self.of(row) if each.seed in figure.values)


def measured_path(table: str) -> Path:
    """The tracked results of a table."""
    return experiments_root() / "measured" / f"{table}.jsonl"


def measured_page(table: str, size: str) -> Path:
    """The page that shows a table's tracked results."""
    return experiments_root() / "measured" / f"{table}-{size}.md"


def read_ours(definition: TableDefinition, *, size: str, local: bool = True) -> Ours:
    """The local and tracked numbers of a table, or the tracked ones alone; of a floor, which no seed varies, one.

    Raises:
        UserError: a file does not read as one of results.
    """
    tracked, recorded = read_tracked(definition, size=size)
    results: list[Result] = []
    here = set()
    for row in definition.rows:
        mine = read_results(definition.table, row.slug, size=size) if local else []
        theirs = [each for each in tracked if each.row == row.name]
        both = sorted([*mine, *same_training(mine, theirs)], key=lambda each: each.seed)
        results += (mine or theirs)[:1] if row.is_floor else both
        here |= {(each.row, each.seed) for each in mine}
    return Ours(definition, size, tuple(results), frozenset(here), recorded)


def same_training(mine: Sequence[Result], tracked: Sequence[Result]) -> list[Result]:
    """The tracked results of other seeds than the local ones and of their training; all where nothing is local."""
    seeds, trainings = {each.seed for each in mine}, {training_of(each) for each in mine}
    return [each for each in tracked if not mine or (each.seed not in seeds and training_of(each) in trainings)]


def training_of(result: Result) -> tuple[str | None, str | None, str | None, str | None]:
    """What the seeds of one system share: configuration, data, trees and what weights began from."""
    return result.config_sha256, result.data.fingerprint, result.trees, result.beginning


def read_tracked(definition: TableDefinition, *, size: str) -> tuple[tuple[Result, ...], Recorded]:
    """The tracked results of a table at a size, and what was recorded from item scores.

    Raises:
        UserError: the file does not read as one of results; the line is named.
    """
    path = measured_path(definition.table)
    remedy = f" Restore it: git checkout {path}"
    results: list[Result] = []
    recorded: list[RecordedIntervals | RecordedTests] = []
    names = {row.name for row in definition.rows}
    for where, line in tracked_lines(path):
        if line["size"] != size or line["row"] not in names:
            continue
        if "seed" in line:
            results.append(Result.from_dict({"table": definition.table, **line}, where=where))
        elif "intervals" in line:
            recorded.append(read_as(RecordedIntervals, line, where, remedy=remedy))
        else:
            recorded.append(read_as(RecordedTests, line, where, remedy=remedy))
    return tuple(sorted(results, key=lambda each: each.seed)), tuple(recorded)


def tracked_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each line's place (`file:line`) and content; nothing where there is no such file, or an empty one.

    Raises:
        UserError: a line is no JSON object, or names no row and size.
    """
    for number, line in read_lines(path) if path.is_file() and path.stat().st_size else ():
        where = f"{path}:{number}"
        content = json_value(line, where, remedy=f"Restore it: git checkout {path}")
        if not isinstance(content, dict) or not {"row", "size"} <= set(content):
            raise UserError(f"{where}: expected row and size. Restore it: git checkout {path}")
        yield where, content


_ROUNDING = 1e-2
"""How far a recorded gain and that of today's figures may be apart, of the former."""


def recorded_test(ours: Ours, row: str, other: str, measure: str, gain: float) -> ItemTest | None:
    """The recorded test of two systems' figures of today, in either direction; None where it was of other figures."""
    signs = {(row, other): 1, (other, row): -1}
    for line in ours.recorded:
        if isinstance(line, RecordedTests) and measure in line.tests and (line.row, line.other) in signs:
            found, sign = line.tests[measure], signs[line.row, line.other]
            if math.isclose(gain, sign * found.gain, rel_tol=_ROUNDING):
                return dataclasses.replace(found, gain=sign * found.gain)
    return None
