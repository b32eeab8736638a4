"""The YAML files in `experiments/` that say what the systems of a table are judged by."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from depgen.errors import UserError
from depgen.reporting.definition import experiments_root


def settings_path(name: str) -> Path:
    """The file that a table names."""
    return experiments_root() / f"{name}.yaml"


def read_settings(name: str, *, what: str) -> Mapping[str, Any]:
    """What it says, unchecked; `what` is what messages call it.

    Raises:
        UserError: it is not there or no YAML of names and values.
    """
    path = settings_path(name)
    if not path.is_file():
        raise UserError(f"No {path}, which names {what}.")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{path}: expected YAML, found: {error}") from error
    if not isinstance(content, Mapping):
        raise UserError(f"{path}: expected names and values, found {type(content).__name__}.")
    return content
