"""The one error class for what a user can mend, and the name that was meant where one is misspelt."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """A mistake that the user can mend: says what was expected, what was found, where, and the remedy.

    The command line prints the message alone and exits with code 2; `--traceback` shows the rest.
    """


class MissingDataError(UserError):
    """A corpus that is not at hand."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question for the nearest of the known names, behind a blank; empty where none is near. Case does not count.

    >>> did_you_mean("tabel", ["table", "curves"])
    " Did you mean 'table'?"
    """
    spelt = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), spelt, n=1)
    return f" Did you mean {spelt[near[0]]!r}?" if near else ""
