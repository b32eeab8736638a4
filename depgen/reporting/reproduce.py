"""Rows of a table made: fit, test, generate, measure; each step once, by one process at a time."""

import logging
import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from depgen.errors import MissingDataError, UserError
from depgen.evaluation.text.measures import TextOptions
from depgen.language_models.masked import HeadNetwork
from depgen.locations import results_root
from depgen.reporting.experiments import is_path, note_own_table, table_path
from depgen.reporting.jobs import Job, finished_run, members
from depgen.reporting.measurement import floor, measure
from depgen.reporting.numbers import check_table
from depgen.reporting.prepare import plan_of
from depgen.reporting.pretrained import can_be_pretrained
from depgen.reporting.render import table as render_table
from depgen.reporting.results import read_result, why_outdated, write_result
from depgen.reporting.run_facts import beginning_of
from depgen.reporting.table import Row, TableDefinition, chosen_table, is_made
from depgen.training.class_paths import class_in_run
from depgen.training.experiment_runs import run_depgen
from depgen.yaml_files import read_settings

logger = logging.getLogger(__name__)


def reproduce(
    table: str,
    *,
    row: str | None = None,
    size: str | None = None,
    seeds: Sequence[int] | None = None,
    check: bool = False,
    prepare: bool = False,
    list: bool = False,
    remeasure: bool = False,
    redo: bool = False,
    pretrained: str | None = None,
    precision: str | None = None,
    wandb: Literal["online", "offline"] | None = None,
    text_options: TextOptions | None = None,
) -> str:
    """What was done for each row and seed; and, unless one row was named, the table and how to use a trained row.

    First it is checked what the rows need: a missing corpus ends the command; missing parsers, UNION and oracles are
    made. A step whose output is there is skipped, and an unfinished training is continued. Several processes share the
    rows: each takes the next one that no other works on.

    Args:
        table: the table's name, or a YAML file of one.
        row: only this row; unset: every row that has an experiment.
        size: `small` or `paper`; unset: `small`, or the only one of the table.
        seeds: of training; unset: the table's own.
        check: only print what is at hand, what would be made first, and about how long it takes.
        prepare: only make what the rows need: parsers, UNION, oracles.
        list: only print the names of the rows, as --row takes them.
        remeasure: compute the text measures again where the texts are there already, and test again where an older
            test kept no numbers of the single items.
        redo: rename the old results and runs of all these rows, then train again. After a stop, go on without it.
        pretrained: weights that GPT-2 and DM-GPT-2 begin from, in place of random ones or of those that their
            experiments name: a folder, one under `$DEPGEN_MODELS`, or a hub name in the local cache. Its tokenizer
            gives the pieces, the experiment of the paper's size the learning rate, the size the budget.
        precision: of training in place of the experiments', which the table's notes say: `32-true` is up to twice as
            fast as `bf16-mixed` on a CPU without bf16 instructions. Tests and parses are in full precision either way.
        wandb: log trainings to Weights & Biases too, in a group of the table's name; `WANDB_*` variables are honoured.
        text_options: models and policies of the text measures, such as folders of pretrained weights.

    Raises:
        UserError: no such table, row, size or weights, no row that could begin from them, or a step failed.
        MissingDataError: a corpus is missing.
    """
    definition, size, reason = chosen_table(table, size)
    named = [each for each in definition.rows if each.experiment is not None or each.is_floor]
    own = is_path(table) and not _is_of_the_package(definition, table)
    made = [each for each in named if is_made(each, size=size)]
    rows = made if row is None else [definition.row(row)]
    if row is not None and rows[0] not in named:
        raise UserError(f"Row {rows[0].name} of {definition.table}: no experiment makes it.")
    if list:
        return "\n".join(each.slug for each in rows)
    if not rows:
        raise UserError(
            f"{definition.argument}: no row has an experiment of size {size}. A configuration as it is has the size "
            "paper: write `sizes: [paper]` into the table, or give --size paper."
        )
    check_table(definition, named, size=size)
    seeds = _checked(definition.seeds_at(size) if seeds is None else seeds)
    jobs = _jobs(definition, rows, size, seeds, pretrained, precision=precision, wandb=wandb)
    waiting = [job for job in jobs if remeasure or redo or not job.result.is_file()]
    plan = plan_of(waiting, jobs, text_options, kept=[*_kept(jobs)] if check and not redo else [])
    if check:
        return str(plan)
    if not prepare or not all(each.is_made() for each in plan.preparations):
        logger.info("%s", plan)
    plan.make(run_depgen)
    if prepare:
        return str(plan)
    if own:
        note_own_table(Path(table), results_root() / definition.table)
    if redo:
        put_aside(jobs)
    done = make_all(jobs, remeasure=remeasure, options=text_options)
    if row is not None:
        return "\n".join([reason, *done])
    done += [f"{each.name}, {size}: left out, no {each.experiment} at this size." for each in named if each not in made]
    _, _, text = render_table(table, size=size, format="text", files=True).partition("\n\n")
    for picture in definition.pictures:
        kind, *drawn = shlex.split(picture)
        run_depgen(["plot", kind, *([] if "--table" in drawn else [table]), *drawn, "--size", size], {})
    return "\n".join([reason, *done, "", f"{text}{_how_to_use(definition, rows, size, seeds[0])}"])


