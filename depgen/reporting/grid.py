"""A grid of sizes for the systems of a table: every combination is trained once, the best on validation is taken."""

import csv
import io
import json
import logging
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import yaml
from filelock import FileLock

from depgen.errors import UserError
from depgen.locations import results_root, runs_root, write_atomically
from depgen.reporting.definition import load_definition
from depgen.reporting.jobs import Job, options_of
from depgen.reporting.provenance import choose_profile
from depgen.training.experiment import Experiment
from depgen.training.experiment_runs import Depgen, Training, fit, measure_dev, run_depgen
from depgen.training.runs import read_record

logger = logging.getLogger(__name__)
ADOPTED = "adopted.json"
"""What beside a run says that it was taken from a grid: `source`, `run`, and the experiment `before` and `after`."""
_FIGURES = ("dev_perplexity", "parameters_millions", "run")


@dataclass(frozen=True)
class Tried:
    """One combination.

    Attributes:
        values: by the name of the setting.
        perplexity: on validation, of the best checkpoint.
        parameters: of the system, in millions.
        run: the run folder.
    """

    values: Mapping[str, str]
    perplexity: float
    parameters: float
    run: Path


def grid_of_table(
    table: str,
    *,
    vary: Sequence[str],
    row: str | None = None,
    profile: str | None = None,
    seed: int | None = None,
    adopt: bool = False,
) -> str:
    """The validation perplexity of every combination of settings, row by row, the best one marked.

    What is trained stays trained: the same command goes on where it was stopped, and with longer lists trains what is
    missing. The figures also go to `results/<table>/grid/<row>-<profile>-seed<k>.csv`, beside those there.

    Args:
        table: the table's name, or a YAML file of one.
        vary: settings of the rows' experiments with their values, such as `model.init_args.embedding_size=32,48,64`.
        row: only this row; unset: every row that has an experiment.
        profile: `small` or `paper`; unset: `small`, or the only one of the table.
        seed: of training; unset: the table's first.
        adopt: write the best values into the row's experiment and take its run as the table's own, so that `depgen
            reproduce` goes on from there. A row for which that was done is left as it is.

    Raises:
        UserError: no such table, row, profile or setting, a training failed, or the table has a run of its own already
            when one is to be adopted.
    """
    definition = load_definition(table)
    chosen, reason = choose_profile(definition.sizes, profile)
    logger.info("%s", reason)
    values = _settings(vary)
    rows = [definition.row(row)] if row is not None else [each for each in definition.rows if each.experiment]
    jobs = list[Job]()
    for each in rows:
        if each.experiment is None:
            raise UserError(f"Row {each.name} of {definition.table} has no experiment whose sizes could be varied.")
        job = Job(definition, each, chosen, definition.seeds_at(chosen)[0] if seed is None else seed)
        if all(job.runs != other.runs for other in jobs):  # else it shows the runs of a row before
            _check(job, values, adopt)
            jobs.append(job)
    return "\n\n".join(grid(job, values, adopt=adopt) for job in jobs)


def _settings(vary: Sequence[str]) -> dict[str, list[str]]:
    """The values of each setting, by its name in order: files and folders are named alike in whatever order they came.

    Raises:
        UserError: one does not read, or two share their last name, by which columns and folders call them.
    """
    found: dict[str, list[str]] = {}
    for text in vary:
        name, equals, values = (each.strip() for each in text.partition("="))
        listed = [value.strip() for value in values.split(",") if value.strip()]
        if not equals or not listed:
            raise UserError(
                f"--vary: expected setting=value,value,... such as model.init_args.size=32,64, found {text!r}."
            )
        for other in found:
            if _short(other) == _short(name):
                raise UserError(f"--vary: {other} and {name} share the name {_short(name)!r}: give one of them, once.")
        found[name] = listed
    return dict(sorted(found.items(), key=lambda each: _short(each[0])))


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _check(job: Job, values: Mapping[str, Sequence[str]], adopt: bool) -> None:
    """Refuse, before anything is trained, settings that the experiment lacks, and a run that is in adoption's way."""
    text = _text_of(job)
    for name, listed in values.items():
        for value in listed:
            with_values(text, {name: value}, where=str(job.config))
    if adopt and job.training.runs() and _adopted(job) is None:
        raise UserError(
            f"{job.name} has a run of its own under {job.runs}: put it aside before another one is adopted."
        )


def grid(job: Job, values: Mapping[str, Sequence[str]], *, adopt: bool = False, depgen: Depgen = run_depgen) -> str:
    """The grid of one row, in words; see `grid_of_table`."""
    _check(job, values, adopt)
    if adopt and (note := _adopted(job)) is not None:
        return f"{job.name}: {_take(job, note)}"
    options = options_of(job, depgen)
    found = []
    for combination in product(*values.values()):
        found.append(_tried(job, dict(zip(values, combination, strict=True)), options, depgen))
        _write(job, found[-1])
    finite = [tried for tried in found if math.isfinite(tried.perplexity)]
    if not finite:
        raise UserError(f"{job.name}: no combination has a finite validation perplexity, so that none is the best.")
    best = min(finite, key=lambda tried: tried.perplexity)
    lines = [f"{job.name}: dev perplexity (parameters in millions)"]
    for tried in found:
        shown = ", ".join(f"{_short(name)} {value}" for name, value in tried.values.items())
        mark = "  <- best" if tried is best else ""
        lines.append(f"  {shown}\t{tried.perplexity:.2f} ({tried.parameters:.2f}){mark}")
    if adopt:
        lines.append(f"  {_adopt(job, best, options)}")
    return "\n".join(lines)


