"""Results: one run of a row at a size and seed, and all numbers of a table.

A local result is a JSON file, with the scores of single items. Tracked ones are lines of a table's file in
`experiments/measured/`; curves, and the intervals and comparisons that items gave, are lines of their own there. What
a result says of its run is read from the run's folder.
"""

import base64
import dataclasses
import itertools
import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from depgen.data.record import DataSource, recorded_source
from depgen.errors import UserError
from depgen.hub import names_a_folder
from depgen.locations import json_object, json_value, results_root, write_atomically
from depgen.metrics.significance import bootstrap_means, by_group, percentile_interval
from depgen.reporting.table import Column, Generation, TableDefinition, experiments_root, read_as
from depgen.training.experiment import Experiment, settings_of
from depgen.training.provenance import hardware_in_words, short_commit
from depgen.training.runs import read_record

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

Bounds = tuple[float, float]
"""Low and high end of an interval."""
Place = tuple[str, str]
"""A row's name and a measure's key."""
Points = tuple[tuple[float, float], ...]
Scores = Float[np.ndarray, " items"]
SeedScores = Float[np.ndarray, "items seeds"]


@dataclass(frozen=True)
class Budget:
    """What training cost: passes over the data, and tokens seen over all phases."""

    epochs: int | None = None
    train_tokens: int | None = None


@dataclass(frozen=True)
class RunFacts:
    """What a result says of a run besides its numbers.

    Attributes:
        data: what it was trained on.
        trees: the annotation scheme, or None for a system without trees.
        parameters: trained numbers in the model.
        budget: passes and tokens.
        curve: (training tokens seen, validation perplexity), in order; empty where validation gives no perplexity.
        clock: (optimiser steps, seconds of wall time) at each validation; empty where they were not kept.
        beginning: what a network that may be pretrained began from: `random weights`, or the name of others; None for
            every other network.
        processor_seconds: what training took on processors, validation included.
        hardware: in words.
        commit: of the code that trained, `+` where the tree had changes.
    """

    data: DataSource
    trees: str | None = None
    parameters: int | None = None
    budget: Budget = Budget()
    curve: Points = ()
    clock: Points = ()
    beginning: str | None = None
    processor_seconds: float | None = None
    hardware: str = "unknown"
    commit: str = "unknown"


@dataclass(frozen=True, kw_only=True)
class Result(RunFacts):
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
        date: ISO, in UTC.
        config_sha256: of the experiment's resolved configuration (`depgen.training.configuration_digest`).
        generation: how its texts were made; None where there are none.
        measured_commit: of the code that measured, as in `commit`.
        weights_sha256: of the checkpoint that was measured; None where there is none.
        run: that was measured, below `$DEPGEN_RUNS`; not tracked.
        precision: that it was trained in where its experiment asks for another one.
        made_before: a correction of the code after which the row is to be made again; None for all others.
    """

    table: str
    row: str
    size: str
    seed: int
    metrics: Mapping[str, float]
    date: str
    config_sha256: str
    not_computed: Mapping[str, str] = field(default_factory=dict)
    items: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    generation: Generation | None = None
    measured_commit: str | None = None
    weights_sha256: str | None = None
    run: str | None = None
    precision: str | None = None
    made_before: str | None = None

    def scores(self, name: str) -> Scores:
        """Scores of single items, in single precision; a KeyError where there are none."""
        content = zlib.decompress(base64.b64decode(self.items[name].removeprefix(_PACKED)))
        return np.frombuffer(content, "<f4").astype(np.float64)


def packed(scores: Scores) -> str:
    """Scores of single items as the text that a result holds; in single precision."""
    return _PACKED + base64.b64encode(zlib.compress(scores.astype("<f4").tobytes(), 9)).decode()


# -- local results ----------------------------------------------------------------------------------------------------


def result_path(table: str, row_slug: str, *, size: str, seed: int) -> Path:
    """`results/<table>/<row>/<size>-seed<k>.json`."""
    return results_root() / table / row_slug / f"{size}-seed{seed}.json"


def write_result(result: Result, path: Path) -> None:
    """Write the JSON in one step, so that no reader sees half of it; numbers that are not finite are refused."""
    write_atomically(path, json.dumps(dataclasses.asdict(result), indent=2, allow_nan=False) + "\n")


def read_result(path: Path) -> Result:
    """The result in a JSON file."""
    return read_as(Result, json_object(path, remedy="Delete it to make it again."), str(path))


def read_results(table: str, row_slug: str, *, size: str) -> list[Result]:
    """Every seed's local result of a row at a size, by seed."""
    results = map(read_result, (results_root() / table / row_slug).glob(f"{size}-seed*.json"))
    return sorted(results, key=lambda result: result.seed)


# -- tracked results --------------------------------------------------------------------------------------------------