def _is_of_the_package(definition: TableDefinition, given: str) -> bool:
    """Whether a table's file, given by its path, is the package's own.

    Raises:
        UserError: it is not, but has the name of one, so that their results would mix.
    """
    if table_path(definition.table).is_file() and not table_path(definition.table).samefile(given):
        raise UserError(f"{given}: table: {definition.table!r} is a table of the package. Choose another name.")
    return table_path(definition.table).is_file()


def _jobs(
    definition: TableDefinition,
    rows: Sequence[Row],
    size: str,
    seeds: Sequence[int],
    pretrained: str | None,
    *,
    precision: str | None,
    wandb: str | None,
) -> list[Job]:
    """Each row at each seed; from the weights that are given where it can begin from them."""
    begun = set[str]()
    if pretrained is not None:
        trained = [row for row in definition.rows if row.trained is not None and is_made(row, size=size)]
        begun = {row.name for row in trained if can_be_pretrained(row.experiment_at(size))}
        if not begun:
            raise UserError(
                f"--pretrained: expected a table with a row whose network and pieces may be pretrained, such as GPT-2, "
                f"found {', '.join(row.name for row in trained)} in {definition.table}. Leave it out."
            )
    # No seed varies a floor: it is stored under the table's first one, whatever seeds are given.
    return [
        Job(definition, row, size, seed, pretrained if row.name in begun else None, precision, wandb)
        for row in rows
        for seed in (seeds if not row.is_floor else definition.seeds_at(size)[:1])
    ]


def _checked(seeds: Sequence[int]) -> Sequence[int]:
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise UserError(f"--seeds: expected numbers from 0, each once, such as [1,2]; found {[*seeds]}.")
    return seeds


def put_aside(jobs: Sequence[Job]) -> None:
    """Rename what earlier attempts have made; nothing is deleted.

    Raises:
        UserError: another process works on one of the rows; then nothing is renamed.
    """
    trained = {job.training.root: job for job in jobs if not job.row.is_floor}
    with ExitStack() as held:
        locks = [(job, _lock(job)) for job in jobs]
        locks += [(job, job.training.lock()) for job in trained.values()]  # another table's row may train into it
        for job, lock in locks:
            try:
                held.enter_context(lock.acquire(timeout=0))
            except Timeout:
                raise UserError(
                    f"{job.name}: another process works on it, and nothing was renamed. Wait until it is done, or end "
                    "it; then say --redo again."
                ) from None
        for job in jobs:
            _rename(job.result)
        for root in trained:
            _rename(root)


def _lock(job: Job) -> FileLock:
    """What a process holds that works on a row."""
    job.result.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(job.result.with_name(f".{job.result.stem}.lock"))


def _rename(path: Path) -> None:
    number = 1
    while (aside := path.with_name(f"replaced-{number}-{path.name}")).exists():
        number += 1
    if path.exists():
        path.rename(aside)


