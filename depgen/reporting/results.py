"""Results: one run of a row at a size and seed, and all numbers of a table in one frame.

A local result is a JSON file, with the scores of single items. Tracked ones are lines of a table's file in
`experiments/measured/`; curves, and the intervals and comparisons that items gave, are lines of their own there.
"""

import base64
import binascii
import dataclasses
import itertools
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float, Int

from depgen.data.record import DataSource
from depgen.errors import UserError
from depgen.locations import json_object, json_value, results_root, write_atomically
from depgen.metrics.significance import bootstrap_means, by_group, percentile_interval
from depgen.reporting.experiments import experiments_root
from depgen.reporting.fields import read_as
from depgen.reporting.generation import Generation
from depgen.reporting.table import Column, Row, TableDefinition, is_made
from depgen.training.experiment import Experiment
from depgen.trees.text_files import read_lines

if TYPE_CHECKING:
    from pandas import DataFrame

UNKNOWN = "_unk_rate"
"""How names of metrics end that are shares of words which the judge of a measure reads as `<unk>`."""
BOUND = "_bound"
"""The name of a measure's setting that says of what its scores are bounds ends so; systems compare all the same."""
OF_DOCUMENTS = "_unk_rate_of_documents"
"""How names of metrics end that are shares of words which a system reads as `<unk>` in the documents it judges."""
DOCUMENTS = "_documents"
"""How the items of a measure are named that number the documents which its items are pieces of."""
CONFIDENCE, RESAMPLES, SEED = 0.95, 2000, 0
"""Of the bootstrap intervals over items."""
AGREEMENT = 1e-3
"""How far, relative, a figure may lie from what its items give."""
_PACKED = "zlib:"
"""The beginning of packed scores: float32, compressed, in base64."""
_REMEDY = " Delete it to make it again."

Bounds = tuple[float, float]
"""Low and high end of an interval."""
Place = tuple[str, str]
"""A row's name and a measure's key."""
Scores = Float[np.ndarray, " items"]
SeedScores = Float[np.ndarray, "items seeds"]


@dataclass(frozen=True)
class Budget:
    """What training cost: passes over the data, and tokens seen over all phases."""

    epochs: int | None = None
    train_tokens: int | None = None


@dataclass(frozen=True)
class Result:
    """One row at one size and seed.

    Attributes:
        table: the table's name.
        row: the system's name, as in the paper.
        size: `small` or `paper`.
        seed: of training.
        metrics: numbers by measure.
        not_computed: reasons by measure.
        items: scores of single items by measure, as `packed` makes them; not tracked.
        settings: what a measure depends on (model, layer, version), by measure: its judge.
        data: what it was trained on.
        trees: the annotation scheme, or None for a system without trees.
        parameters: trained numbers in the model.
        budget: passes and tokens.
        hardware: in words.
        date: ISO, in UTC.
        commit: of the code that trained, `+` where the tree had changes.
        config_sha256: of the experiment's resolved configuration (`depgen.training.configuration_digest`).
        curve: (training tokens seen, validation perplexity), in order; empty where validation gives no perplexity.
        clock: (optimiser steps, seconds of wall time) at each validation; empty where they were not kept.
        generation: how its texts were made; None where there are none.
        measured_commit: of the code that measured, as in `commit`.
        processor_seconds: what training took on processors, validation included.
        weights_sha256: of the checkpoint that was measured; None where there is none.
        run: that was measured, below `$DEPGEN_RUNS`; not tracked.
        beginning: what a network that may be pretrained began from: `random weights`, or the name of others; None for
            every other network.
        precision: that it was trained in where its experiment asks for another one.
        made_before: a correction of the code after which the row is to be made again; None for all others.
    """

    table: str
    row: str
    size: str
    seed: int
    metrics: Mapping[str, float]
    data: DataSource
    hardware: str
    date: str
    commit: str
    config_sha256: str
    not_computed: Mapping[str, str] = field(default_factory=dict)
    items: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    trees: str | None = None
    parameters: int | None = None
    budget: Budget = Budget()
    curve: tuple[tuple[float, float], ...] = ()
    generation: Generation | None = None
    measured_commit: str | None = None
    clock: tuple[tuple[float, float], ...] = ()
    beginning: str | None = None
    weights_sha256: str | None = None
    run: str | None = None
    processor_seconds: float | None = None
    precision: str | None = None
    made_before: str | None = None

    def scores(self, name: str) -> Scores | None:
        """Scores of single items, in single precision; None where there are none.

        Raises:
            UserError: they are damaged.
        """
        if name not in self.items:
            return None
        try:
            content = zlib.decompress(base64.b64decode(self.items[name].removeprefix(_PACKED), validate=True))
            return np.frombuffer(content, "<f4").astype(np.float64)
        except (binascii.Error, zlib.error, ValueError) as error:
            raise UserError(
                f"{self.table}, {self.row}, seed {self.seed}: {name}: expected packed scores of single items "
                f"({error}). Measure the row again: depgen reproduce ... --remeasure"
            ) from error


