"""The rows of a table made: what they need, fit, test, generate, measure; each step once, by one process at a time."""

import logging
import math
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from filelock import BaseFileLock, FileLock, Timeout

from depgen.annotation.annotator import find_parser
from depgen.data.corpus import SPLITS
from depgen.data.experiment import corpus_of, data_of
from depgen.data.levels import LevelData
from depgen.data.record import DataSource, source_of
from depgen.data.record import measure as measure_corpus
from depgen.errors import MissingDataError, UserError
from depgen.evaluation.text_measures import TextOptions
from depgen.evaluation.text_oracle import oracle_training
from depgen.evaluation.union import ROCSTORIES, scorer_of
from depgen.hub import model_folder
from depgen.locations import below_runs, cache_root, file_sha256, lines_sha256, made_once, runs_root
from depgen.reporting.case_study import case_study, load_study, study_names
from depgen.reporting.jobs import Job, finished_runs, fit, parsers_in
from depgen.reporting.measures import MeasuredRow, Numbers, TrainedRow, measures_of, numbers_of_test
from depgen.reporting.measures.parses import measure_floor, measure_trees, treebank_of_table
from depgen.reporting.measures.scoring import RANDOM, measure_speed
from depgen.reporting.measures.texts import OF_AN_ORACLE
from depgen.reporting.pages import table as render_table
from depgen.reporting.results import Result, RunFacts, facts_of, other_precision, packed, read_result, write_result
from depgen.reporting.table import (
    Row,
    TableDefinition,
    chosen_table,
    experiment_file,
    experiment_of,
    experiments_root,
    is_made,
    is_path,
    table_path,
)
from depgen.training import provenance
from depgen.training.experiment_runs import DEV, Depgen, Training, measure_dev, measure_test, run_depgen
from depgen.training.runs import all_runs, best_checkpoint, is_finished
from depgen.yaml_files import read_settings

logger = logging.getLogger(__name__)


def reproduce(
    table: str,
    *,
    rows: Sequence[str] = (),
    size: str | None = None,
    seeds: Sequence[int] | None = None,
    check: bool = False,
    remeasure: bool = False,
    redo: bool = False,
    precision: str | None = None,
    wandb: Literal["online", "offline"] | None = None,
    text_options: TextOptions | None = None,
) -> str:
    """What was done for each row and seed, and the table; or a case study, after the rows that it shows.

    First it is checked what the rows need: a missing corpus ends the command; missing parsers, UNION and oracles are
    made. A step whose output is there is skipped, and an unfinished training is continued. Several processes share the
    rows: each leaves out those that another one works on.

    Args:
        table: the name of a table or a case study, or a YAML file of one.
        rows: only these rows; unset: every row that has an experiment.
        size: `small` or `paper`; unset: `small`, or the only one of the table.
        seeds: of training; unset: the table's own, of which a case study takes the first.
        check: only print what is at hand, what is made first, and what is to be trained.
        remeasure: compute the measures again where the texts are there already, and test again where an older test kept
            no numbers of the single items.
        redo: rename the old results and runs of these rows, then train again. After a stop, go on without it.
        precision: of training in place of the experiments', which the table's notes say: `32-true` is up to twice as
            fast as `bf16-mixed` on a CPU without bf16 instructions. Tests and parses are in full precision either way.
        wandb: log trainings to Weights & Biases too, in a group of the table's name; `WANDB_*` variables are honoured.
        text_options: models and policies of the text measures, such as folders of pretrained weights; of rows that are
            measured now.
    """
    study = load_study(table) if _is_study(table) else None
    definition, size = chosen_table(table if study is None else study.table, size)
    named = [row for row in definition.rows if row.experiment is not None or row.is_floor]
    made = [row for row in named if is_made(row, size=size)]
    chosen = [row for row in made if study is None or row.name in study.rows]
    if rows:
        chosen = [definition.row(name) for name in rows]
    if others := [row.name for row in chosen if row not in made] or ([] if chosen else ["every row"]):
        raise UserError(
            f"{definition.argument}: no experiment of size {size} makes {', '.join(others)}. A configuration as it is "
            "has the size paper: write `sizes: [paper]` into the table, or give --size paper."
        )
    _check(definition, named, size)
    usual = definition.seeds_at(size)
    seeds = seeds or (usual if study is None else usual[:1])
    jobs = [  # no seed varies a floor: it is stored under the table's first one, whatever seeds are given
        Job(definition, row, size, seed, precision, wandb)
        for row in chosen
        for seed in (usual[:1] if row.is_floor else seeds)
    ]
    waiting = [job for job in jobs if remeasure or redo or not job.result.is_file()]
    check_corpora(waiting)
    needs = [*needs_of(waiting, text_options or TextOptions())]
    at_hand = f"{definition.table}, size {size}: {len(jobs) - len(waiting)} of {len(jobs)} results are at hand."
    plan = "\n".join([at_hand, *(f"  {need}" for need in needs), *(f"  {_to_do(job)}" for job in waiting)])
    if check:
        return plan
    logger.info("%s", plan)
    for need in needs:
        need.make(run_depgen)
    if redo:
        put_aside(jobs)
    done = make_all(jobs, remeasure=remeasure, options=text_options)
    if study is not None:
        return "\n".join([*done, "", case_study(table, size=size)])
    text = render_table(definition.given, size=size, format="text", files=True)
    for picture in () if rows else definition.pictures:
        kind, *drawn = shlex.split(picture)
        run_depgen(["plot", kind, *([] if "--table" in drawn else [table]), *drawn, "--size", size], {})
    return "\n".join([*done, "", text])