def make_all(
    jobs: Sequence[Job],
    *,
    remeasure: bool = False,
    options: TextOptions | None = None,
) -> list[str]:
    """One line for each job; those that other processes work on come last.

    Raises:
        UserError: a step failed.
    """
    lines = dict[int, str]()
    while waiting := [place for place in range(len(jobs)) if place not in lines]:
        for place in waiting:
            wait = place == waiting[-1] and lines.keys().isdisjoint(waiting)
            there = jobs[place].result.is_file() and not remeasure
            try:
                lines[place] = make(jobs[place], remeasure=remeasure, options=options, wait=wait)
                if not there:  # what took no time is in the summary alone
                    logger.info("%s", lines[place])
            except Timeout:
                logger.info("%s: another process works on it; other rows come first.", jobs[place].name)
    return [lines[place] for place in range(len(jobs))]


def _how_to_use(definition: TableDefinition, rows: Sequence[Row], size: str, seed: int) -> str:
    """How to have the paper's own system, or else the last row's, write or parse; empty where there is none."""
    trained = [row for row in rows if row.trained is not None]
    own = [row for row in trained if row.in_paper and row.against] or trained
    run = finished_run(Job(definition, own[-1], size, seed)) if own else None
    if run is None:
        return ""
    config = run / "config.yaml"
    path = str(read_settings(config)["model"]["class_path"])
    system = class_in_run(path, config)
    if getattr(system, "generation_options", None) is not None:
        return (
            f"\nTo have {own[-1].name} write: depgen generate --run {shlex.quote(str(run))}\n"
            f'In Python: import depgen; print(depgen.load("{run}").generate().text[0])\n'
        )
    if issubclass(system, HeadNetwork):
        return f"\nTo have {own[-1].name} parse: depgen parse --input FILE --run {shlex.quote(str(run))}\n"
    return ""


def make(
    job: Job,
    *,
    remeasure: bool = False,
    options: TextOptions | None = None,
    wait: bool = True,
) -> str:
    """One line on what was done for a row at a size and seed.

    Args:
        job: the row.
        remeasure: compute the text measures again.
        options: of the text measures.
        wait: for another process that works on the row.

    Raises:
        UserError: a step failed.
        filelock.Timeout: another process works on the row, and this one does not wait.
    """
    with _lock(job).acquire(timeout=-1 if wait else 0):
        if job.result.is_file() and not remeasure:
            return f"{job.name}: there already, {job.result}{_age(job)}{_texts(job, options)}"
        lacking = [] if job.row.consensus_of is None else [seed for seed, run in members(job).items() if run is None]
        if lacking:
            row, seeds = job.definition.row(str(job.row.consensus_of)), ", ".join(map(str, lacking))
            remedy = job.definition.command(job.size, row)
            return f"{job.name}: left out, {row.name} has no finished run of seed {seeds}. Train it: {remedy}"
        try:
            made = (
                floor(job, run_depgen, options or TextOptions(), wait=wait)
                if job.row.is_floor
                else measure(job, run_depgen, options or TextOptions(), remeasure=remeasure, wait=wait)
            )
        except MissingDataError as error:
            if job.row.floor != "corpus":
                raise
            return f"{job.name}: left out, its corpus is not at hand. {error}"
        write_result(made, job.result)
        return f"{job.name}: done, {job.result}"


def _age(job: Job) -> str:
    """A word on a result that is out of date, or that began from other weights than this command names."""
    result = read_result(job.result)
    if reason := why_outdated(result, job.config):
        return f" ({reason}; --redo makes it again)"
    begun = beginning_of(job.config)
    if result.beginning in (None, begun):
        return ""
    return f" (begun from {result.beginning}, not from {begun}; --redo makes it again)"


def _kept(jobs: Sequence[Job]) -> Iterator[str]:
    """The results at hand that are out of date, with the reason."""
    for job in jobs:
        if job.result.is_file() and (reason := _age(job)):
            yield f"{job.name}: {job.result} is out of date{reason}"


def _texts(job: Job, options: TextOptions | None) -> str:
    """How to measure the texts of a result that is there, where that may give more or other numbers."""
    if job.definition.generation is None or job.row.is_floor:
        return ""
    result = read_result(job.result)
    headers = [column.header for column in job.definition.ours if column.key in result.not_computed]
    reasons = [f"without {', '.join(headers)}"] if headers else []
    if result.generation not in (None, job.generation):
        reasons.append("made with other generation settings")
    if options is not None and options != TextOptions():
        reasons.append("options of the text measures were not used")
    return f" ({'; '.join(reasons)}; --remeasure measures the texts again)" if reasons else ""
