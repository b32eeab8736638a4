"""Objects from the plain content of a file; messages name the file, the entry and the key.

Dataclasses of plain values are checked by pydantic, in microseconds; objects with parts that are named by class
path are made by jsonargparse, as in experiments.
"""

import re
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from types import GenericAlias
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import to_json

from depgen.errors import UserError, did_you_mean, user_errors_unwrapped

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_Kind = TypeVar("_Kind")
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
_UNKNOWN, _MISSING = "unexpected_keyword_argument", "missing"
_EXPECTED = {
    "bool_type": "true or false", "dataclass_type": "names and values", "dict_type": "names and values",
    "float_type": "a number", "int_type": "a whole number", "list_type": "a list", "string_type": "text",
    "tuple_type": "a list",
}  # fmt: skip
"""Pydantic's kinds of errors, and what it expected, in plain words; of others its own message is shown."""


def read_as(kind: type[_Kind], content: object, where: str, *, remedy: str = "") -> _Kind:
    """The dataclass with that content, dataclasses in it included; a whole number serves where a number is expected.

    Raises:
        UserError: a name is unknown or missing, or a value is of another kind; the message ends with the remedy.
    """
    try:
        # As JSON, in which strict types take a list for a tuple.
        (found,) = _adapter(kind).validate_json(  # type: ignore[arg-type]  # a class is hashable
            to_json([content], inf_nan_mode="constants")
        )
    except ValidationError as error:
        slips = sorted(error.errors(), key=lambda slip: slip["type"] != _UNKNOWN)
        said = dict.fromkeys(_slip(kind, content, slip) for slip in slips)
        raise UserError(f"{where}: {'; '.join(said)}.{remedy}") from None
    assert isinstance(found, kind)
    return found


@cache
def _adapter(kind: Hashable) -> TypeAdapter[tuple[Any]]:
    """Reads a list of one: pydantic takes a configuration for everything but a dataclass itself."""
    alone: Any = GenericAlias(tuple, (kind,))
    return TypeAdapter(alone, config=_STRICT)


def made_as(kind: Any, content: object) -> Any:  # noqa: ANN401 - any annotation and its value
    """The object with that content, classes named by their paths included.

    Raises:
        UserError: the content is none of such an object, or a class refuses its arguments.
    """
    from jsonargparse import ArgumentError, ArgumentParser

    parser = ArgumentParser(exit_on_error=False)
    if isinstance(kind, type):
        parser.add_class_arguments(kind, "made")
    else:
        parser.add_argument("--made", type=kind)
    try:
        with user_errors_unwrapped():
            return parser.instantiate(parser.parse_object({"made": content})).made
    except ArgumentError as error:
        raise UserError(re.sub(r'^Parser key "made":\s*', "", str(error))) from error


def _slip(kind: Any, content: object, slip: "ErrorDetails") -> str:  # noqa: ANN401 - any annotation
    """One complaint of pydantic's in our words."""
    place = slip["loc"][1:]
    if slip["type"] in (_UNKNOWN, _MISSING):
        around, name = _place(content, place[:-1]), str(place[-1]) if place else "a value"
        if slip["type"] == _MISSING:
            return f"{around}{name} must be given"
        known = [each for each in get_type_hints(_kind_at(kind, place[:-1])) if not each.startswith("_")]
        return f"{around}unknown {name}.{did_you_mean(name, known)} Known: {', '.join(known)}"
    if "error" in slip.get("ctx", {}):
        return f"{_place(content, place)}{str(slip['ctx']['error']).rstrip('.')}"
    expected = _EXPECTED.get(slip["type"], slip["msg"].removeprefix("Input should be "))
    return f"{_place(content, place)}expected {expected}, found {slip['input']!r:.80}"


def _place(content: Any, place: Sequence[str | int]) -> str:  # noqa: ANN401 - any content
    """Where a value lies: `rows[2] (DM-Base): values: `. Names that the content lacks are pydantic's, of a union."""
    words: list[str] = []
    for step in place:
        if isinstance(step, int):
            content = content[step]
            called = content.get("key") or content.get("name") if isinstance(content, Mapping) else None
            words[-1:] = [f"{''.join(words[-1:])}[{step}]" + (f" ({called})" if called else "")]
        elif isinstance(content, Mapping) and step in content:
            content = content[step]
            words.append(step)
    return "".join(f"{word}: " for word in words)


def _kind_at(kind: Any, place: Sequence[str | int]) -> Any:  # noqa: ANN401 - any annotation
    """The dataclass at a place below one."""
    for step in place:
        if isinstance(step, str):
            kind = get_type_hints(kind)[step]
        while get_args(kind):
            kind = get_args(kind)[0]
    return kind
