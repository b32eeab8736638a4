"""The parser of every verb: jsonargparse's, whose complaints end as messages of our own do."""

from typing import Any, NoReturn

from jsonargparse import ArgumentParser

from depgen.errors import UserError


class Parser(ArgumentParser):
    """Raises `UserError` where argparse would print the usage and leave; options are given by their full names."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Complain; parsers that jsonargparse uses within a parse keep its own way.

        Raises:
            UserError: always, in a parser that speaks to the user.
        """
        if not self.exit_on_error:
            super().error(message, ex)
        raise UserError(f"{message}\n`{self.prog} --help` lists the options.") from ex
