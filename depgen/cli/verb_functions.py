"""Verbs that are functions: their options by the function's signature, and the call."""

import importlib
import inspect
from collections import abc
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import fields
from typing import Any, get_args, get_origin

from depgen.cli.system_options import add_options_of_run
from depgen.cli.verbs import Verb, as_sentence
from depgen.errors import UserError, user_errors_unwrapped


def run_function(name: str, verb: Verb, arguments: Sequence[str]) -> str | Iterator[str] | None:
    """Parse a verb's arguments by its function's signature, call it, and return what it prints.

    Raises:
        UserError: raised by the function.
        SystemExit: arguments that do not parse (code 2), or help (code 0).
    """
    function = _target(verb.target)
    kinds = _target(verb.of_arguments)(arguments) if verb.of_arguments else []
    parser = parser_of(name, verb, kinds)
    spelt = _apart([_underscored(each) for each in arguments], _lists(verb, kinds))
    more = add_options_of_run(parser, name, spelt, _target(verb.of_run)) if verb.of_run else ()
    _check_that_none_is_repeated(spelt, parser, verb, kinds)
    config = parser.parse_args(spelt)
    with user_errors_unwrapped():
        ready = parser.instantiate_classes(config)
    own = (*inspect.signature(function).parameters, *more, *(field.name for kind in kinds for field in fields(kind)))
    given = {key: value for key, value in vars(ready).items() if key in own}
    for name, kind in _spread(verb).items():
        given[name] = kind(**{key: getattr(ready, key) for key in inspect.signature(kind).parameters})
    result = function(**given)
    return result if result is None or isinstance(result, abc.Iterator) else str(result)


def _spread(verb: Verb) -> dict[str, type]:
    """The parameters whose fields are options, and their dataclasses."""
    parameters = inspect.signature(_target(verb.target)).parameters
    return {name: parameters[name].annotation for name in verb.spread}


def _parameters(verb: Verb, kinds: Sequence[type] = ()) -> dict[str, inspect.Parameter]:
    """What options are made from: the function's parameters, the fields of those that are spread, and of `kinds`."""
    parameters = dict(inspect.signature(_target(verb.target)).parameters)
    for name, kind in _spread(verb).items():
        del parameters[name]
        parameters |= inspect.signature(kind).parameters
    for kind in kinds:
        parameters |= inspect.signature(kind).parameters
    return {name: each for name, each in parameters.items() if each.kind is not each.VAR_KEYWORD}


def _underscored(argument: str) -> str:
    """An option's name with underscores, as `--top-p` is read like `--top_p`; values stay as they are."""
    if not argument.startswith("--"):
        return argument
    name, separator, value = argument.partition("=")
    return f"--{name[2:].replace('-', '_')}{separator}{value}"


def _lists(verb: Verb, kinds: Sequence[type] = ()) -> dict[str, Any]:
    """The parameters that are sequences, and of what."""
    found = {}
    for name, parameter in _parameters(verb, kinds).items():
        for kind in (parameter.annotation, *get_args(parameter.annotation)):  # a union's
            if get_origin(kind) in (list, abc.Sequence):
                found[name] = get_args(kind)[0]
    return found


def _apart(arguments: Sequence[str], lists: Collection[str]) -> list[str]:
    """Arguments in which options of several values, written as a list in YAML (`--splits [a, b]`), have these apart."""
    found, option = list[str](), ""
    for argument in arguments:
        name, separator, value = argument.partition("=") if argument.startswith("--") else (option, "", argument)
        option = name
        if name.removeprefix("--") in lists and value.startswith("[") and value.endswith("]"):
            found += [name] if separator else []
            found += filter(None, map(str.strip, value[1:-1].split(",")))
        else:
            found.append(argument)
    return found


