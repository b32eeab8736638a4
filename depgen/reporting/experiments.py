"""Where tables, experiments and what they name lie: `experiments/` and its folders."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from depgen.errors import UserError
from depgen.reporting.fields import read_yaml


def experiments_root() -> Path:
    """The folder of experiment files: `./experiments`, else the one beside the package.

    Raises:
        UserError: neither is there.
    """
    here, beside = Path("experiments"), Path(__file__).resolve().parents[2] / "experiments"
    for folder in (here, beside):
        if (folder / "published").is_dir():
            return folder
    raise UserError(
        f"No folder of experiments at {here.absolute()} or {beside}. Run from the root of a checkout of depgen."
    )


def experiment_path(experiment: str, *, profile: str) -> Path:
    """The YAML of an experiment at a profile: `<name>_small.yaml` for `small`, `<name>.yaml` for every other one.

    Raises:
        UserError: the file is not there.
    """
    path = experiment_file(experiment, profile)
    if not path.is_file():
        raise UserError(f"No experiment file {path}, which profile {profile!r} of {experiment!r} needs.")
    return path


def experiment_file(experiment: str, profile: str) -> Path:
    """The same, whether it is there or not."""
    return experiments_root() / f"{experiment}{'_small' if profile == 'small' else ''}.yaml"


def table_names() -> list[str]:
    """Every table that has a definition, by name."""
    return sorted(path.stem for path in (experiments_root() / "published").glob("*.yaml"))


def table_path(name: str) -> Path:
    """The file of a table's definition."""
    return experiments_root() / "published" / f"{name}.yaml"


def settings_path(name: str) -> Path:
    """The file that says what the systems of a table are judged by."""
    return experiments_root() / f"{name}.yaml"


def read_settings(name: str, *, what: str) -> Mapping[Any, Any]:
    """What it says, unchecked; `what` is what messages call it.

    Raises:
        UserError: it is not there or no YAML of names and values.
    """
    path = settings_path(name)
    if not path.is_file():
        raise UserError(f"No {path}, which names {what}.")
    return read_yaml(path)
