"""Dataclasses from the plain content of a file: names and kinds of values are checked, and each slip is named."""

import dataclasses
import math
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from depgen import yaml_files
from depgen.errors import UserError, did_you_mean

_Part = TypeVar("_Part")
_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false", types.NoneType: "nothing"}


def read_yaml(path: Path) -> Mapping[Any, Any]:
    """The names and values of a file.

    Raises:
        UserError: it can't be read, is no YAML, or holds anything else.
    """
    return mapping(yaml_files.read_yaml(path), str(path))


def mapping(content: object, where: str) -> Mapping[Any, Any]:
    """Names and values; names may be numbers.

    Raises:
        UserError: it is anything else.
    """
    if not isinstance(content, Mapping):
        raise UserError(f"{where}: expected names and values, found {type(content).__name__}.")
    return content


def part(kind: type[_Part], content: object, where: str, *, remedy: str = "") -> _Part:
    """One dataclass from its mapping.

    Lists of plain values and numbers by name are looked through; parts of it that are dataclasses must be read before.

    Raises:
        UserError: a name is unknown or missing, or a value is of another kind; behind it stands the remedy.
    """
    given = mapping(content, where)
    fields = {
        item.name: item
        for item in dataclasses.fields(kind)  # type: ignore[arg-type]
        if item.metadata.get("in_file", True)
    }
    unknown = sorted(set(map(str, given)) - set(fields))
    if unknown:
        meant = did_you_mean(unknown[0], fields)
        raise UserError(f"{where}: unknown {', '.join(unknown)}.{meant} Known: {', '.join(fields)}.{remedy}")
    missing = [
        name
        for name, item in fields.items()
        if name not in given and item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise UserError(f"{where}: {', '.join(missing)} must be given.{remedy}")
    hints = get_type_hints(kind)
    return kind(**{name: _read(value, hints[name], f"{where}: {name}", remedy) for name, value in given.items()})


def parts(kind: type[_Part], content: object, where: str) -> tuple[_Part, ...]:
    """The dataclasses of a list.

    Raises:
        UserError: it is no list, an empty one, or one of its entries does not read.
    """
    if not isinstance(content, Sequence) or isinstance(content, str) or not content:
        raise UserError(f"{where}: expected a list with at least one entry.")
    return tuple(part(kind, item, f"{where}[{number}]{_called(item)}") for number, item in enumerate(content))


def _called(item: object) -> str:
    """What an entry calls itself, for messages."""
    own = item.get("key") or item.get("name") if isinstance(item, Mapping) else None
    return f" ({own})" if own else ""


def entries(content: object, kind: type[_Part], where: str) -> tuple[_Part, ...]:
    """The entries of a list, each of one kind.

    Raises:
        UserError: it is no list, or an entry is of another kind.
    """
    if not isinstance(content, Sequence) or isinstance(content, str):
        raise UserError(f"{where}: expected a list, found {content!r}. Put it into brackets: [{content}].")
    for item in content:
        if not isinstance(item, kind) or isinstance(item, bool):
            raise UserError(f"{where}: expected a list of {kind.__name__}, found {item!r} in it.")
    return tuple(content)


def numbers(content: object, where: str, *, remedy: str = "") -> dict[str, float]:
    """Values that are finite numbers, by name.

    Raises:
        UserError: one is not.
    """
    given = mapping(content, where)
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise UserError(f"{where}: expected a number for {name}, found {value!r}.{remedy}")
    return {name: float(value) for name, value in given.items()}


def _read(value: object, hint: Any, where: str, remedy: str) -> Any:  # noqa: ANN401 - any annotation and its values
    """The value of a field, if it is of the annotated kind."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Sequence, tuple) and inner[0] in _NAMES:
        return entries(value, inner[0], where)
    if origin is Mapping and inner == (str, float):
        return numbers(value, where, remedy=remedy)
    if not _fits(value, hint):
        raise UserError(f"{where}: expected {_in_words(hint)}, found {value!r:.80}.{remedy}")
    kinds = {hint, *inner}
    return float(value) if type(value) is int and float in kinds and int not in kinds else value


def _fits(value: object, hint: Any) -> bool:  # noqa: ANN401 - any annotation
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(_fits(each, get_args(hint)[1]) for each in value.values())
    if origin is not None and issubclass(origin, Sequence):
        return isinstance(value, Sequence) and not isinstance(value, str)
    if hint in (int, float):
        return isinstance(value, int | float if hint is float else int) and not isinstance(value, bool)
    return not isinstance(hint, type) or hint not in _NAMES or isinstance(value, hint)


def _in_words(hint: Any) -> str:  # noqa: ANN401 - any annotation
    """An annotation for people.

    >>> _in_words(float | None), _in_words(Mapping[str, int])
    ('a number or nothing', 'names, each with a whole number')
    """
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_in_words(each) for each in get_args(hint))
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    origin = get_origin(hint)
    if origin is not None:
        if not issubclass(origin, Mapping):
            return "a list"
        inner = get_args(hint)[1]
        return f"names, each with {_in_words(inner)}" if inner in _NAMES else "names and values"
    return _NAMES.get(hint, getattr(hint, "__name__", str(hint)))