def _check_that_none_is_repeated(
    arguments: Sequence[str],
    parser: Any,  # noqa: ANN401
    verb: Verb,
    kinds: Sequence[type],
) -> None:
    """Raises UserError if an option is given twice, of which argparse would take the last; except --config."""
    seen, lists = dict[str, str](), _lists(verb, kinds)
    names = {option: action.dest for option, action in parser._option_string_actions.items()}
    if "config" not in _parameters(verb, kinds):
        names = {option: name for option, name in names.items() if name != "config"}
    for argument in arguments:
        option = argument.partition("=")[0]
        name = names.get(option)
        if name is None or name == "help":
            continue
        if name in seen:
            first = seen[name] if seen[name] == option else f"{seen[name]} and {option}"
            remedy = f"put all values after one {option}" if name in lists else "leave out all but one"
            raise UserError(f"{first}: expected once, found several times: {remedy}.")
        seen[name] = option


def _target(path: str) -> Callable[..., Any]:
    module, _, function = path.partition(":")
    target = getattr(importlib.import_module(module), function)
    assert callable(target)
    return target  # type: ignore[no-any-return]


def parser_of(name: str, verb: Verb, kinds: Sequence[type] = ()) -> Any:  # noqa: ANN401  (jsonargparse is imported late)
    """The parser of a verb, by the signature and the docstring of its function."""
    import docstring_parser
    from jsonargparse import Namespace
    from jsonargparse.typing import PositiveInt

    from depgen.cli.parsers import ShortComplaints

    function = _target(verb.target)
    parser = ShortComplaints(prog=f"depgen {name}", description=as_sentence(verb.help))
    parameters, spread = _parameters(verb, kinds), [*_spread(verb).values(), *kinds]
    assert not parameters.keys() & set(dir(Namespace)), "jsonargparse keeps such names under others"
    if "config" not in parameters:
        parser.add_argument("-c", "--config", action="config", help="a YAML file with values for the options")
    described = {
        each.arg_name: each.description
        for source in (function, *(base for kind in spread for base in kind.__mro__[-2::-1]))
        for each in docstring_parser.parse(inspect.getdoc(source) or "").params
    }
    types = {each: parameter.annotation for each, parameter in parameters.items()}
    lists = _lists(verb, kinds)
    flags = [each for each, parameter in parameters.items() if types[each] is bool and parameter.default is False]
    types |= lists
    types |= {each: PositiveInt if types[each] is int else PositiveInt | None for each in verb.counts}
    for positional in verb.positionals:
        parameter = parameters[positional]
        optional = parameter.default is not inspect.Parameter.empty
        extra = {"nargs": "?", "default": parameter.default} if optional else {}
        if positional in lists:
            extra["nargs"] = "*" if optional else "+"
        parser.add_argument(positional, type=types[positional], help=described.get(positional), **extra)
    for name in sorted({*lists} - {*verb.positionals}):
        default = parameters[name].default
        if default is inspect.Parameter.empty:
            extra = {"required": True}
        else:
            extra = {"default": default if default is None else list(default)}
        parser.add_argument(f"--{name}", nargs="+", type=types[name], help=described.get(name), **extra)
    for flag in flags:
        parser.add_argument(f"--{flag}", action="store_true", help=described.get(flag))
    for name in dict.fromkeys((*verb.also, *verb.counts)):
        names, other = [f"--{name}"], verb.also.get(name)
        if other is not None:
            names = [f"-{other}", *names] if len(other) == 1 else [*names, f"--{other}"]
        parser.add_argument(*names, type=types[name], default=parameters[name].default, help=described[name])
    own: set[str | int] = {*verb.positionals, *lists, *flags, *verb.counts, *verb.also}
    others = inspect.signature(function).parameters.keys() - parameters.keys()
    parser.add_function_arguments(function, as_group=False, skip=own | others, sub_configs=True)
    own |= inspect.signature(function).parameters.keys()  # of one name, the function's
    for kind in spread:
        parser.add_class_arguments(kind, as_group=False, skip=own, sub_configs=True)
        own |= inspect.signature(kind).parameters.keys()  # two measures share an option of one name
    return parser
