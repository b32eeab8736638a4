"""Options of a verb that the system of the run at hand brings, by a dataclass of it."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

from depgen.cli.slips import options_in
from depgen.errors import UserError, did_you_mean
from depgen.yaml_files import read_yaml

_RUN = ("--run", "--checkpoint")
_CONFIG = ("--config", "-c")
OfRun = Callable[[str | None], tuple[str, type] | None]


def add_options_of_run(parser: Any, verb: str, arguments: Sequence[str], of_run: OfRun) -> tuple[str, ...]:  # noqa: ANN401
    """Add the options of the run that a command line names, or of the newest; their names.

    A help without a run shows where those of a run are to be had.

    Raises:
        UserError: there is no such run, or an option is neither general nor of its system.
    """
    run, helps = _named_run(arguments), bool({"-h", "--help"} & {*arguments})
    if helps and run is None:
        parser.epilog = f"A run's system has options too: `depgen {verb} --help --run RUN` lists them."
        return ()
    try:
        found = of_run(run)
    except UserError:
        if run is not None or _unknown(parser, arguments):
            raise
        return ()  # without any run; a mistake in the other options is named first
    if found is None:
        return ()
    system, kind = found
    _add_fields(parser.add_argument_group(f"options of {system}"), kind)
    if not helps:
        _refuse_others(parser, verb, arguments, system)
    return tuple(field.name for field in fields(kind))


def _add_fields(group: Any, kind: type) -> None:  # noqa: ANN401
    import docstring_parser

    described = {each.arg_name: each.description for each in docstring_parser.parse(inspect.getdoc(kind) or "").params}
    for base in kind.__mro__[1:]:  # a field of a base is described there
        for each in docstring_parser.parse(base.__doc__ or "").params:
            described.setdefault(each.arg_name, each.description)
    types = get_type_hints(kind)
    for field in fields(kind):
        if types[field.name] is bool and field.default is False:
            group.add_argument(f"--{field.name}", action="store_true", help=described.get(field.name))
        else:
            group.add_argument(
                f"--{field.name}", type=types[field.name], default=field.default, help=described.get(field.name)
            )


def _refuse_others(parser: Any, verb: str, arguments: Sequence[str], system: str) -> None:  # noqa: ANN401
    """Refuse an option that the verb has not with this system."""
    for name in _unknown(parser, arguments):
        meant = did_you_mean(name, [each for each in parser._option_string_actions if each.startswith("--")])
        raise UserError(
            f"`depgen {verb}` with this run, a {system}, has no option {name}.{meant} "
            f"`depgen {verb} --help --run RUN` lists those that it has."
        )


def _unknown(parser: Any, arguments: Sequence[str]) -> list[str]:  # noqa: ANN401
    """The options that the parser has not."""
    names = [each.partition("=")[0] for each in arguments if each.startswith("--")]
    known = parser._option_string_actions
    return [name for name in names if name not in known and name.partition(".")[0] not in known]


def _named_run(arguments: Sequence[str]) -> str | None:
    """The run that a command line, or a YAML file on it, names; the last one counts."""
    run = None
    for name, value in options_in(arguments):
        if name in _RUN:
            run = value
        elif name in _CONFIG and Path(value).is_file():
            run = _run_of_yaml(Path(value)) or run
    return run


def _run_of_yaml(path: Path) -> str | None:
    try:
        settings = read_yaml(path)
    except UserError:
        return None  # who parses it says why
    return settings.get("run") if isinstance(settings, dict) else None
