"""Functions on arrays, compiled by numba. Slow to import: modules that a command line needs at once import it late."""

import inspect
from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """The function as machine code, kept on disk where that can be written to."""
    bare = inspect.unwrap(function)  # numba can't read a checker of shapes around it
    try:
        return cast(F, numba.njit(bare, cache=True))
    except RuntimeError:  # neither the source's folder nor the user's cache can be written to
        return cast(F, numba.njit(bare))
