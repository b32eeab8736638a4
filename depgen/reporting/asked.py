"""Which tables are asked for, each at which size."""

from collections.abc import Iterator

from depgen.errors import UserError, did_you_mean
from depgen.reporting.definition import TableDefinition, load_definition
from depgen.reporting.experiments import table_names
from depgen.reporting.provenance import choose_size


def asked_for(table: str | None, size: str | None) -> Iterator[tuple[TableDefinition, str, str]]:
    """One table by its name, or all: each with its size, and a line that says why this one.

    Of all tables each stands at the size asked for, or at the only one that it has; those with several others are
    left out.

    Raises:
        UserError: there is no such table, or it has, or none of all has, no such size.
    """
    if table is not None:
        definition = load_definition(table)
        yield definition, *choose_size(definition.sizes, size)
        return
    definitions = [load_definition(name) for name in table_names()]
    known = sorted({each for definition in definitions for each in definition.sizes})
    if size and size not in known:
        meant = did_you_mean(size, known)
        raise UserError(f"No table has a size {size!r}.{meant} Expected one of {', '.join(known)}.")
    for definition in definitions:
        if not size or size in definition.sizes or len(definition.sizes) == 1:
            asked = size if size in definition.sizes else None
            yield definition, *choose_size(definition.sizes, asked)
