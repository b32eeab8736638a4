"""Options that a verb takes from what its command line names: measures, or the system of a run."""

import argparse
from collections.abc import Sequence
from itertools import takewhile

from depgen.errors import UserError
from depgen.evaluation.measure import measure_function, options_class


def options_of_measures(arguments: Sequence[str]) -> list[type]:
    """The dataclasses of the options of the measures that are named before the first option."""
    names = takewhile(lambda argument: not argument.startswith("-"), arguments)
    return [options_class(measure_function(name)) for name in names]


def options_of_generation(arguments: Sequence[str]) -> list[type]:
    """The dataclass of the options of the named run's system, or of the newest run's; none without any run.

    Raises:
        UserError: there is no such run.
    """
    from depgen.evaluation.trained import system_class

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--run")
    run = parser.parse_known_args(list(arguments))[0].run
    try:
        system = system_class(run)
    except UserError:
        if run is not None:
            raise
        return []
    return [] if system is None or system.generation_options is None else [system.generation_options]


def options_of_heat_map(arguments: Sequence[str]) -> list[type]:
    """The dataclass of the options of the measure that `plot heat-map` draws."""
    return [options_class(measure_function("correlations"))]
