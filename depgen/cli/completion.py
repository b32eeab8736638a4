"""The verb `completion`: a script by which a shell completes verbs, options, their choices and file names."""

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Literal, get_args, get_origin

from depgen.cli.requests import Request
from depgen.cli.run_cli import RunCLI
from depgen.cli.verb_functions import parser_of
from depgen.cli.verbs import TRAINING_VERBS, VERBS
from depgen.errors import UserError
from depgen.models import import_all

Shell = Literal["bash", "zsh", "tcsh"]


def completion(shell: Shell = "bash") -> str:
    """A script for a shell that completes `depgen`; it takes some seconds, so write it into a file once.

    Args:
        shell: bash, zsh or tcsh.

    Raises:
        UserError: shtab is not installed.
    """
    try:
        import shtab
    except ImportError as error:
        raise UserError(f"Completion needs shtab ({error}). Install it: pip install 'depgen[completion]'.") from error
    return str(shtab.complete(command_line(), shell))


def command_line() -> argparse.ArgumentParser:
    """All verbs with their options, as plain argparse: enough to complete, not to parse."""
    parser = argparse.ArgumentParser("depgen")
    parser.add_argument("--version", action="store_true", help="print the version")
    verbs = parser.add_subparsers()
    groups: dict[str, Any] = {}
    for name, help, own in _parsers():
        first, _, second = name.partition(" ")
        if second and first not in groups:
            groups[first] = verbs.add_parser(first, help=help).add_subparsers()  # without help it is not completed
        described = (groups[first] if second else verbs).add_parser(second or first, help=help, add_help=False)
        for action in own._actions:
            _add(described, action, hidden=getattr(own, "hidden", frozenset()))
    return parser


def _parsers() -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """The name, the line of help and the parser of each verb."""
    for name, help in TRAINING_VERBS.items():
        yield name, help, _training_parser(name)
    for name, verb in VERBS.items():
        yield name, verb.help, parser_of(name, verb)


class _BuiltError(Exception):
    """Carries a parser out of Lightning's constructor, which has no way to build one alone."""


class _ParserOnly(RunCLI):
    """Builds the parser of a training verb and nothing else."""

    def parse_arguments(self, parser: Any, args: Any) -> None:  # noqa: ANN401
        raise _BuiltError


def _training_parser(verb: str) -> argparse.ArgumentParser:
    import_all()
    command = _ParserOnly.__new__(_ParserOnly)
    try:
        command.__init__(Request(verb), [], source=None, checkpoint=None, locks=ExitStack())  # type: ignore[misc]
    except _BuiltError:
        return command.parser
    raise AssertionError("Lightning parses what it is given")


def _add(parser: argparse.ArgumentParser, action: argparse.Action, *, hidden: frozenset[str]) -> None:
    """Add an action as plain argparse: its names, its line of help, its choices or else file names."""
    import shtab

    if action.dest.removesuffix(".help") in hidden or action.help is argparse.SUPPRESS:
        return
    names = [name for name in action.option_strings if not name.endswith("+")]
    help = str(action.help or "").partition("\n")[0].replace("%", "%%")
    if names and action.nargs == 0:
        parser.add_argument(*names, action="store_true", help=help)
        return
    choices = _choices(getattr(action, "_typehint", None))
    several = {"nargs": action.nargs} if action.nargs in ("?", "*", "+") else {}
    added = parser.add_argument(*(names or [action.dest]), help=help, choices=choices, **several)  # type: ignore[arg-type]
    if choices is None:
        added.complete = shtab.FILE  # type: ignore[attr-defined]


def _choices(kind: Any) -> list[str] | None:  # noqa: ANN401
    """The values of a `Literal`, alone or in a union; None for other types."""
    for each in (kind, *get_args(kind)):
        if get_origin(each) is Literal:
            return list(map(str, get_args(each)))
    return None
