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
    r"|Given value type: .*|Given value: .*)$"
)
DUMPED = re.compile(r"\. Got value: Namespace\(.*$|Type [\w.]+\[.*\] expects a function or a callable class: ")
"""What jsonargparse adds to a line: all settings of a class, and the type of an argument."""

MISSPELT = re.compile(r"unrecognized arguments: --([\w.-]+)")
IN_FILE = re.compile(
    r"Group '(?P<group>[\w.]+)' does not accept option '(?P<part>[\w.]+)'|Option '(?P<whole>[\w.]+)' is not accepted"
)
REQUIRED = re.compile(r"(the following arguments are required: )(.+)")
UNEXPECTED = "Unexpected config: "
"""What jsonargparse says, without the file's name, where YAML holds no settings."""


def short_message(message: str) -> str:
    """An error message of jsonargparse without its list of types and of all settings."""
    return "\n".join(DUMPED.sub("", line) for line in message.splitlines() if not NOISE.match(line))


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

    # private in jsonargparse, which takes a lone value for its letters
    def _check_value_key(self, action: Any, value: Any, *others: Any, **named: Any) -> Any:  # noqa: ANN401
        """Check a value; a lone text for an option of several values, as YAML may have it, is a list of one."""
        lone = action.nargs == "+" and isinstance(value, str)
        return super()._check_value_key(action, [value] if lone else value, *others, **named)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Complain; parsers that jsonargparse uses within a parse keep its own way.

        Raises:
            UserError: always, in a parser that speaks to the user.
        """
        if not self.exit_on_error:
            super().error(message, ex)
        if (found := IN_FILE.fullmatch(str(message))) is not None:
            option = found["whole"] or f"{found['group']}.{found['part']}"
            raise UserError(self._unknown_in_file(option)) from ex
        message = self._with_dashes(str(message))
        message = f"{message}{self._meant(message)}"
        raise UserError(f"{short_message(message)}\n`{self.prog} --help` lists the options.") from ex

    def _unknown_in_file(self, option: str) -> str:
        """What to say of an option in a YAML file that the parser has not."""
        known = [each.removeprefix("--") for each in self._option_string_actions if each.startswith("--")]
        return f"There is no option {option!r}.{did_you_mean(option, known)} `{self.prog} --help` lists all."

    def _meant(self, message: str) -> str:
        """The option that was meant by a misspelt one, as a question; else empty."""
        found = MISSPELT.search(message)
        options = [option for option in self._option_string_actions if option.startswith("--")]
        known = [option for option in options if not option.endswith((".help", "+"))]
        meant = found and did_you_mean(f"--{found[1]}", known)
        return f".{meant}" if meant else ""

    def _with_dashes(self, message: str) -> str:
        """A complaint of missing arguments, in which options have their dashes."""
        found = REQUIRED.fullmatch(message)
        if found is None:
            return message
        options = [each for each in self._option_string_actions if each.startswith("--")]
        names = {self._option_string_actions[each].dest: each for each in reversed(options)}
        return f"{found[1]}{', '.join(names.get(each, each) for each in found[2].split(', '))}"
