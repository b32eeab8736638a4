"""A plain product of options: every combination is trained once and validated, and the best is marked."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from depgen.errors import UserError
from depgen.locations import results_root, write_atomically
from depgen.reporting.definition import chosen_table
from depgen.reporting.jobs import Job, fit
from depgen.training.experiment_runs import measure_dev, run_depgen
from depgen.training.runs import read_record
from depgen.yaml_files import yaml_value


def grid_of_table(
    table: str,
    *,
    vary: Sequence[str],
    row: str | None = None,
    size: str | None = None,
    seed: int | None = None,
) -> str:
    """The validation perplexity of every combination of options, row by row, the best one marked.

    Runs lie where those of `depgen fit` with the same options lie. The same command continues what was stopped, and
    trains what longer lists add. The lines also go to `results/<table>/grid-<row>-<size>-seed<k>.tsv`.

    Args:
        table: the table's name, or a YAML file of one.
        vary: options of the rows' experiments with the values to try, such as `model.init_args.size=32,64`.
        row: only this row; unset: every row that has an experiment.
        size: `small` (the default) or `paper`.
        seed: of training; unset: the table's first.

    Raises:
        UserError: no such table, row, size or option, or a training failed.
    """
    (definition, chosen, _), values = chosen_table(table, size), dict(_listed(each) for each in vary)
    rows = [definition.row(row)] if row is not None else [each for each in definition.rows if each.trained]
    found = dict[str, str]()
    for each in rows:
        if each.trained is None:
            raise UserError(f"Row {each.name} of {definition.table} has no experiment: name one of the others.")
        job = Job(definition, each, chosen, definition.seeds_at(chosen)[0] if seed is None else seed)
        if job.training.place not in found:  # else two rows show one run
            found[job.training.place] = _tried(job, values)
    return "\n\n".join(found.values())


def _listed(text: str) -> tuple[str, list[Any]]:
    """An option and its values."""
    name, _, value = text.partition("=")
    listed = yaml_value(value if value.startswith("[") else f"[{value}]", name)
    if not name or not isinstance(listed, list) or not listed:
        raise UserError(f"--vary: expected option=value,value,... such as model.init_args.size=32,64, found {text!r}.")
    return name, listed


def _tried(job: Job, values: Mapping[str, Sequence[Any]]) -> str:
    """The lines of one row, which are kept in a file too."""
    combinations = [dict(zip(values, each, strict=True)) for each in product(*values.values())]
    jobs = [replace(job, row=replace(job.row, options={**job.row.options, **each})) for each in combinations]
    for each in jobs:
        _ = each.config.digest  # an option that is refused is named before anything is trained
    lines = dict[str, float]()
    for each, combination in zip(jobs, combinations, strict=True):
        run = fit(each, run_depgen).run
        dev = measure_dev(each.training, run, run_depgen)
        measure = "perplexity" if "dev_perplexity" in dev else "loss"  # the same for all combinations
        figure = dev[f"dev_{measure}"]
        parameters = float(read_record(run).get("parameters") or 0) / 1e6
        shown = [f"{name.rpartition('.')[2]} {value}" for name, value in combination.items()]
        lines["\t".join([*shown, f"{figure:.2f}", f"{parameters:.2f}", str(run)])] = figure
    best = min(filter(lambda line: math.isfinite(lines[line]), lines), key=lines.__getitem__, default=None)
    marked = [f"{line}{'  <- best' if line == best else ''}" for line in lines]
    path = results_root() / job.definition.table / f"grid-{job.row.slug}-{job.size}-seed{job.seed}.tsv"
    write_atomically(path, "".join(f"{line}\n" for line in marked))
    return "\n".join([f"{job.name}: dev {measure}, parameters in millions", *(f"  {line}" for line in marked)])
