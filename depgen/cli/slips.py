"""Refuses a command line that would destroy a file, or take another run than is meant."""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from depgen.errors import UserError

_OUTPUTS = ("--output", "--item_output", "--item-output")
"""Options that name a file to write."""
_RUNS = ("--run", "--resume", "--init_from", "--checkpoint", "--ckpt_path")
"""Options that name a run."""


def options_in(arguments: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each argument up to its `=`, and the text after it: there, or else the next argument, which the last has not.

    >>> list(options_in(["--size=small", "--name", "mine"]))
    [('--size', 'small'), ('--name', 'mine'), ('mine', '')]
    """
    for argument, following in pairwise([*arguments, ""]):
        name, separator, value = argument.partition("=")
        yield name, value if separator else following


def check_slips(arguments: Sequence[str]) -> None:
    """Raises UserError for an output that is also a file to read or another output, and for a run without a name."""
    for name, value in options_in([*arguments, "-"]):  # the last option may do without a value
        if name in _RUNS and not value:
            raise UserError(f"{name}: expected a name, found an empty one. Is a variable of the shell not set?")
    outputs = [(name, Path(value)) for name, value in options_in(arguments) if name in _OUTPUTS and value]
    files = [name for argument in arguments if os.path.isfile(name := argument.rpartition("=")[2])]
    for name, output in outputs:
        if sum(output == other for _, other in outputs) > 1:
            raise UserError(f"{name} {output}: expected another file for each output: name another.")
        if output.is_file() and sum(map(output.samefile, files)) > 1:
            raise UserError(f"{name} {output} would overwrite the file that is read: name another.")
