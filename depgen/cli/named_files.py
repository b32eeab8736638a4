"""Refuses files and runs that are not there. It imports nothing heavy, so that a misspelt name is answered at once."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from depgen.cli.verbs import TRAINING_VERBS
from depgen.errors import UserError, did_you_mean
from depgen.training.runs import announced_run, find_run

_READERS = ("score", "evaluate-text", "draw")
"""Verbs whose first argument is a file."""
_CONFIG = ("--config", "-c")
_RUN_OPTIONS = {
    "fit": "--resume",
    "validate": "--run",
    "test": "--run",
    "predict": "--run",
    "generate": "--run",
    "score": "--run",
}
"""The option of a verb that names a run."""
_SOURCES = ("config", "c", "resume", "run", "ckpt_path", "parser", "model", "data", "print_config")
"""The options that give `fit` a system or need none; parts of `model` and `data` follow a dot."""


def check_named(verb: str, arguments: Sequence[str]) -> None:
    """Raises UserError unless the files and runs on a command line exist.

    Args:
        verb: the verb.
        arguments: what follows the verb.

    Raises:
        UserError: a file or run is missing, or `fit` is given neither a YAML file nor a run.
    """
    names = {each.partition("=")[0] for each in arguments}
    if names & {"-h", "--help"} or any(name.endswith(".help") for name in names):
        return
    if verb == "fit" and not any(name.lstrip("-").partition(".")[0] in _SOURCES for name in names):
        raise UserError("fit needs a system: --config experiments/X.yaml, or --resume RUN to continue a run.")
    if verb in _READERS and arguments and not arguments[0].startswith("-"):
        _check_file(arguments[0])
    for name, value in _values(arguments):
        if name in _CONFIG or (name == "--input" and verb not in TRAINING_VERBS):
            _check_file(value)
        elif name == _RUN_OPTIONS.get(verb) and announced_run() is None:
            _check_run(value)


def _values(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The options that have a value, with the first one; lists and settings in braces are no names."""
    for argument, following in pairwise([*arguments, "-"]):
        name, separator, value = argument.partition("=")
        value = value if separator else following
        if value and value[0] not in "-[{" and value != "null":
            yield name, value


def _check_file(name: str) -> None:
    path = Path(name)
    if path.exists():
        return
    siblings = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
    raise UserError(f"No file at {path.absolute()}.{did_you_mean(path.name, siblings)}")


def _check_run(name: str) -> None:
    if not Path(name).is_file():
        find_run(name)