def _text_of(job: Job) -> str:
    """The whole configuration of a job, as YAML."""
    return yaml.safe_dump(job.config.settings, sort_keys=False)


def _tried(job: Job, setting: Mapping[str, str], options: tuple[str, ...], depgen: Depgen) -> Tried:
    """One combination, trained and validated unless it is done, from an experiment of its own."""
    text = with_values(_text_of(job), setting, where=str(job.config))
    place = ",".join(sorted(f"{_short(name)}={value}" for name, value in setting.items()))
    root = runs_root() / job.definition.table / job.row.slug / f"{job.profile}-seed{job.seed}-grid" / place
    config = root / f"{job.config.name}.yaml"
    if not config.is_file() or config.read_text(encoding="utf-8") != text:
        write_atomically(config, text)
    anew = f"remove {root}, then the same command again"
    training = Training(f"{job.name}, {place}", Experiment(config), job.seed, root, anew, options)
    run = fit(training, depgen).run
    parameters = float(read_record(run).get("parameters") or 0) / 1e6
    return Tried(dict(setting), measure_dev(training, run, depgen)["dev_perplexity"], parameters, run)


def _write(job: Job, tried: Tried) -> None:
    """Add a combination's line to the row's file, in place of an older one of the same settings."""
    path = results_root() / job.definition.table / "grid" / f"{job.row.slug}-{job.profile}-seed{job.seed}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.parent.with_name(".grid.lock")):
        _add(path, tried)


def _add(path: Path, tried: Tried) -> None:
    lines: list[dict[str, str]] = []
    if path.is_file():
        with path.open(newline="", encoding="utf-8") as stream:
            lines = [dict(line) for line in csv.DictReader(stream)]
    settings = {_short(name): value for name, value in tried.values.items()}
    figures = (f"{tried.perplexity:.4f}", f"{tried.parameters:.4f}", str(tried.run))
    line = {**settings, **dict(zip(_FIGURES, figures, strict=True))}
    held = [{name: value for name, value in each.items() if value and name not in _FIGURES} for each in lines]
    at = held.index(settings) if settings in held else len(lines)
    lines[at : at + 1] = [line]
    names = dict.fromkeys(name for each in lines for name in each if name not in _FIGURES)
    text = io.StringIO()
    writer = csv.DictWriter(text, [*names, *_FIGURES], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    write_atomically(path, text.getvalue())


def _adopted(job: Job) -> dict[str, str] | None:
    """The note of the run that was taken from a grid; None where the row has none, or others beside it."""
    try:
        note: dict[str, str] = json.loads((job.runs / ADOPTED).read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return note if job.training.runs() == [job.runs / note["run"]] else None


def _adopt(job: Job, best: Tried, options: tuple[str, ...]) -> str:
    """Put the best run where the table looks for the row's, and its values into the experiment.

    The note comes first and the experiment last, so that the same command ends what was stopped in between.
    """
    file = job.config.files[-1]
    text = file.read_text(encoding="utf-8")
    note = {
        "source": str(best.run),
        "run": f"{best.run.parent.name}/{best.run.name}",
        "options": " ".join(options),
        "before": text,
        "after": with_values(text, best.values, where=str(file)),
    }
    write_atomically(job.runs / ADOPTED, json.dumps(note, indent=2) + "\n")
    taken = job.runs / note["run"]
    part = job.runs / f".part-{best.run.name}"
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(best.run, part)
    taken.parent.mkdir(parents=True, exist_ok=True)
    part.rename(taken)
    return _take(job, note)


def _take(job: Job, note: Mapping[str, str]) -> str:
    """End an adoption whose run is there; an experiment that was changed since stays as it is."""
    file = job.config.files[-1]
    if file.read_text(encoding="utf-8") == note["before"]:
        write_atomically(file, note["after"])
        write_atomically(job.runs / "config.sha256", f"{job.config.digest} {note['options']}".rstrip() + "\n")
    return f"adopted: {file}, {job.runs / note['run']}"


def with_values(text: str, values: Mapping[str, str], *, where: str) -> str:
    r"""A YAML text with other values at some settings, its comments and order as they were.

    Args:
        text: of nested mappings, one setting a line.
        values: by the dotted name of each setting.
        where: what messages call the text.

    Raises:
        UserError: a setting is not there, holds no plain value, or is given none.

    >>> print(with_values("a:\n  b: 1  # why\nc: 2", {"a.b": "3"}, where="x"))
    a:
      b: 3  # why
    c: 2
    """
    lines, path = text.split("\n"), list[tuple[int, str]]()
    missing = set(values)
    for number, line in enumerate(lines):
        match = re.match(r"^( *)([\w.]+):(?: +([^#\s][^#]*?))?( *(?:#.*)?)$", line)
        if match is None:
            continue
        indent = len(match[1])
        path = [(each, name) for each, name in path if each < indent] + [(indent, match[2])]
        name = ".".join(each for _, each in path)
        if name in missing and match[3] is not None:
            lines[number] = f"{match[1]}{match[2]}: {values[name]}{match[4]}"
            missing.discard(name)
    if missing:
        raise UserError(
            f"{where}: no value at {', '.join(sorted(missing))}. Name settings from the top of the file on, such as "
            "model.init_args.embedding_size."
        )
    changed = "\n".join(lines)
    try:
        yaml.safe_load(changed)
    except yaml.YAMLError as error:
        given = ", ".join(f"{name}={value}" for name, value in values.items())
        raise UserError(f"{where}: {given} is no YAML: give values with commas between them, no brackets.") from error
    return changed
