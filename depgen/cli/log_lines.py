"""The package's log on standard error."""

import logging
import sys
from typing import TextIO

from depgen.training.runs import process_rank


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to whatever `sys.stderr` is at the time: a progress bar may replace it."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def log_to_stderr() -> None:
    """Write the package's log to standard error: warnings alone from all processes but the first."""
    package = logging.getLogger("depgen")
    if not any(isinstance(handler, _Stderr) for handler in package.handlers):
        package.addHandler(_Stderr())
    package.setLevel(logging.INFO if process_rank() == 0 else logging.WARNING)