def measured_path(table: str) -> Path:
    """The tracked results of a table."""
    return experiments_root() / "measured" / f"{table}.jsonl"


def measured_page(table: str, size: str) -> Path:
    """The page that shows a table's tracked results."""
    return experiments_root() / "measured" / f"{table}-{size}.md"


def tracked_lines(table: str) -> list[dict[str, Any]]:
    """The tracked lines of a table; none where it has no file. A line has `kind`, `row` and `size`, and as

    - `result`: the fields of `Result`; its `curve` and `clock` are a line of the kind `curve`;
    - `intervals`: over the items of `seeds`, by measure;
    - `comparison`: what items told of the row `against` another one in a `measure`, over `seeds` and `other_seeds`:
      `gain`, its `interval`, the name of the `test`, its `p`, corrected over the tests of the table then, and `items`.
    """
    path = measured_path(table)
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    remedy = f"Restore it: git checkout {path}"
    return [json_value(line, f"{path}:{at}", remedy=remedy) for at, line in enumerate(text.splitlines(), start=1)]


def tracked_results(definition: TableDefinition, *, size: str) -> list[Result]:
    """The tracked results of a table at a size, by seed."""
    names = {row.name for row in definition.rows}
    lines = [line for line in tracked_lines(definition.table) if line["size"] == size and line["row"] in names]
    curves = {(line["row"], line["seed"]): line for line in lines if line["kind"] == "curve"}
    results = []
    for line in lines:
        if line["kind"] == "result":
            content = {"table": definition.table, **curves.get((line["row"], line["seed"]), {}), **line}
            del content["kind"]
            results.append(read_as(Result, content, f"{measured_path(definition.table)}: {line['row']}"))
    return sorted(results, key=lambda result: result.seed)


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
class Items:
    """Scores of single items behind a figure, a column a seed.

    Attributes:
        scores: NaN where an item has none.
        weights: of the items in the figure.
        documents: that the items are pieces of; empty where they are whole.
        is_perplexity: whether the figure is the exponential of their mean.
    """

    scores: SeedScores
    weights: SeedScores
    documents: Int[np.ndarray, " pieces"]
    is_perplexity: bool = False

    @property
    def means(self) -> Scores:
        """Of each item over seeds, such that their plain mean is the mean of all items by weight."""
        weights = self.weights.mean(axis=1)
        return np.asarray(self.scores.mean(axis=1) * (weights / weights.mean()))

    def by_document(self) -> "Items":
        """Pieces of a document added up to it; items without a score have no weight."""
        scores, weights = self.scores, np.where(np.isnan(self.scores), 0.0, self.weights)
        if len(self.documents):
            scores, weights = by_group(scores, weights, self.documents)
        return replace(self, scores=np.where(weights > 0, scores, 0.0), weights=weights)

    def figure(self, means: Float[np.ndarray, "*resamples seeds"]) -> Float[np.ndarray, "*resamples"]:
        """The figure, over all seeds, that means over items give."""
        return np.asarray((np.exp(means) if self.is_perplexity else means).mean(axis=-1))


