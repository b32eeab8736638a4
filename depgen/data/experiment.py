"""The data module of an experiment, read from its YAML without building a model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from depgen.errors import UserError, user_errors_unwrapped
from depgen.training.class_paths import known_classes_alone
from depgen.training.experiment import Experiment, settings_of


def data_of(config: Path | Experiment) -> Any:  # noqa: ANN401 - any data module
    """The data module of an experiment, or of an experiment's or a run's YAML.

    Raises:
        UserError: the file is no YAML in UTF-8, has no `data`, or has one that is refused; or it is of a
            run and names classes that no run may name.
    """
    import lightning as L
    from jsonargparse import ArgumentError, ArgumentParser

    from depgen.data.text import TextData

    file = config.file if isinstance(config, Experiment) else config
    if not file.is_file():
        raise UserError(f"No experiment at {file.absolute()}; the project's own lie in experiments/.")
    data = settings_of(config).get("data")
    if not isinstance(data, Mapping):
        raise UserError(f"{config}: expected `data`, the data module.")
    parser = ArgumentParser(exit_on_error=False)
    if "class_path" in data:
        parser.add_subclass_arguments(L.LightningDataModule, "data", required=True)
    else:
        parser.add_class_arguments(TextData, "data")
    in_run = [file] if (file.parent / "run.json").is_file() else []
    try:
        with known_classes_alone(*in_run), user_errors_unwrapped():
            return parser.instantiate(parser.parse_object({"data": dict(data)})).data
    except ArgumentError as error:
        raise UserError(f"{config}: {error}") from error
