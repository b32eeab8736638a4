"""The run that a picture is of: by its name, or by a table's row."""

from pathlib import Path

from depgen.errors import UserError
from depgen.reporting.jobs import run_of_row


def drawn_run(
    run: str | None, table: str | None, *, row: str | None, profile: str | None, usual: str
) -> str | Path | None:
    """The run that is named, or that of a table's row, which is the `usual` one unless named; None for the newest run.

    Raises:
        UserError: a run and a table were named, a row or a profile without a table, or the row is not trained.
    """
    if table is None:
        if row is not None or profile is not None:
            raise UserError("--row and --profile choose among a table's runs: name the --table, or leave them out.")
        return run
    if run is not None:
        raise UserError("A run and a table were named: name one of them.")
    return run_of_row(table, row or usual, profile)
