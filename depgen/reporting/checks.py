"""Whether a table names experiments, options and numbers that there are: seen before anything is trained."""

import dataclasses
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from depgen.data.corpus import SPLITS
from depgen.errors import UserError, did_you_mean, nearest
from depgen.language_models.base import LanguageModel
from depgen.reporting.definition import Row, TableDefinition
from depgen.reporting.experiments import experiment_file, is_path, table_path
from depgen.reporting.numbers import measures_of
from depgen.training.class_paths import class_at
from depgen.training.experiment import Experiment
from depgen.training.experiment_runs import DEV

_SIZES = ("parameters", "epoch_tokens")
_OF_FLOORS = {
    "corpus": (
        *(
            f"{split.replace('valid', 'dev')}_{each}"
            for split in SPLITS
            for each in ("documents", "tokens", "sentences", "levels")
        ),
        "expansions",
        "types",
    ),
    "source": ("perplexity",),
    "speed": ("tokens_per_second", "batched_tokens_per_second", "cuda_memory"),
}
"""The numbers of each floor that is no rule of trees."""


_SECTIONS = (
    "trainer", "model", "data",
    "compile", "float32_matmul_precision", "resume_every_n_steps", "seed_everything", "wandb",
)  # fmt: skip
"""What the options of `depgen fit` that an experiment may have begin with."""


def check_files(definition: TableDefinition, rows: Sequence[Row]) -> None:
    """Raise UserError where an experiment that a row names has no file."""
    for row in rows:
        try:
            _ = None if row.experiment is None else experiment_file(row.experiment)
        except UserError as error:
            place = (
                f" A path is one from {Path.cwd()} or from the folder of the table." if is_path(row.experiment) else ""
            )
            raise UserError(f"{definition.argument}: row {row.name}: {error}{place} Nothing was trained.") from None


def check_options(definition: TableDefinition, rows: Sequence[Row], *, size: str) -> None:
    """Raise UserError for an option of a row that its experiment has not, or whose value is refused; it is named."""
    for row in rows:
        experiment = row.experiment_at(size) if row.experiment is not None else None
        if experiment is None or (refused := _refused(experiment)) is None:
            continue
        for name, value in experiment.options.items():
            if (said := _refused(dataclasses.replace(experiment, options={name: value}))) is None:
                continue
            raise UserError(f"{_file(definition)}: row {row.name}: options: {name}: {said} Nothing was trained.")
        raise UserError(f"{_file(definition)}: row {row.name}: {refused} Nothing was trained.")


def _refused(experiment: Experiment) -> str | None:
    """Why an experiment or an option of it is refused; None where it is not."""
    for section in (name.partition(".")[0] for name in experiment.options):
        if section not in _SECTIONS:
            return f"there is no option {section!r}.{did_you_mean(section, _SECTIONS)}"
    try:
        _ = experiment.digest
    except UserError as error:
        return str(error).removeprefix(f"{experiment}: ")
    return None


def _file(definition: TableDefinition) -> str:
    """The file of a table."""
    return str(definition.given if is_path(definition.given) else table_path(definition.table))


def check_keys(definition: TableDefinition, rows: Sequence[Row], *, size: str) -> None:
    """Raise UserError for a column that no row's test and no measure of the table gives, as far as they are known.

    A system outside the package that declares no `figure_names`, or a measure without `keys`, may give any.
    """
    trained = [row for row in rows if row.trained is not None]
    tested = [_figures_of_test(row, size) for row in trained]
    measured = [each.keys() for each in measures_of(definition)]
    known = {name for names in (*tested, *measured) for name in names or ()}
    known |= {DEV + name for names in tested for name in names or ()} | ({*_SIZES} if trained else set())
    known |= {name for row in rows for name in _OF_FLOORS.get(row.floor or "", ())}
    if None in (*tested, *measured):
        return
    for column in definition.ours:
        key = column.measure or column.key
        logged = key.startswith(DEV) and nearest(key, known) is None  # a validation may log more than a test
        if logged or any(fnmatchcase(key, each) for each in known):
            continue
        raise UserError(
            f"{_file(definition)}: columns: no row and no measure gives {key!r}.{did_you_mean(key, known)} There are "
            f"{', '.join(sorted(known))}. Correct the key, add the measure to `measures:`, or add the name to "
            "`figure_names` of a system that logs it. Nothing was trained."
        )


def _figures_of_test(row: Row, size: str) -> tuple[str, ...] | None:
    """What a test of the row's system logs; None where that is not known."""
    experiment = row.experiment_at(size)
    path = str((experiment.settings.get("model") or {}).get("class_path"))
    system = class_at(path, experiment.file) if "." in path else object
    closed = system.__module__.startswith("depgen.") or {"figures", "figure_names"} & {*vars(system)}
    return system.figure_names() if closed and issubclass(system, LanguageModel) else None