def _is_study(name: str) -> bool:
    """Whether a name or a YAML file is that of a case study."""
    if is_path(name):
        return Path(name).is_file() and "study" in read_settings(Path(name))
    return name.replace("-", "_") in study_names()


def _check(definition: TableDefinition, rows: Sequence[Row], size: str) -> None:
    """Raises UserError for a name, measure, experiment or option that won't do, before any training."""
    packaged = table_path(definition.table)
    if is_path(definition.given) and packaged.is_file() and not packaged.samefile(str(definition.given)):
        raise UserError(f"{definition.given}: table: {packaged} has the same name, and their results would mix.")
    measures_of(definition)
    for row in rows:
        try:
            if row.experiment is not None:
                experiment_file(row.experiment)
            if row.experiment is not None and is_made(row, size=size):
                _ = row.experiment_at(size).digest
        except UserError as error:
            raise UserError(f"{definition.argument}: row {row.name}: {error} Nothing was trained.") from error


def _to_do(job: Job) -> str:
    """What is done for a row whose result is not at hand."""
    if job.row.is_floor:
        return f"measure {job.row.name}"
    trained = [training for training in job.trainings() if training.finished() is None]
    return f"train {', then '.join(each.name for each in trained)}, for {job.name}" if trained else f"test {job.name}"


def put_aside(jobs: Sequence[Job]) -> None:
    """Rename the results and runs of earlier attempts, once no other process works on them; nothing is deleted."""
    for job in jobs:
        with _lock(job):
            _rename(job.result)
        if not job.row.is_floor:
            with job.training.lock():
                _rename(job.training.root)


def _lock(job: Job) -> BaseFileLock:
    """What a process holds that works on a row."""
    job.result.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(job.result.with_name(f".{job.result.stem}.lock"))


def _rename(path: Path) -> None:
    number = 1
    while (aside := path.with_name(f"replaced-{number}-{path.name}")).exists():
        number += 1
    if path.exists():
        path.rename(aside)


def make_all(jobs: Sequence[Job], *, remeasure: bool = False, options: TextOptions | None = None) -> list[str]:
    """One line for each job on what was done."""
    lines = []
    for job in jobs:
        try:
            with _lock(job).acquire(timeout=0):
                lines.append(make(job, remeasure=remeasure, options=options))
        except Timeout:
            lines.append(f"{job.name}: another process works on it")
        logger.info("%s", lines[-1])
    return lines


def make(job: Job, *, remeasure: bool = False, options: TextOptions | None = None) -> str:
    """One line on what was done for a row at a size and seed."""
    if job.result.is_file() and not remeasure:
        result = read_result(job.result)
        change = result.made_before or (
            f"{job.config} was changed" if result.config_sha256 != job.config.digest else ""
        )
        remark = f" (made before {change}; --redo makes it again)" if change else ""
        return f"{job.name}: at hand, {job.result}{remark}"
    if job.row.consensus_of is not None:
        row = job.definition.row(job.row.consensus_of)
        runs = finished_runs(job.definition, row, job.size)
        if lacking := ", ".join(str(seed) for seed, run in runs.items() if run is None):
            command = job.definition.command(job.size, row)
            return f"{job.name}: left out, {row.name} has no finished run of seed {lacking}. Train it: {command}"
    try:
        if job.row.is_floor:
            result = floor(job, run_depgen, options or TextOptions())
        else:
            result = measure(job, run_depgen, options or TextOptions(), remeasure=remeasure)
    except MissingDataError as error:
        if job.row.floor != "corpus":
            raise
        return f"{job.name}: left out, its corpus is not at hand. {error}"
    write_result(result, job.result)
    return f"{job.name}: done, {job.result}"


