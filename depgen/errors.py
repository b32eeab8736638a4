"""The one error class for what a user can mend."""


class UserError(ValueError):
    """A mistake that the user can mend: says what was expected, what was found, where, and the remedy.

    The command line prints the message alone and exits with code 2; `--traceback` shows the rest.
    """


class MissingDataError(UserError):
    """A corpus that is not at hand."""
