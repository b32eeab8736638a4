"""A grid of sizes for the systems of a table: every combination is trained once, the best on validation is taken."""

import csv
import io
import logging
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import yaml

from depgen.errors import UserError
from depgen.evaluation.experiment_runs import Depgen, Training, fit, measure_dev, run_depgen, sha256
from depgen.locations import results_root, runs_root, write_atomically
from depgen.reporting.definition import load_definition
from depgen.reporting.jobs import Job
from depgen.reporting.provenance import choose_profile
from depgen.training.runs import read_record

logger = logging.getLogger(__name__)


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
    missing. The figures also go to `results/<table>/grid/<row>-<profile>.csv`.

    Args:
        table: the table's name, or a YAML file of one.
        vary: settings of the rows' experiments with their values, such as `model.init_args.embedding_size=32,48,64`.
        row: only this row; unset: every row that has an experiment.
        profile: `small` or `paper`; unset: `paper` where a GPU is found, `small` elsewhere.
        seed: of training; unset: the table's first.
        adopt: write the best values into the row's experiment and take its run as the table's own, so that `depgen
            reproduce` goes on from there.

    Raises:
        UserError: no such table, row, profile or setting, a training failed, or the table has a run of its own already
            when one is to be adopted.
    """
    definition = load_definition(table)
    chosen, reason = choose_profile(definition.profiles, profile)
    logger.info("%s", reason)
    values = dict(_values_of(each) for each in vary)
    rows = [definition.row(row)] if row is not None else [each for each in definition.rows if each.experiment]
    parts = []
    for each in rows:
        if each.experiment is None:
            raise UserError(f"Row {each.name} of {definition.table} has no experiment whose sizes could be varied.")
        job = Job(definition, each, chosen, definition.seeds[0] if seed is None else seed)
        parts.append(grid(job, values, adopt=adopt))
    return "\n\n".join(parts)


def _values_of(text: str) -> tuple[str, list[str]]:
    name, equals, values = text.partition("=")
    found = [value.strip() for value in values.split(",") if value.strip()]
    if not equals or not found:
        raise UserError(f"--vary: expected setting=value,value,... such as model.init_args.size=32,64, found {text!r}.")
    return name.strip(), found


def grid(job: Job, values: Mapping[str, Sequence[str]], *, adopt: bool = False, depgen: Depgen = run_depgen) -> str:
    """The grid of one row, in words; see `grid_of_table`."""
    if adopt and job.training.runs():
        raise UserError(
            f"{job.name} has a run of its own under {job.runs}: put it aside before another one is adopted."
        )
    names = {name: name.rpartition(".")[2] for name in values}
    found = []
    for combination in product(*values.values()):
        setting = dict(zip(values, combination, strict=True))
        found.append(_tried(job, setting, depgen))
        _write(job, names, found)
    best = min(found, key=lambda tried: tried.perplexity)
    lines = [f"{job.name}: dev perplexity (parameters in millions)"]
    for tried in found:
        shown = ", ".join(f"{names[name]} {value}" for name, value in tried.values.items())
        mark = "  <- best" if tried is best else ""
        lines.append(f"  {shown}\t{tried.perplexity:.2f} ({tried.parameters:.2f}){mark}")
    if adopt:
        lines.append(_adopt(job, best))
    return "\n".join(lines)


def _tried(job: Job, setting: Mapping[str, str], depgen: Depgen) -> Tried:
    """One combination, trained and validated unless it is done, from an experiment of its own."""
    text = with_values(job.config.read_text(encoding="utf-8"), setting, where=str(job.config))
    place = ",".join(f"{name.rpartition('.')[2]}={value}" for name, value in setting.items())
    root = runs_root() / job.definition.table / job.row.slug / f"{job.profile}-seed{job.seed}-grid" / place
    config = root / job.config.name
    if not config.is_file() or config.read_text(encoding="utf-8") != text:
        write_atomically(config, text)
    training = Training(f"{job.name}, {place}", config, job.seed, root, f"remove {root}, then the same command again")
    run = fit(training, depgen).run
    parameters = float(read_record(run).get("parameters") or 0) / 1e6
    return Tried(dict(setting), measure_dev(training, run, depgen)["dev_perplexity"], parameters, run)


def _write(job: Job, names: Mapping[str, str], found: Sequence[Tried]) -> None:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*names.values(), "dev_perplexity", "parameters_millions", "run"])
    for tried in found:
        writer.writerow([*tried.values.values(), f"{tried.perplexity:.4f}", f"{tried.parameters:.4f}", tried.run])
    folder = results_root() / job.definition.table / "grid"
    write_atomically(folder / f"{job.row.slug}-{job.profile}.csv", stream.getvalue())


def _adopt(job: Job, best: Tried) -> str:
    """Write the best values into the experiment, and put its run where the table looks for the row's."""
    text = job.config.read_text(encoding="utf-8")
    write_atomically(job.config, with_values(text, best.values, where=str(job.config)))
    taken = job.runs / best.run.parent.name / best.run.name
    shutil.copytree(best.run, taken)
    write_atomically(job.runs / "config.sha256", f"{sha256(job.config)}\n")
    return f"  adopted: {job.config}, {taken}"


def with_values(text: str, values: Mapping[str, str], *, where: str) -> str:
    r"""A YAML text with other values at some settings, its comments and order as they were.

    Args:
        text: of nested mappings, one setting a line.
        values: by the dotted name of each setting.
        where: what messages call the text.

    Raises:
        UserError: a setting is not there, or holds no plain value.

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
    yaml.safe_load(changed)
    return changed
