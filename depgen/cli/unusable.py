"""Settings that nothing can be built from, or that training would stumble over, in one line."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from depgen.errors import UserError, check_at_least, reason_of, user_errors_unwrapped
from depgen.training.configurations import flatten


def check_course(trainer: Mapping[str, Any]) -> None:
    """Raises UserError for numbers of the trainer's that Lightning accepts and divides by, or clips with.

    Args:
        trainer: its settings.

    Raises:
        UserError: a number is too small; names it.
    """
    check_at_least(1, **{"trainer.accumulate_grad_batches": trainer.get("accumulate_grad_batches")})
    interval, clip = trainer.get("val_check_interval"), trainer.get("gradient_clip_val")
    if isinstance(interval, (int, float)) and interval <= 0:
        raise UserError(
            f"trainer.val_check_interval: expected steps between validations, or a part of an epoch, found {interval}."
        )
    if clip is not None and clip < 0:
        raise UserError(f"trainer.gradient_clip_val: expected a norm, at least 0, found {clip}.")


def check_sizes(model: object) -> None:
    """Raises UserError for a size below 1 or a dropout that is no probability, which arguments' names tell.

    Args:
        model: the settings of the system.

    Raises:
        UserError: there is one; names it.
    """
    for name, value in flatten({"model": model}).items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if name.endswith("dropout") and not 0 <= value <= 1:
            raise UserError(f"{name}: expected a probability between 0 and 1, found {value}.")
        if name.endswith(("size", "width", "attention_heads", "feedforward")) and isinstance(value, int):
            check_at_least(1, **{name: value})


@contextmanager
def usable(settings: Mapping[str, Any]) -> Iterator[None]:
    """Within it system, data and trainer are built from the settings of a verb.

    Raises:
        UserError: one of the settings makes no sense, or something can't be built from them.
    """
    check_course(settings["trainer"])
    check_sizes(settings.get("model"))
    try:
        with user_errors_unwrapped():
            yield
    except (ValueError, ZeroDivisionError) as error:
        if isinstance(error, UserError):
            raise
        if isinstance(error.__cause__, (TypeError, AttributeError, LookupError, AssertionError)):
            raise error.__cause__ from None  # a fault of ours in a link of the parser, which hides its kind
        raise UserError(f"The system or its data can't be built from these settings: {reason_of(error)}.") from error