def packed(scores: Scores) -> str:
    """Scores of single items as the text that a result holds; in single precision."""
    return _PACKED + base64.b64encode(zlib.compress(scores.astype("<f4").tobytes(), 9)).decode()


# -- local results ----------------------------------------------------------------------------------------------------


def result_path(table: str, row_slug: str, *, size: str, seed: int) -> Path:
    """`results/<table>/<row>/<size>-seed<k>.json`."""
    return results_root() / table / row_slug / f"{size}-seed{seed}.json"


def write_result(result: Result, path: Path) -> None:
    """Write the JSON in one step, so that no reader sees half of it.

    Raises:
        UserError: a measure is not finite (JSON has no word for that, and a table no use).
    """
    endless = [name for name, value in result.metrics.items() if not math.isfinite(value)]
    if endless:
        raise UserError(f"{path}: {', '.join(endless)} of {result.row} are not finite, so no result is written.")
    write_atomically(path, json.dumps(dataclasses.asdict(result), indent=2, allow_nan=False) + "\n")


def read_result(path: Path) -> Result:
    """The result in a JSON file.

    Raises:
        UserError: the file is not there, no JSON, or no result.
    """
    return read_as(Result, json_object(path, remedy=_REMEDY.strip()), str(path), remedy=_REMEDY)


def read_results(table: str, row_slug: str, *, size: str) -> list[Result]:
    """Every seed's local result of a row at a size, by seed.

    Raises:
        UserError: a file does not read as a result, or holds another one than its place says.
    """
    folder = results_root() / table / row_slug
    results = {path: read_result(path) for path in folder.glob(f"{size}-seed*.json")}
    for path, result in results.items():
        place = result_path(result.table, Row(name=result.row).slug, size=result.size, seed=result.seed)
        if place != path:
            raise UserError(f"{path} holds a result that belongs at {place}: move it there, or delete it.")
    return sorted(results.values(), key=lambda result: result.seed)


# -- tracked results --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RecordedIntervals:
    """Intervals of a row by measure, over the items of these seeds; a tracked line."""

    row: str
    size: str
    seeds: tuple[int, ...]
    intervals: Mapping[str, Bounds]


@dataclass(frozen=True)
class RecordedComparison:
    """What items told of a row against another one, over the seeds of both figures; a tracked line.

    Attributes:
        gain: by how much the row is better, in the measure's units (negative: worse).
        p: two-sided, corrected by Holm's method over the tests of the table then; None where there was no test.
        items: how many; None where that was not recorded.
        interval: of the gain; None where there is none.
    """

    row: str
    size: str
    against: str
    measure: str
    test: str
    seeds: tuple[int, ...]
    other_seeds: tuple[int, ...]
    gain: float
    p: float | None = None
    items: int | None = None
    interval: Bounds | None = None


@dataclass(frozen=True)
class Tracked:
    """The lines of a table's tracked file that are of its rows at one size."""

    results: tuple[Result, ...] = ()
    intervals: tuple[RecordedIntervals, ...] = ()
    comparisons: tuple[RecordedComparison, ...] = ()


def measured_path(table: str) -> Path:
    """The tracked results of a table."""
    return experiments_root() / "measured" / f"{table}.jsonl"


def measured_page(table: str, size: str) -> Path:
    """The page that shows a table's tracked results."""
    return experiments_root() / "measured" / f"{table}-{size}.md"


