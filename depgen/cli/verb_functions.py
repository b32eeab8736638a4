"""Verbs that are functions: their options by the function's signature, and the call."""

import argparse
import importlib
import inspect
import os
from collections import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, get_args, get_origin

import docstring_parser
from jsonargparse import ArgumentParser, Namespace

from depgen.cli.verbs import Verb, as_sentence
from depgen.errors import UserError, user_errors_unwrapped


class Parser(ArgumentParser):
    """Raises `UserError` where argparse would print the usage and leave; options are given by their full names."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise; parsers that jsonargparse uses within a parse keep its own way."""
        if not self.exit_on_error:
            super().error(message, ex)
        raise UserError(f"{message}\n`{self.prog} --help` lists the options.") from ex


def run_function(name: str, verb: Verb, arguments: Sequence[str]) -> str | Iterator[str] | None:
    """Parse a verb's arguments by its function's signature, call it, and return what it prints.

    Raises:
        UserError: arguments that do not parse, or raised by the function.
        SystemExit: help (code 0).
    """
    function = _imported(verb.target)
    kinds = _imported(verb.options)(arguments) if verb.options else []
    parser = parser_of(name, verb, kinds)
    config = parser.parse_args(list(arguments))
    with user_errors_unwrapped():
        values = vars(parser.instantiate_classes(config))
    _check_files(values)
    result = function(**{name: values[name] for name in _parameters(function, *kinds)})
    return result if result is None or isinstance(result, abc.Iterator) else str(result)


def options_of_generation(arguments: Sequence[str]) -> list[type]:
    """The dataclass of the options of the named run's system, or of the newest run's; none without any run.

    Raises:
        UserError: there is no such run.
    """
    from depgen.evaluation.trained import system_class

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--run")
    run = parser.parse_known_args(list(arguments))[0].run
    try:
        system = system_class(run)
    except UserError:
        if run is not None:
            raise
        return []
    return [] if system is None or system.generation_options is None else [system.generation_options]


def _check_files(values: Mapping[str, Any]) -> None:
    """Raises UserError for an output that is also a file to read or another output, and for a run without a name."""
    if values.get("run") == "":
        raise UserError("--run: expected a name, found an empty one. Is a variable of the shell not set?")
    outputs = {name: Path(values[name]) for name in ("output", "item_output") if values.get(name)}
    if len({path.absolute() for path in outputs.values()}) < len(outputs):
        raise UserError("--item_output: expected another file than that of --output.")
    others = [value for name, value in values.items() if name not in outputs]
    texts = [text for value in others for text in (value if isinstance(value, list) else [value])]
    read = [text for text in texts if isinstance(text, str | Path) and os.path.isfile(text)]
    for name, path in outputs.items():
        if path.is_file() and any(map(path.samefile, read)):
            raise UserError(f"--{name} {path} would overwrite the file that is read: name another.")


def parser_of(name: str, verb: Verb, kinds: Sequence[type] = ()) -> Parser:
    """The parser of a verb, by the signature and the docstring of its function.

    Args:
        name: of the verb.
        verb: which.
        kinds: dataclasses whose fields are options too; those of one name are one option.
    """
    function = _imported(verb.target)
    parameters = _parameters(function, *kinds)
    assert not parameters.keys() & set(dir(Namespace)), "jsonargparse keeps such names under others"
    parser = Parser(prog=f"depgen {name}", description=as_sentence(verb.help))
    if "config" not in parameters:
        parser.add_argument("-c", "--config", action="config", help="a YAML file with values for the options")
    described = {
        each.arg_name: each.description
        for source in (function, *(base for kind in kinds for base in kind.__mro__[-2::-1]))
        for each in docstring_parser.parse(inspect.getdoc(source) or "").params
    }
    own: set[str | int] = set()
    for name, parameter in parameters.items():
        if (settings := _by_hand(parameter, positional=name in verb.positionals)) is not None:
            names = [name] if name in verb.positionals else [f"--{name}"]
            parser.add_argument(*names, help=described.get(name), **settings)
            own.add(name)
    left_out = inspect.signature(function).parameters.keys() - parameters.keys()
    left_out |= _parameters(*kinds).keys() - _parameters(function).keys()  # jsonargparse may follow `**options` to them
    parser.add_function_arguments(function, as_group=False, skip=own | left_out, sub_configs=True)
    own |= _parameters(function).keys()
    for kind in kinds:
        parser.add_class_arguments(kind, as_group=False, skip=own, sub_configs=True)
        own |= _parameters(kind).keys()
    return parser


def _by_hand(parameter: inspect.Parameter, *, positional: bool) -> dict[str, Any] | None:
    """How an option is added that jsonargparse would read in another way; None for all others.

    These are bare flags, sequences of values that are separated by spaces, and what is given by position.
    """
    required, kind = parameter.default is parameter.empty, parameter.annotation
    if kind is bool and parameter.default is False:
        return {"action": "store_true"}
    default = {} if required else {"default": parameter.default}
    for each in (kind, *get_args(kind)):  # a union's
        if get_origin(each) in (list, abc.Sequence):
            several = "*" if positional and not required else "+"
            if isinstance(parameter.default, tuple):
                default = {"default": list(parameter.default)}
            given = {} if positional or not required else {"required": True}
            return {"type": get_args(each)[0], "nargs": several, **default, **given}
    if positional:
        return {"type": kind, **({} if required else {"nargs": "?"}), **default}
    return None


def _parameters(*sources: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """What options are made from: the parameters of functions and dataclasses."""
    return {
        name: parameter
        for source in sources
        for name, parameter in inspect.signature(source).parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    }


def _imported(path: str) -> Callable[..., Any]:
    module, _, function = path.partition(":")
    return getattr(importlib.import_module(module), function)  # type: ignore[no-any-return]
