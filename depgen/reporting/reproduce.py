"""The rows of a table made: fit, test, generate, measure; each step once, by one process at a time."""

import logging
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from filelock import BaseFileLock, FileLock, Timeout

from depgen.errors import MissingDataError, UserError
from depgen.evaluation.text.measures import TextOptions
from depgen.reporting.case_study import case_study, load_study, study_names
from depgen.reporting.jobs import Job, finished_runs
from depgen.reporting.measurement import floor, measure
from depgen.reporting.numbers import measures_of
from depgen.reporting.prepare import check_corpora, needs_of
from depgen.reporting.render import table as render_table
from depgen.reporting.results import read_result, write_result
from depgen.reporting.table import Row, TableDefinition, chosen_table, experiment_file, is_made, is_path, table_path
from depgen.training.experiment_runs import run_depgen
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
