"""Whether all columns of a table name numbers that its rows and measures give: seen before anything is trained."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from depgen.data.corpus import SPLITS
from depgen.errors import UserError, did_you_mean, nearest
from depgen.reporting.definition import Column, Row, TableDefinition
from depgen.reporting.experiments import is_path, table_path
from depgen.training.experiment_runs import DEV
from depgen.training.trust import class_at

_SIZES = ("parameters", "epoch_tokens")
_OF_FLOORS = {
    "corpus": tuple(
        f"{split.replace('valid', 'dev')}_{each}" for split in SPLITS for each in ("documents", "tokens", "sentences")
    ),
    "source": ("perplexity", "source_perplexity"),
    "speed": ("tokens_per_second", "batched_tokens_per_second", "cuda_memory"),
}
"""The numbers of each floor that is no rule of trees."""


def check_keys(definition: TableDefinition, rows: Sequence[Row], *, size: str) -> None:
    """Raise UserError for a column that no row's test and no measure of the table gives, as far as they are known.

    A system outside the package that declares no `figure_names`, or a measure without `keys`, may give any.
    """
    trained = [row for row in rows if row.trained is not None]
    tested = [_figures_of_test(row, size) for row in trained]
    measured = [each.keys() for each in definition.measures]
    known = {name for names in (*tested, *measured) for name in names or ()}
    known |= {DEV + name for names in tested for name in names or ()} | ({*_SIZES} if trained else set())
    known |= {name for row in rows for name in _OF_FLOORS.get(row.floor or "", ())}
    if None in (*tested, *measured):
        return
    for column in _unknown(definition.ours, sorted(known)):
        key = column.measure or column.key
        file = definition.given if is_path(definition.given) else table_path(definition.table)
        raise UserError(
            f"{file}: columns: no row and no measure gives {key!r}.{did_you_mean(key, known)} There are "
            f"{', '.join(sorted(known))}. Correct the key, add the measure to `measures:`, or add the name to "
            "`figure_names` of a system that logs it. Nothing was trained."
        )


def _unknown(columns: Sequence[Column], known: Sequence[str]) -> Iterator[Column]:
    """The columns whose key is not known; of a validation split, a system may log more than at a test."""
    for column in columns:
        key = column.measure or column.key
        logged = key.startswith(DEV) and nearest(key, known) is None
        if not logged and not any(fnmatchcase(key, each) for each in known):
            yield column


def _figures_of_test(row: Row, size: str) -> tuple[str, ...] | None:
    """What a test of the row's system logs; None where that is not known."""
    experiment = row.experiment_at(size)
    path = str((experiment.settings.get("model") or {}).get("class_path"))
    system = class_at(path, experiment.file) if "." in path else object
    declared = next((each for each in system.__mro__ if "figure_names" in vars(each)), None)
    closed = system.__module__.startswith("depgen.") or declared is system
    return getattr(declared, "figure_names", None) if closed else None
