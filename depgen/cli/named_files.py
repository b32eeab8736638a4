"""Refuses files and runs that are not there. It imports nothing heavy, so that a misspelt name is answered at once."""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from depgen.annotation.parser_folders import find_parser
from depgen.cli.verbs import TRAINING_VERBS, VERBS
from depgen.errors import UserError, nearest, no_file
from depgen.hub import model_folder
from depgen.training.runs import BEST, RESUME, announced_run, find_run

_READERS = ("score", "evaluate-text", "draw")
"""Verbs whose first argument is a file."""
_SCORERS = ("score", "minimal-pairs", "syntactic-suites")
"""Verbs that take a pretrained model in place of a run."""
_CONFIG = ("--config", "-c")
_FILES = (
    *_CONFIG,
    "--prompts",
    "--references",
    "--bertscore_baseline",
    "--contexts",
    "--real",
    "--against",
    "--source",
)
"""Options that name a file to read, in every verb that has them."""
_NAMES = (
    *_FILES, "--run", "--resume", "--init_from", "--checkpoint", "--ckpt_path", "--parser", "--input",
    "--output", "--oracle", "--encoder",
)  # fmt: skip
"""Options that name a file, a run or a model."""
_OUTPUTS = ("--output", "--item_output", "--item-output")
"""Options that name a file to write."""
_SOURCES = ("config", "c", "resume", "init_from", "run", "ckpt_path", "parser", "model", "data", "print_config")
"""The options that give `fit` a system or need none; parts of `model` and `data` follow a dot."""


def options_in(arguments: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each argument up to its `=`, and the text after it: there, or else the next argument, which the last has not.

    >>> list(options_in(["--size=small", "--name", "mine"]))
    [('--size', 'small'), ('--name', 'mine'), ('mine', '')]
    """
    for argument, following in pairwise([*arguments, ""]):
        name, separator, value = argument.partition("=")
        yield name, value if separator else following


def check_named(verb: str, arguments: Sequence[str]) -> None:
    """Raises UserError unless the files, runs, parsers and corpora that a command line names exist.

    Args:
        verb: the verb.
        arguments: what follows the verb.

    Raises:
        UserError: one of them is missing, `fit` is given neither a YAML file nor a run, or a file is to be read and
            written, or written twice.
    """
    names = {each.partition("=")[0] for each in arguments}
    if names & {"-h", "--help"} or any(name.endswith(".help") for name in names):
        return
    parts = {name.lstrip("-").partition(".")[0] for name in names if name.startswith("-")}
    if verb == "fit" and not parts & set(_SOURCES):
        meant = [each for part in sorted(parts) if (each := nearest(part, _SOURCES))]
        question = f" Did you mean '--{meant[0]}'?" if meant else ""
        raise UserError(
            "fit needs a system: `depgen fit --config experiments/demo_transformer.yaml`, or your own YAML there, or "
            f"`depgen fit --resume RUN` to continue a run.{question}"
        )
    _refuse_empty(arguments)
    _refuse_overwritten(arguments)
    if arguments and not arguments[0].startswith("-"):
        if verb in _READERS:
            _check_file(arguments[0])
        elif verb not in VERBS or not VERBS[verb].positionals:
            return  # the parser of the command line says which option that needs
    run_options = {"--resume": RESUME, "--init_from": BEST} if verb == "fit" else {"--run": BEST, "--checkpoint": BEST}
    for name, value in _values(arguments):
        if name in _FILES or (name == "--input" and verb not in TRAINING_VERBS):
            _check_file(value)
        elif name == "--parser" and verb == "parse":
            find_parser(value, packages=True)
        elif name in run_options and announced_run() is None:
            _check_run(value, holding=run_options[name], or_pretrained=verb in _SCORERS)


def _refuse_empty(arguments: Sequence[str]) -> None:
    """Raises UserError for an option that is to name something and is given an empty text."""
    for name, value in options_in([*arguments, "-"]):  # the last option may do without a value
        if name in _NAMES and not value:
            raise UserError(f"{name}: expected a name, found an empty one. Is a variable of the shell not set?")


def _refuse_overwritten(arguments: Sequence[str]) -> None:
    """Raises UserError for an output that is also a file to read, or another output."""
    named = list(_values(arguments))
    outputs = [(name, Path(value)) for name, value in named if name in _OUTPUTS]
    files = [each for argument in arguments if os.path.isfile(each := argument.rpartition("=")[2])]
    for name, output in outputs:
        if sum(output == other for _, other in outputs) > 1:
            raise UserError(f"{name} {output}: expected another file for each output: name another.")
        if output.is_file() and sum(map(output.samefile, files)) > 1:
            raise UserError(f"{name} {output} would overwrite the file that is read: name another.")


def _values(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The options that have a value, with the first one; lists and settings in braces are no names."""
    for name, value in options_in(arguments):
        if value and value[0] not in "-[{" and value != "null":
            yield name, value


def _check_file(name: str) -> None:
    if not Path(name).exists():
        raise no_file(Path(name))


def _check_run(name: str, *, holding: str, or_pretrained: bool) -> None:
    if Path(name).is_file():
        return
    try:
        find_run(name, holding=holding)
    except UserError:
        if not or_pretrained or model_folder(name) is None:
            raise
