"""The data of an experiment, read from its YAML without building a model."""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from depgen.data.corpus import Corpus
from depgen.errors import UserError, user_errors_unwrapped
from depgen.training.class_paths import known_classes_alone
from depgen.training.experiment import Experiment, settings_of


def data_of(config: Path | Experiment) -> Any:  # noqa: ANN401 - any data module
    """The data module of an experiment, or of an experiment's or a run's YAML.

    Raises:
        UserError: the file is no YAML in UTF-8, has no `data`, or has one that is refused; or it is of a
            run and names classes that no run may name.
    """
    from depgen.data.text import TextData

    return _made(config, "data", TextData)


def corpus_of(config: Path | Experiment) -> Corpus:
    """The corpus of an experiment: that of its data module, or that which a file of a treebank or a task names itself.

    Raises:
        UserError: the file names none, or what `data_of` refuses.
    """
    if "corpus" in settings_of(config):
        named: Corpus = _made(config, "corpus", None)
        return named
    corpus: Corpus = data_of(config).corpus
    return corpus


def _made(config: Path | Experiment, name: str, default: type | None) -> Any:  # noqa: ANN401
    """What a part of a YAML file describes; without a class in it, one of the default class."""
    import lightning as L
    from jsonargparse import ArgumentError, ArgumentParser

    file = config.file if isinstance(config, Experiment) else config
    if not file.is_file():
        raise UserError(f"No experiment at {file.absolute()}; the project's own lie in experiments/.")
    settings = settings_of(config).get(name)
    if not isinstance(settings, Mapping):
        raise UserError(f"{config}: expected `{name}`, a class and its options.")
    parser = ArgumentParser(exit_on_error=False)
    if "class_path" in settings or default is None:
        parser.add_subclass_arguments(L.LightningDataModule if default else Corpus, name, required=True)
    else:
        parser.add_class_arguments(default, name)
    in_run = [file] if (file.parent / "run.json").is_file() else []
    try:
        with known_classes_alone(*in_run), user_errors_unwrapped():
            return parser.instantiate(parser.parse_object({name: deepcopy(dict(settings))}))[name]
    except ArgumentError as error:
        raise UserError(f"{config}: {error}") from error