def tracked_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each line's place (`file:line`) and content; nothing where there is no such file, or an empty one.

    Raises:
        UserError: a line is no JSON object, or names no kind, row and size.
    """
    for number, line in read_lines(path) if path.is_file() and path.stat().st_size else ():
        where, remedy = f"{path}:{number}", f"Restore it: git checkout {path}"
        content = json_value(line, where, remedy=remedy)
        if not isinstance(content, dict) or not {"kind", "row", "size"} <= set(content):
            raise UserError(f"{where}: expected kind, row and size. {remedy}")
        yield where, content


def read_tracked(definition: TableDefinition, *, size: str) -> Tracked:
    """The tracked results of a table at a size, by seed, and what was recorded from items.

    Raises:
        UserError: the file does not read as one of results; the line is named.
    """
    path, names = measured_path(definition.table), {row.name for row in definition.rows}
    remedy = f" Restore it: git checkout {path}"
    results, curves = list[tuple[str, dict[str, Any]]](), dict[tuple[str, int], dict[str, Any]]()
    intervals, comparisons = list[RecordedIntervals](), list[RecordedComparison]()
    for where, line in tracked_lines(path):
        kind = line.pop("kind")
        if line["size"] != size or line["row"] not in names:
            continue
        if kind == "result":
            results.append((where, line))
        elif kind == "curve":
            curves[line["row"], line["seed"]] = line
        elif kind == "intervals":
            intervals.append(read_as(RecordedIntervals, line, where, remedy=remedy))
        else:
            comparisons.append(read_as(RecordedComparison, line, where, remedy=remedy))
    whole = []
    for where, line in results:
        curve = curves.get((line["row"], line.get("seed", 0)), {})
        whole.append(read_as(Result, {"table": definition.table, **curve, **line}, where))
    return Tracked(tuple(sorted(whole, key=lambda each: each.seed)), tuple(intervals), tuple(comparisons))


# -- all results of a table -------------------------------------------------------------------------------------------


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
class _Items:
    """The item scores behind a figure; of pieces of documents, those of each document."""

    scores: SeedScores
    weights: SeedScores
    exponential: bool
    documents: Int[np.ndarray, " pieces"] | None

    def figure(self, means: Float[np.ndarray, "*resamples seeds"]) -> Float[np.ndarray, "*resamples"]:
        """The figure, over all seeds, that means over items give."""
        return np.asarray((np.exp(means) if self.exponential else means).mean(axis=-1))

    def are_those_of(self, other: "_Items") -> bool:
        """Whether both are over equally many items, or over pieces of the same documents."""
        if self.documents is None or other.documents is None:
            return self.documents is other.documents and len(self.scores) == len(other.scores)
        return np.array_equal(self.documents, other.documents)


@dataclass(frozen=True)
class Results:
    """All numbers of a table at one size.

    Attributes:
        definition: of the table.
        size: of the experiments.
        runs: one a row and seed, by row and seed.
        local: the rows whose results are on this machine; theirs replace the tracked ones of the row.
        tracked: what was recorded of items that are not here.
    """

    definition: TableDefinition
    size: str
    runs: tuple[Result, ...] = ()
    local: frozenset[str] = frozenset()
    tracked: Tracked = Tracked()

    def of(self, row: str) -> tuple[Result, ...]:
        """The results of a row, by seed."""
        return tuple(result for result in self.runs if result.row == row)

    def source(self, row: str) -> Literal["measured", "local"]:
        """Where a row's results are: tracked (`measured`), or on this machine."""
        return "local" if row in self.local else "measured"

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
            (run.row, run.seed, measure, value, run.settings.get(measure, ""), self.source(run.row))
            for run in self.runs
            for measure, value in run.metrics.items()
        ]
        return pd.DataFrame([*published, *ours], columns=["row", "seed", "measure", "value", "judge", "source"])

    @cached_property
    def figures(self) -> Mapping[Place, Figure]:
        """By row and measure; none where different judges judged the seeds: there is no mean over them."""
        ours = self.frame[self.frame.source != "paper"]
        figures = {}
        for (row, measure), lines in ours.groupby(["row", "measure"], sort=False):
            if lines.judge.nunique() == 1:
                values = dict(zip(lines.seed.astype(int).tolist(), lines.value.tolist(), strict=True))
                figures[str(row), str(measure)] = Figure(values, str(lines.judge.iloc[0]))
        return figures

    def figure(self, row: str, measure: str) -> Figure | None:
        """A measure of a row; None where it has none, or several judges gave it."""
        return self.figures.get((row, measure))

    def runs_of(self, row: str, measure: str) -> tuple[Result, ...]:
        """The results behind a figure."""
        figure = self.figure(row, measure)
        return () if figure is None else tuple(run for run in self.of(row) if run.seed in figure.values)

    @cached_property
    def intervals(self) -> Mapping[Place, Bounds]:
        """The bootstrap percentile interval of each figure over items, the models held fixed.

        It is from the items where all seeds have them, else as recorded over these seeds. Items are resampled, the same
        ones for all seeds and pieces of one document together; in Self-BLEU the texts that each was compared with stay.
        """
        intervals = {
            place: percentile_interval(values, confidence=CONFIDENCE) for place, values in self._resampled.items()
        }
        for line in self.tracked.intervals:
            for key, ends in line.intervals.items():
                figure = self.figure(line.row, key)
                if line.row not in self.local and figure is not None and {*line.seeds} == {*figure.values}:
                    intervals.setdefault((line.row, key), ends)
        return intervals

    def gain_interval(self, row: str, other: str, column: Column) -> Bounds | None:
        """The interval of what a row gains over another, where both have scores of the same items; else None.

        Both are resampled at once: the gain is that of the two figures on the same items.
        """
        mine, theirs = (row, column.key), (other, column.key)
        if column.test == "welch_t" or not {mine, theirs} <= self._items.keys():
            return None
        if not self._items[mine].are_those_of(self._items[theirs]):
            return None
        gains = (self._resampled[mine] - self._resampled[theirs]) * (1 if column.higher_better else -1)
        return percentile_interval(gains, confidence=CONFIDENCE)

    @cached_property
    def _items(self) -> Mapping[Place, _Items]:
        """The items of each figure whose seeds all have them."""
        places = itertools.product(self.definition.rows, self.definition.columns)
        by_place = {(row.name, column.key): self._items_of(row.name, column) for row, column in places}
        return {place: items for place, items in by_place.items() if items is not None}

    def _items_of(self, row: str, column: Column) -> _Items | None:
        """A figure's items; None where a seed lacks them, or they give another figure."""
        runs, figure = self.runs_of(row, column.key), self.figure(row, column.key)
        scores = seed_scores(runs, column.scores)
        weights = scores if column.weighed_by is None else seed_scores(runs, column.weighed_by)
        if figure is None or scores is None or weights is None or weights.shape != scores.shape:
            return None
        weights = np.where(np.isnan(scores), 0.0, np.ones_like(scores) if column.weighed_by is None else weights)
        documents = item_documents(runs, column.scores)
        if documents is not None:
            scores, weights = by_group(scores, weights, documents)
        if len(scores) < 2 or (weights.sum(axis=0) <= 0).any():
            return None
        items = _Items(scores, weights, column.is_perplexity, documents)
        value = float(items.figure((np.where(weights > 0, scores, 0.0) * weights).sum(axis=0) / weights.sum(axis=0)))
        return items if math.isclose(value, figure.mean, rel_tol=AGREEMENT, abs_tol=1e-9) else None

    @cached_property
    def _resampled(self) -> Mapping[Place, Float[np.ndarray, " resamples"]]:
        """Each figure on the same resamples of the items of all figures that have as many."""
        resampled = {}
        for number in sorted({len(items.scores) for items in self._items.values()}):
            alike = {place: items for place, items in self._items.items() if len(items.scores) == number}
            scores, weights = (
                np.concatenate([getattr(items, name) for items in alike.values()], axis=1)
                for name in ("scores", "weights")
            )
            means = bootstrap_means(scores, weights, resamples=RESAMPLES, seed=SEED)
            ends = np.cumsum([items.scores.shape[1] for items in alike.values()])
            for (place, items), part in zip(alike.items(), np.split(means, ends[:-1], axis=1), strict=True):
                resampled[place] = items.figure(part)
        return resampled


