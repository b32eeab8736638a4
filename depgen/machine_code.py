"""Functions on arrays, compiled by numba. Slow to import: modules that a command line needs at once import it late."""

import inspect
from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """The function as machine code, kept on disk where that can be written to.

    It runs without Python's lock, so that threads can share a batch out: numba's own threads survive no fork, and no
    call from two threads at once.
    """
    bare = inspect.unwrap(function)  # numba can't read a checker of shapes around it
    try:
        return cast(F, numba.njit(bare, cache=True, nogil=True))
    except RuntimeError:  # neither the source's folder nor the user's cache can be written to
        return cast(F, numba.njit(bare, nogil=True))