@dataclass(frozen=True)
class Results:
    """All numbers of a table at one size.

    Attributes:
        definition: of the table.
        size: of the experiments.
        runs: one a row and seed, by row and seed.
        local: the rows whose results are on this machine; theirs replace the tracked ones of the row.
        recorded: tracked lines of what items gave that are not here.
    """

    definition: TableDefinition
    size: str
    runs: tuple[Result, ...] = ()
    local: frozenset[str] = frozenset()
    recorded: tuple[Mapping[str, Any], ...] = ()

    def of(self, row: str) -> tuple[Result, ...]:
        """The results of a row, by seed."""
        return tuple(result for result in self.runs if result.row == row)

    def source(self, row: str) -> Literal["measured", "local"]:
        """Where a row's results are: tracked (`measured`), or on this machine."""
        return "local" if row in self.local else "measured"

    @cached_property
    def figures(self) -> Mapping[Place, Figure]:
        """By row and measure; none where different judges judged the seeds: there is no mean over them."""
        values, judges = dict[Place, dict[int, float]](), dict[Place, set[str]]()
        for run in self.runs:
            for measure, value in run.metrics.items():
                values.setdefault((run.row, measure), {})[run.seed] = value
                judges.setdefault((run.row, measure), set()).add(run.settings.get(measure, ""))
        return {place: Figure(of, *judges[place]) for place, of in values.items() if len(judges[place]) == 1}

    def figure(self, row: str, measure: str) -> Figure | None:
        """A measure of a row; None where it has none, or several judges gave it."""
        return self.figures.get((row, measure))

    def runs_of(self, row: str, measure: str) -> tuple[Result, ...]:
        """The results behind a figure."""
        figure = self.figure(row, measure)
        return () if figure is None else tuple(run for run in self.of(row) if run.seed in figure.values)

    @cached_property
    def items(self) -> Mapping[Place, Items]:
        """The items behind each figure; none where a seed lacks them, or has another number of them."""
        items = {}
        for row, column in itertools.product(self.definition.rows, self.definition.columns):
            runs, name = self.runs_of(row.name, column.key), column.scores
            scores, weights = (_by_seed(runs, part) for part in (name, column.weighed_by or name))
            if scores is None or weights is None or weights.shape != scores.shape:
                continue
            weights = weights if column.weighed_by else np.ones_like(scores)
            documents = _by_seed(runs, name + DOCUMENTS)
            if documents is None or (documents != documents[:, :1]).any():
                documents = np.empty((0, 1))
            numbers = documents[:, 0].astype(np.int64)
            items[row.name, column.key] = Items(scores, weights, numbers, column.is_perplexity)
        return items

    @cached_property
    def intervals(self) -> Mapping[Place, Bounds]:
        """The bootstrap percentile interval of each figure over items, the models held fixed.

        It is from the items where all seeds have them, else as recorded over these seeds. Items are resampled, the same
        ones for all seeds and pieces of one document together; in Self-BLEU the texts that each was compared with stay.
        """
        intervals = {
            place: percentile_interval(values, confidence=CONFIDENCE) for place, values in self._resampled.items()
        }
        for line in self.recorded:
            for key, (low, high) in line.get("intervals", {}).items():
                figure = self.figure(line["row"], key)
                if line["row"] not in self.local and figure is not None and {*line["seeds"]} == {*figure.values}:
                    intervals.setdefault((line["row"], key), (low, high))
        return intervals

    def gain_interval(self, row: str, other: str, column: Column) -> Bounds | None:
        """The interval of what a row gains over another, where both have scores of the same items; else None.

        Both are resampled at once: the gain is that of the two figures on the same items.
        """
        mine, theirs = (row, column.key), (other, column.key)
        if column.test == "welch_t" or not {mine, theirs} <= self._resampled.keys():
            return None
        first, second = self._samples[mine], self._samples[theirs]
        if len(first.scores) != len(second.scores) or not np.array_equal(first.documents, second.documents):
            return None
        gains = (self._resampled[mine] - self._resampled[theirs]) * (1 if column.higher_better else -1)
        return percentile_interval(gains, confidence=CONFIDENCE)

    @cached_property
    def _samples(self) -> Mapping[Place, Items]:
        """What is resampled of each figure that its items give: whole documents, where items are pieces of such."""
        samples = {}
        for place, items in self.items.items():
            sample = items.by_document()
            sums = sample.weights.sum(axis=0)
            if len(sample.scores) < 2 or (sums <= 0).any():
                continue
            value = sample.figure((sample.scores * sample.weights).sum(axis=0) / sums)
            if math.isclose(value, self.figures[place].mean, rel_tol=AGREEMENT, abs_tol=1e-9):
                samples[place] = sample
        return samples

    @cached_property
    def _resampled(self) -> Mapping[Place, Float[np.ndarray, " resamples"]]:
        """Each figure on the same resamples of the items of all figures that have as many."""
        resampled = {}
        for number in {len(sample.scores) for sample in self._samples.values()}:
            alike = {place: sample for place, sample in self._samples.items() if len(sample.scores) == number}
            scores = np.concatenate([sample.scores for sample in alike.values()], axis=1)
            weights = np.concatenate([sample.weights for sample in alike.values()], axis=1)
            means = bootstrap_means(scores, weights, resamples=RESAMPLES, seed=SEED)
            ends = np.cumsum([sample.scores.shape[1] for sample in alike.values()])
            for (place, sample), part in zip(alike.items(), np.split(means, ends[:-1], axis=1), strict=True):
                resampled[place] = sample.figure(part)
        return resampled


def load_results(definition: TableDefinition, *, size: str, local: bool = True) -> Results:
    """The local and tracked numbers of a table, or the tracked ones alone.

    Of a row with local results the tracked ones do not count. A floor, which no seed varies, has one result.
    """
    tracked, runs, here = tracked_results(definition, size=size), list[Result](), set[str]()
    for row in definition.rows:
        mine = read_results(definition.table, row.slug, size=size) if local else []
        theirs = [result for result in tracked if result.row == row.name]
        runs += (mine or theirs)[: 1 if row.is_floor else None]
        here |= {row.name} if mine else set()
    kinds = ("intervals", "comparison")
    lines = [line for line in tracked_lines(definition.table) if line["size"] == size and line["kind"] in kinds]
    return Results(definition, size, tuple(runs), frozenset(here), tuple(lines))


def pooled_scores(results: Sequence[Result], name: str) -> Scores | None:
    """Scores of single items of all seeds, one after the other; None where a seed lacks them."""
    scores = [run.scores(name) for run in results if name in run.items]
    return np.concatenate(scores) if scores and len(scores) == len(results) else None