def load_results(definition: TableDefinition, *, size: str, local: bool = True) -> Results:
    """The local and tracked numbers of a table, or the tracked ones alone.

    Of a row with local results the tracked ones do not count. A floor, which no seed varies, has one result.

    Raises:
        UserError: a file does not read as one of results.
    """
    tracked, runs, here = read_tracked(definition, size=size), list[Result](), set[str]()
    for row in definition.rows:
        mine = read_results(definition.table, row.slug, size=size) if local else []
        theirs = [result for result in tracked.results if result.row == row.name]
        runs += (mine or theirs)[: 1 if row.is_floor else None]
        here |= {row.name} if mine else set()
    return Results(definition, size, tuple(runs), frozenset(here), tracked)


# -- scores of single items -------------------------------------------------------------------------------------------


def seed_scores(results: Sequence[Result], name: str) -> SeedScores | None:
    """Scores of single items, a column a seed; None where a seed lacks them.

    Raises:
        UserError: the seeds differ in the number of items.
    """
    scores = _scores(results, name)
    if scores is None:
        return None
    if len({len(array) for array in scores}) != 1:
        lengths = "; ".join(f"{len(array)} of seed {run.seed}" for run, array in zip(results, scores, strict=True))
        raise UserError(
            f"{results[0].row} of {results[0].table}, size {results[0].size}: the seeds differ in the number of "
            f"{name} items: {lengths}. All seeds are tested on one test split: measure again those that are not "
            "(depgen reproduce ... --remeasure)."
        )
    return np.stack(scores, axis=1)


