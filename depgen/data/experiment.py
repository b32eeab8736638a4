"""The data module of an experiment, read from its YAML without building a model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from depgen.errors import UserError, user_errors_unwrapped


def data_of(config: Path) -> Any:  # noqa: ANN401 - any data module
    """The data module of an experiment's or a run's YAML.

    Raises:
        UserError: the file is no YAML in UTF-8 or has no `data`, or what stands there is refused.
    """
    import lightning as L
    from jsonargparse import ArgumentError, ArgumentParser

    from depgen.data.text import TextData

    if not config.is_file():
        raise UserError(f"No experiment at {config.absolute()}; the project's own lie in experiments/.")
    try:
        content = yaml.safe_load(config.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(f"{config}: expected UTF-8, found {error}; convert the file, for instance by iconv.") from error
    except yaml.YAMLError as error:
        raise UserError(f"{config}: expected YAML, found: {error}") from error
    data = content.get("data") if isinstance(content, Mapping) else None
    if not isinstance(data, Mapping):
        raise UserError(f"{config}: expected `data`, the data module.")
    parser = ArgumentParser(exit_on_error=False)
    if "class_path" in data:
        parser.add_subclass_arguments(L.LightningDataModule, "data", required=True)
    else:
        parser.add_class_arguments(TextData, "data")
    try:
        with user_errors_unwrapped():
            return parser.instantiate(parser.parse_object({"data": dict(data)})).data
    except ArgumentError as error:
        raise UserError(f"{config}: {error}") from error