def _by_seed(results: Sequence[Result], name: str) -> SeedScores | None:
    """Scores of single items, a column a seed; None where a seed lacks them or has another number of them."""
    scores = [run.scores(name) for run in results if name in run.items]
    if not scores or len(scores) < len(results) or len({*map(len, scores)}) > 1:
        return None
    return np.stack(scores, axis=1)


# -- what a run folder tells a result ---------------------------------------------------------------------------------


def facts_of(run: Path) -> RunFacts:
    """The facts of a finished run, as its folder has kept them.

    Tokens seen are epochs times the tokens of the training split (one eos an item; of documents, one a sentence): each
    epoch sees each item once. They are unknown for a run that names no data or has no `metrics.csv`.
    """
    record, path = read_record(run), run / "metrics.csv"
    tokens, costs = record.get("tokens_per_epoch"), dict[str, Any]()
    if tokens is not None and path.is_file():
        import pandas as pd

        epochs, curve, clock = read_curve(path, tokens_per_epoch=tokens)
        seconds = pd.read_csv(path).get("processor_seconds", pd.Series(dtype=float)).dropna()
        costs = {"budget": Budget(epochs, epochs * tokens), "curve": curve, "clock": clock}
        costs["processor_seconds"] = seconds.max() if len(seconds) else None
    return RunFacts(
        data=recorded_source(run) or DataSource("unknown", reduced=False),
        trees=record.get("trees"),
        parameters=record.get("parameters"),
        beginning=beginning_of(run / "config.yaml"),
        hardware=hardware_in_words(record.get("hardware") or {}),
        commit=short_commit(record.get("commit")),
        **costs,
    )


def beginning_of(config: Path | Experiment) -> str | None:
    """What a network that may begin from pretrained weights began from; None for every other network.

    Of a folder that is its name alone, as results are read on other machines; of a run, its experiment and its size.
    """
    arguments = arguments_at(settings_of(config), "model.init_args.backbone.init_args")
    if "pretrained" not in arguments:
        return None
    if arguments["pretrained"] is None:
        return "random weights"
    name = str(arguments["pretrained"])
    if run := re.fullmatch(r"([^/]+/[^/]+)/seed\d+/[^/]+", name):
        return run[1]
    return Path(name).name if names_a_folder(name) else name


def arguments_at(settings: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """The arguments at a dotted place; empty where there are none."""
    value: Any = settings
    for name in place.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def other_precision(run: Path, experiment: Experiment) -> str | None:
    """The precision that a run was trained in, where its experiment asks for another one."""
    trained, wanted = (
        (settings_of(config).get("trainer") or {}).get("precision") for config in (run / "config.yaml", experiment)
    )
    return None if trained == wanted else str(trained)


def read_curve(path: Path, *, tokens_per_epoch: int) -> tuple[int, Points, Points]:
    """Epochs trained, (tokens seen, validation perplexity) wherever it was measured, and the clock there.

    Perplexity is per word of the text, where the run has logged that. The curve is empty for systems that validate text
    together with given structures, which log no perplexity. Within an epoch tokens go by its optimiser steps. The clock
    is (optimiser steps, seconds of wall time) at each validation; empty where the run did not log its time.
    """
    import pandas as pd

    names = ["step", "epoch", "val/loss", "val/word_perplexity", "val/perplexity", "seconds"]
    try:
        logged = pd.read_csv(path, dtype=str).reindex(columns=names).astype(float)  # by Python: to the last digit
        ends = logged.dropna(subset="epoch").groupby("epoch")["step"].max() + 1  # of each epoch, in steps
    except (OSError, ValueError) as error:  # that of pandas, too
        raise UserError(f"{path}: expected the log of `depgen fit` ({str(error).strip()}).") from error
    logged = logged.dropna(subset="epoch")
    if logged.empty:
        raise UserError(f"{path} holds no epoch, so that nothing tells what training cost.")
    lengths = (ends - ends.cummax().shift(fill_value=0)).clip(lower=1)
    logged["perplexity"] = logged["val/word_perplexity"].fillna(logged["val/perplexity"])
    figure = "perplexity" if logged["perplexity"].notna().any() else "val/loss"
    points = logged.dropna(subset=figure).sort_values(["epoch", "step"])
    steps, epoch = points["step"] + 1.0, points["epoch"]
    tokens = tokens_per_epoch * (epoch + 1 - (epoch.map(ends) - steps) / epoch.map(lengths))
    curve = tuple(zip(tokens.tolist(), points[figure].tolist(), strict=True)) if figure == "perplexity" else ()
    clock = () if points["seconds"].hasnans else tuple(zip(steps.tolist(), points["seconds"].tolist(), strict=True))
    return int(ends.index.max()) + 1, curve, clock
