"""Checks of types and shapes at each call of a function, as jaxtyping's import hook has them, at half the cost.

jaxtyping's own decorator binds the arguments of each call to the signature and checks them twice, before the call and
with what it returns. Here beartype checks each once, within one memory of the sizes of axes.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import jaxtyping
from beartype import beartype
from jaxtyping._storage import pop_shape_memo, push_shape_memo

jaxtyped = jaxtyping.jaxtyped
_checking = True


@contextmanager
def unchecked() -> Iterator[None]:
    """Let functions take what they are given, as they do for users."""
    global _checking
    _checking = False
    try:
        yield
    finally:
        _checking = True


def shapes_checked(*, typechecker: Any) -> Callable[[Any], Any]:
    """A decorator of functions and classes in the place of `jaxtyping.jaxtyped`, which the import hook names."""

    def decorate(decorated: Any) -> Any:
        if not inspect.isclass(decorated):
            return checked(decorated, typechecker)
        if dataclasses.is_dataclass(decorated) and "__init__" in vars(decorated):
            decorated.__init__ = checked(decorated.__init__, typechecker)
        return decorated

    return decorate


def checked(function: Any, typechecker: Any) -> Any:
    """A function whose arguments and result are checked; one within a function, made anew at each call, is not."""
    if "<locals>" in function.__qualname__:
        return function
    annotations = " ".join(map(str, function.__annotations__.values()))
    has_shapes = "jaxtyping." in annotations
    if "{" in annotations or inspect.isgeneratorfunction(function):  # an argument's value, values that come later
        has_shapes, typed = False, jaxtyped(function, typechecker=typechecker)
    else:
        typed = beartype(function)

    @wraps(function)
    def within(*args: Any, **kwargs: Any) -> Any:
        if not _checking:
            return function(*args, **kwargs)
        if not has_shapes:
            return typed(*args, **kwargs)
        push_shape_memo({})
        try:
            return typed(*args, **kwargs)
        finally:
            pop_shape_memo()

    return within
