"""The one error class for what a user can mend, checks of values, and the name that was meant where one is misspelt."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

LARGEST_SEED = 2**32 - 1
"""NumPy's global generator takes none beyond it."""


class UserError(ValueError):
    """A mistake that the user can mend: says what was expected, what was found, where, and the remedy.

    The command line prints the message alone and exits with code 2; `--traceback` shows the rest.
    """


class MissingDataError(UserError):
    """A corpus that is not at hand."""


def check_at_least(least: int, **numbers: int | None) -> None:
    """Raises UserError unless each number is at least `least`; None is not checked.

    >>> check_at_least(1, steps=3, documents=None)

    Raises:
        UserError: one of them is smaller, and is named.
    """
    for name, number in numbers.items():
        if number is not None and number < least:
            raise UserError(f"{name}: expected at least {least}, found {number}.")


def check_one_of(**choices: tuple[object, Any]) -> None:
    """Raises UserError unless each value is one of its `Literal` type; None is not checked.

    >>> from typing import Literal
    >>> check_one_of(unit=("bits", Literal["nats", "bits"]), by=(None, Literal["word"]))

    Raises:
        UserError: one of them is another value, and is named.
    """
    for name, (value, literal) in choices.items():
        if value is not None and value not in get_args(literal):
            expected = ", ".join(map(str, get_args(literal)))
            raise UserError(f"{name}: expected one of {expected}, found {value}.")


def checked_seed(seed: int, name: str = "seed") -> int:
    """The seed, once it is certain that every generator takes it.

    Raises:
        UserError: it is negative or too large; `name` says which seed.
    """
    if not 0 <= seed <= LARGEST_SEED:
        raise UserError(f"{name}: expected a seed from 0 to {LARGEST_SEED}, found {seed}.")
    return seed


@contextmanager
def user_errors_unwrapped() -> Iterator[None]:
    """Raises the user's mistake itself where a library complains of it in its own words, as jsonargparse in a union.

    Raises:
        UserError: the one that the library's ValueError was raised from.
    """
    try:
        yield
    except ValueError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, UserError):
            cause = cause.__cause__ or cause.__context__
        if cause is None or cause is error:
            raise
        raise cause from None


def reason_of(error: Exception) -> str:
    """The reason in jsonargparse's complaint of a value that fits none of several types; else the first line."""
    reasons = [line.strip().removeprefix("- ") for line in str(error).splitlines() if line.startswith("  - ")]
    return next((each for each in reasons if "NoneType" not in each), str(error).partition("\n")[0])


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question for the nearest of the known names, after a blank; empty where none is near. Case does not count.

    >>> did_you_mean("tabel", ["table", "curves"])
    " Did you mean 'table'?"
    """
    found = nearest(name, known)
    return f" Did you mean {found!r}?" if found else ""


def no_file(path: Path) -> UserError:
    """The error for a missing file; it suggests the most similar name in the folder."""
    folder = path.absolute().parent
    if not folder.is_dir():
        return UserError(f"No file at {path.absolute()}: there is no folder {folder}. Check the path.")
    meant = did_you_mean(path.name, (each.name for each in folder.iterdir()))
    return UserError(f"No file at {path.absolute()}.{meant or ' Check the path.'}")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is spelt most like a name; None where none is near. Case does not count."""
    import difflib  # here, so that it does not slow `depgen --help` down

    spelt = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), spelt, n=1)
    return spelt[near[0]] if near else None
