"""Parsers whose complaints are short: the mistake and where help is, without the whole usage."""

import os
import re
from pathlib import Path
from typing import Any, NoReturn

from jsonargparse import ArgumentParser

from depgen.errors import UserError, did_you_mean
from depgen.yaml_files import read_yaml

NOISE = re.compile(
    r"^\s*(Subtypes: .*|Does not validate against any of the Union subtypes|Errors:|- Expected a <class 'NoneType'>.*"
    r"|Given value type: .*|Given value: NestedArg.*)$"
)

MISSPELT = re.compile(r"unrecognized arguments: --([\w.-]+)|Option '([\w.]+)' is not accepted$")
UNPLACED = re.compile(r"unrecognized arguments: ([^-\s]\S*)")
UNEXPECTED = "Unexpected config: "
"""What jsonargparse says, without the file's name, where YAML holds no settings."""


def short_message(message: str) -> str:
    """An error message of jsonargparse without the lines on its own types."""
    return "\n".join(line for line in message.splitlines() if not NOISE.match(line))


def _holds_settings(path: str) -> bool:
    try:
        return isinstance(read_yaml(Path(path)), dict)
    except UserError:
        return True  # reading it reports its own error


class ShortComplaints(ArgumentParser):
    """Raises `UserError` where argparse would print the usage and leave; options are given by their full names."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def parse_args(self, args: Any = None, *others: Any, **named: Any) -> Any:  # noqa: ANN401
        """The settings of a command line.

        Raises:
            UserError: what it says is refused, or one of its YAML files is empty, a list or the like, or not in UTF-8.
        """
        files = [each for each in (str(each).rpartition("=")[2] for each in args or ()) if os.path.isfile(each)]
        try:
            return super().parse_args(args, *others, **named)
        except UserError as error:
            if UNEXPECTED not in str(error):
                raise
            where = next((each for each in files if not _holds_settings(each)), "a YAML file")
            raise UserError(f"{where}: expected settings in YAML, each a `name: value`, found none.") from error
        except UnicodeDecodeError as error:
            where = next((each for each in files if Path(each).read_bytes() == error.object), "a YAML file")
            raise UserError(f"{where}: expected UTF-8, found {error}; convert it, for instance by iconv.") from error

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Complain; parsers that jsonargparse uses within a parse keep its own way.

        Raises:
            UserError: always, in a parser that speaks to the user.
        """
        message = f"{message}{self._meant(str(message))}"
        if not self.exit_on_error:
            super().error(message, ex)
        verb = str(self.prog).replace("[options] ", "")
        raise UserError(f"{short_message(message)}\n`{verb} --help` lists the options.") from ex

    def _meant(self, message: str) -> str:
        """What was meant by a misspelt option, or by a run or a file without its option, as a question; else empty."""
        unplaced, found = UNPLACED.search(message), MISSPELT.search(message)
        if unplaced is not None:
            option = "--run" if os.path.isdir(unplaced[1]) else "--input"
            return f". Did you mean '{option} {unplaced[1]}'?" if option in self._option_string_actions else ""
        if found is None:
            return ""
        dashes = "--" if found[1] else ""
        options = (option.removeprefix("--") for option in self._option_string_actions if option.startswith("--"))
        known = [f"{dashes}{option}" for option in options if not option.endswith((".help", "+"))]
        meant = did_you_mean(f"{dashes}{found[1] or found[2]}", known)
        return meant and f".{meant}"