# -- what rows need before they are trained ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Need:
    """Something that rows need and that a command of depgen makes; of several processes, one makes it."""

    name: str
    command: tuple[str, ...]
    is_made: Callable[[], bool]

    def __str__(self) -> str:
        return f"{self.name}: {'at hand' if self.is_made() else f'made first by `depgen {shlex.join(self.command)}`'}"

    def make(self, depgen: Depgen) -> None:
        """Make it unless it is at hand."""
        lock = cache_root() / "prepared" / re.sub(r"[^\w.-]+", "-", self.name)
        made_once(lock, partial(depgen, self.command, {}), is_made=self.is_made)


def check_corpora(jobs: Sequence[Job]) -> None:
    """Raises MissingDataError where a corpus of some row is missing, before anything is trained.

    Rows that count a corpus are left out when they are made; those of a system's speed read none.
    """
    for job in jobs:
        for split in SPLITS if job.row.floor not in ("corpus", "speed") else ():
            corpus_of(job.config).fingerprint(split)


def needs_of(jobs: Sequence[Job], options: TextOptions) -> Iterator[Need]:
    """What rows need, each once: parsers first, which others need too, then UNION, then an oracle.

    UNION is trained only where the weights of its encoder are at hand; else its column is not computed.
    """
    read = [job for job in jobs if not job.row.is_floor or job.row.floor in ("corpus", *SPLITS)]
    if not read:
        return
    definition, others = read[0].definition, list[Need]()
    measures = {column.measure or column.key for column in definition.columns} if definition.generation else set()
    settings = [{"measures": definition.measures}]
    settings += [training.experiment.settings for job in read for training in job.trainings()]
    if "union" in measures and options.union is None:
        union = experiment_of(ROCSTORIES, size=read[0].size)
        if model_folder(union.settings["model"]["init_args"]["encoder"]) is not None:
            settings.append(union.settings)
            seed, root = union.settings["seed_everything"], runs_root() / scorer_of(union.size)
            command = tuple(Training("UNION", union, seed, union.place(seed)).command)
            others.append(Need("UNION", command, lambda: any(map(is_finished, all_runs(root)))))
    if measures.intersection(OF_AN_ORACLE) and options.oracle is None and definition.oracle is not None:
        oracle = experiment_of(definition.oracle, size=read[0].size)
        training = oracle_training(oracle.file, oracle.size)
        command = ("fit", *oracle.arguments)
        others.append(Need(f"oracle {oracle.name}", command, lambda: training.finished() is not None))
    yield from map(_parser, dict.fromkeys(name for values in settings for name in parsers_in(values)))
    yield from others


def _parser(name: str) -> Need:
    config = experiments_root() / f"parser_{name}.yaml"

    def is_made() -> bool:
        try:
            find_parser(name, packages=True)
        except UserError:
            if not config.is_file():
                raise
            return False
        return True

    return Need(f"parser {name}", ("annotate", "--train", str(config)), is_made)


# -- results of rows --------------------------------------------------------------------------------------------------


def measure(job: Job, depgen: Depgen, options: TextOptions, *, remeasure: bool = False) -> Result:
    """The result of a row that is trained: fit, test, generate, each skipped once done; and the table's measures.

    With `remeasure` it is tested again where the numbers of the single items were not kept.
    """
    trained = fit(job, depgen)
    numbers = numbers_of_test(measure_test(job.training, trained.run, depgen, remeasure=remeasure))
    keys = {column.key for column in job.definition.columns}
    if any(key.startswith(DEV) for key in keys):
        numbers.metrics.update(measure_dev(job.training, trained.run, depgen))
    corpus, facts = data_of(trained.run / "config.yaml").corpus, facts_of(trained.run)
    row = TrainedRow(job=job, corpus=corpus, options=options, depgen=depgen, trained=trained, facts=facts)
    for given in measures_of(job.definition):
        measured = given.measure(row)
        for name in given.replaces if measured.metrics else ():
            numbers.metrics.pop(name, None)
            numbers.items.pop(name, None)
        numbers.add(measured)
    epochs, seen = facts.budget.epochs, facts.budget.train_tokens
    sizes = {"parameters": facts.parameters, "epoch_tokens": seen / epochs if seen and epochs else None}
    numbers.metrics.update({key: size / 1e6 for key, size in sizes.items() if key in keys and size is not None})
    return _result(
        job,
        numbers,
        facts,
        generation=job.generation,
        weights_sha256=trained.weights_sha256,
        run=below_runs(str(trained.run)),
        precision=other_precision(trained.run, job.config),
    )


