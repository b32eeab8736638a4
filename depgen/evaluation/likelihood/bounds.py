"""The beam of systems whose scores of texts are bounds: sums over the structures that it holds."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from depgen.errors import UserError, check_at_least
from depgen.language_models.base import LanguageModel


@contextmanager
def beam_of(model: nn.Module, size: int | None) -> Iterator[int | None]:
    """Gives a system a beam of this size, and its own back afterwards; yields the size that counts.

    Args:
        model: the system.
        size: None: its own.

    Raises:
        UserError: the system's scores are no bounds.
    """
    check_at_least(1, beam_size=size)
    system: Any = model
    own = getattr(system, "beam_size", None)
    likelihood = model.likelihood if isinstance(model, LanguageModel) else "no likelihoods"
    if likelihood != "bound" or own is None:
        if size is not None:
            raise UserError(
                f"beam_size is of systems whose scores are bounds by a beam, and those of {type(model).__name__} are "
                f"{likelihood}: leave it out."
            )
        yield None
        return
    system.beam_size = own if size is None else size
    try:
        yield system.beam_size
    finally:
        system.beam_size = own


def as_words(size: int | None) -> str:
    """What a log line says of a beam: nothing without one.

    >>> as_words(20)
    ' (beam 20)'
    """
    return "" if size is None else f" (beam {size})"
