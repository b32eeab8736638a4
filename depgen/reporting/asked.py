"""Which tables are asked for, each at which profile."""

from collections.abc import Iterator

from depgen.errors import UserError, did_you_mean
from depgen.reporting.definition import TableDefinition, load_definition
from depgen.reporting.experiments import table_names
from depgen.reporting.provenance import choose_profile


def asked_for(table: str | None, profile: str | None) -> Iterator[tuple[TableDefinition, str, str]]:
    """One table by its name, or all: each with its profile, and a line that says why this one.

    Of all tables each stands at the profile asked for, or at the only one that it has; those with several others are
    left out.

    Raises:
        UserError: there is no such table, or it has, or none of all has, no such profile.
    """
    if table is not None:
        definition = load_definition(table)
        yield definition, *choose_profile(definition.sizes, profile)
        return
    definitions = [load_definition(name) for name in table_names()]
    known = sorted({each for definition in definitions for each in definition.sizes})
    if profile and profile not in known:
        meant = did_you_mean(profile, known)
        raise UserError(f"No table has a profile {profile!r}.{meant} Expected one of {', '.join(known)}.")
    for definition in definitions:
        if not profile or profile in definition.sizes or len(definition.sizes) == 1:
            asked = profile if profile in definition.sizes else None
            yield definition, *choose_profile(definition.sizes, asked)