def item_scores(results: Sequence[Result], name: str) -> Scores | None:
    """Scores of single items averaged over seeds, NaN where a seed has no score; None where a seed lacks them."""
    scores = seed_scores(results, name)
    return None if scores is None else np.asarray(scores.mean(axis=1))


def item_documents(results: Sequence[Result], name: str) -> Int[np.ndarray, " items"] | None:
    """What document each item is a piece of; None where a seed lacks it, or the seeds' items are of others."""
    numbers = seed_scores(results, name + DOCUMENTS)
    if numbers is None or (numbers != numbers[:, :1]).any():
        return None
    return np.asarray(numbers[:, 0].astype(np.int64))


def pooled_scores(results: Sequence[Result], name: str) -> Scores | None:
    """Scores of all seeds, one after the other; None where a seed lacks them."""
    scores = _scores(results, name)
    return None if scores is None else np.concatenate(scores)


def _scores(results: Sequence[Result], name: str) -> list[Scores] | None:
    """The scores of each seed; None where there is no seed, or one that lacks them."""
    scores = [array for run in results if (array := run.scores(name)) is not None]
    return scores if scores and len(scores) == len(results) else None


# -- results that are out of date -------------------------------------------------------------------------------------


def outdated(results: Results) -> dict[tuple[str, int], str]:
    """Why results are no longer those of their experiments, by row and seed; all others are left out.

    The sizes of a corpus depend on no configuration.
    """
    reasons = dict[tuple[str, int], str]()
    for row in results.definition.rows:
        runs = results.of(row.name)
        if runs and row.floor != "corpus" and is_made(row, size=results.size):
            from depgen.reporting.jobs import Job  # torch

            config = Job(results.definition, row, results.size, runs[0].seed).config
            said = {(row.name, run.seed): why_outdated(run, config) for run in runs}
            reasons |= {place: reason for place, reason in said.items() if reason is not None}
    return reasons


def why_outdated(result: Result, config: Experiment) -> str | None:
    """Why a result is not what its experiment would give today; None where it is, as far as the digest tells.

    One that began from weights which a command named is taken for current: no file names them.
    """
    from depgen.reporting.run_facts import beginning_of

    if result.made_before is not None:
        return f"made before {result.made_before}"
    try:
        is_other = result.config_sha256 != config.digest and result.beginning in (None, beginning_of(config))
    except UserError as error:
        return f"its configuration no longer reads: {error}"
    return f"made before {config} was changed" if is_other else None