def _result(job: Job, numbers: Numbers, facts: RunFacts | DataSource, **more: Any) -> Result:  # noqa: ANN401
    """The finite numbers, measured here and now; without a run's facts, nothing was trained on the data."""
    commit = provenance.short_commit(provenance.commit())
    if isinstance(facts, DataSource):
        hardware = provenance.hardware_in_words(provenance.hardware())
        facts = RunFacts(data=facts, hardware=hardware, commit=commit)
    endless = {name: f"it came out as {v}" for name, v in numbers.metrics.items() if not math.isfinite(v)}
    return Result(
        table=job.definition.table,
        row=job.row.name,
        size=job.size,
        seed=job.seed,
        metrics={name: value for name, value in numbers.metrics.items() if name not in endless},
        not_computed={**endless, **numbers.not_computed},
        items={name: packed(scores) for name, scores in numbers.items.items()},
        settings=numbers.settings,
        date=provenance.today(),
        config_sha256=job.config.digest,
        measured_commit=commit,
        **vars(facts),
        **more,
    )


def floor(job: Job, depgen: Depgen, options: TextOptions) -> Result:
    """What needs no training: of a corpus, a split, a source, a system's speed, trees by a rule or of runs."""
    for split in SPLITS:
        if job.row.floor == split:
            corpus, numbers = data_of(job.config).corpus, Numbers()
            row = MeasuredRow(job=job, corpus=corpus, options=options, depgen=depgen)
            for given in measures_of(job.definition):
                numbers.add(given.measure_split(row, split))
            return _result(job, numbers, source_of(corpus))
    if job.row.consensus_of is not None:
        members = finished_runs(job.definition, job.definition.row(job.row.consensus_of), job.size)
        runs = [run for run in members.values() if run is not None]
        digest = lines_sha256(file_sha256(best_checkpoint(run)) for run in runs)
        numbers = _heads_alone(job, "consensus", measure_trees(job, runs))
        return _result(job, numbers, facts_of(runs[0]).data, weights_sha256=digest)
    if job.row.floor == "corpus":
        return _sizes(job)
    if job.row.floor == "source":
        corpus = data_of(job.config).corpus
        if not hasattr(corpus, "floor"):
            raise UserError(f"{job.config}: {type(corpus).__name__} has no known source, so there is no floor.")
        return _result(job, Numbers({"perplexity": math.exp(corpus.floor())}), source_of(corpus))
    if job.row.floor == "speed":
        return _result(job, measure_speed(job.config, job.row.beam_size), RANDOM)
    return _result(job, _heads_alone(job, "rule", measure_floor(job)), source_of(treebank_of_table(job).corpus))


def _sizes(job: Job) -> Result:
    """Documents of a corpus, and tokens and sentences a document, split by split; of data with levels, these too."""
    data = data_of(job.config)
    metrics = dict[str, float]()
    for split, sizes in measure_corpus(data.corpus).items():
        name = "dev" if split == "valid" else split
        metrics[f"{name}_documents"] = float(sizes.documents or 0)
        metrics[f"{name}_tokens"], metrics[f"{name}_sentences"] = sizes.mean_length, sizes.mean_sentences
        if isinstance(data, LevelData):
            metrics[f"{name}_levels"] = float(data.level_sizes(split)[0].sum())
    if isinstance(data, LevelData):
        expansions, types = data.vocabulary.tables["expansions"], len(data.vocabulary.types)
        metrics |= {"expansions": float(len(expansions)), "types": float(types)}
    return _result(job, Numbers(metrics), source_of(data.corpus))


def _heads_alone(job: Job, giver: str, numbers: Numbers) -> Numbers:
    """The numbers of trees without a system, which have none of the table's other measures."""
    for column in job.definition.ours:
        if column.key not in numbers.metrics:
            numbers.not_computed.setdefault(column.key, f"a {giver} gives heads and nothing else")
    return numbers
