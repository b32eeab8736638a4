"""Objects from the plain content of a file, checked by pydantic."""

from collections.abc import Hashable
from functools import cache
from types import GenericAlias
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import to_json

from depgen.errors import UserError

_Kind = TypeVar("_Kind")
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def read_as(kind: type[_Kind], content: object, where: str) -> _Kind:
    """The dataclass or pydantic model with that content; UserError where a name or a value is none of its own."""
    try:
        # As JSON, in which strict types take a list for a tuple and a whole number for a number.
        (read,) = _adapter(kind).validate_json(  # type: ignore[arg-type]  # a class is hashable
            to_json([content], inf_nan_mode="constants")
        )
    except ValidationError as error:
        slips = [f"{'.'.join(map(str, slip['loc'][1:]))}: {slip['msg']}" for slip in error.errors()]
        raise UserError(f"{where}: {'; '.join(slips)}.") from None
    assert isinstance(read, kind)
    return read


@cache
def _adapter(kind: Hashable) -> TypeAdapter[tuple[Any]]:
    """Reads a list of one: pydantic takes a configuration for everything but a dataclass itself."""
    alone: Any = GenericAlias(tuple, (kind,))
    return TypeAdapter(alone, config=_STRICT)
