"""Where tables, experiments and what they name lie: `experiments/` and its folders."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from depgen.errors import UserError, did_you_mean
from depgen.training.experiment import Experiment
from depgen.yaml_files import made_as, read_settings

_Kind = TypeVar("_Kind")


def experiments_root() -> Path:
    """The folder of experiment files: `./experiments`, else the one beside the package.

    Raises:
        UserError: neither is there.
    """
    here, beside = Path("experiments"), Path(__file__).resolve().parents[2] / "experiments"
    for folder in (here, beside):
        if (folder / "tables").is_dir():
            return folder
    raise UserError(
        f"No folder of experiments at {here.absolute()} or {beside}. Run from the root of a checkout of depgen."
    )


def experiment_of(name: str, *, size: str, options: Mapping[str, Any] = MappingProxyType({})) -> Experiment:
    """An experiment at a size, by its name in `experiments/` or by the path of its YAML file.

    Raises:
        UserError: the file or one of its parts is not there, or it has no such size.
    """
    experiment = Experiment(experiment_file(name), size, options)
    _ = experiment.settings
    return experiment


def is_path(name: str | None) -> bool:
    """Whether a table or an experiment is named by the path of its file."""
    return name is not None and name.endswith((".yaml", ".yml"))


def experiment_file(name: str) -> Path:
    """The YAML file of an experiment by its name or its path.

    Raises:
        UserError: it is not there; similar names are listed.
    """
    path = Path(name) if is_path(name) else experiments_root() / f"{name}.yaml"
    if not path.is_file():
        meant = did_you_mean(path.stem, [each.stem for each in path.parent.glob("*.yaml")])
        raise UserError(f"No experiment file {path}.{meant}")
    return path


COLUMNS = "columns.yaml"
"""Beside the tables: the columns that recur, by key."""


def table_names() -> list[str]:
    """Every table that has a definition, by name."""
    return sorted(path.stem for path in (experiments_root() / "tables").glob("*.yaml") if path.name != COLUMNS)


def table_path(name: str) -> Path:
    """The file of a table of the package."""
    return experiments_root() / "tables" / f"{name}.yaml"


def settings_as(kind: type[_Kind], name: str) -> _Kind:
    """The object that a file of settings makes: what the systems of a table are judged by.

    Raises:
        UserError: the file is not there, is no YAML of names and values, or makes no such object.
    """
    path = experiment_file(name)
    try:
        made = made_as(kind, read_settings(path))
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    assert isinstance(made, kind)
    return made
