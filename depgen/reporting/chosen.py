"""The tables that a command is about, each at one size."""

from collections.abc import Iterator

from depgen.errors import UserError, did_you_mean
from depgen.reporting.definition import TableDefinition, load_definition
from depgen.reporting.experiments import table_names
from depgen.reporting.provenance import choose_size


def chosen_table(table: str, size: str | None) -> tuple[TableDefinition, str, str]:
    """The table of that name with the given size or its usual one, and a line that says why this one.

    Raises:
        UserError: there is no such table, or it has no such size.
    """
    definition = load_definition(table)
    return definition, *choose_size(definition.sizes, size)


def chosen_tables(table: str | None, size: str | None) -> Iterator[tuple[TableDefinition, str, str]]:
    """The table of that name, or every table: each with its size, and a line that says why this one.

    Of all tables, each is at the given size or at its only one; tables without either are left out.

    Raises:
        UserError: there is no such table, or it has no such size, or no table has it.
    """
    if table is not None:
        yield chosen_table(table, size)
        return
    definitions = [load_definition(name) for name in table_names()]
    known = sorted({each for definition in definitions for each in definition.sizes})
    if size and size not in known:
        meant = did_you_mean(size, known)
        raise UserError(f"No table has a size {size!r}.{meant} Expected one of {', '.join(known)}.")
    for definition in definitions:
        if not size or size in definition.sizes or len(definition.sizes) == 1:
            yield definition, *choose_size(definition.sizes, size if size in definition.sizes else None)
