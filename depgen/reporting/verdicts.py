"""Who wins in a table: each pair of systems that it asks about, by gain, interval and test."""

from collections.abc import Iterator, Sequence

from depgen.metrics.significance import false_positive_rate
from depgen.reporting.comparison import SystemComparison
from depgen.reporting.definition import Column, TableDefinition
from depgen.reporting.intervals import CONFIDENCE


def verdicts(definition: TableDefinition, comparisons: Sequence[SystemComparison]) -> Iterator[str]:
    """Who wins against whom, one line a pair that the table asks about."""
    asked = [
        (row.name, other, [item for item in comparisons if (item.row, item.other) == (row.name, other)])
        for row in definition.rows
        for other in row.against
    ]
    if any(items for *_, items in asked):
        yield (
            "Verdicts: gain (positive where the first system is better) ± two standard errors over seeds. A win or a "
            "loss exceeds them and, where a test was made, is significant too; with one seed nothing is decided."
            f"{_chance(comparisons)}{_resampled(definition, comparisons)}"
        )
    for row, other, items in asked:
        said = [
            f"{verdict} {', '.join(_gain(definition, item) for item in items if item.verdict == verdict)}"
            for verdict in ("wins", "loses", "undecided", "not compared")
            if any(item.verdict == verdict for item in items)
        ]
        if said:
            yield f"{row} against {other}: " + "; ".join(said) + "."


def _chance(comparisons: Sequence[SystemComparison]) -> str:
    """How often two equal systems exceed two standard errors with the seeds at hand."""
    seeds = sorted({(min(item.seeds), max(item.seeds)) for item in comparisons if min(item.seeds) > 1})
    rates = [f"{100 * false_positive_rate(*pair):.0f} % ({pair[0]} seeds against {pair[1]})" for pair in seeds]
    if not rates:
        return ""
    return f" Two equal systems exceed two standard errors by chance in about {', '.join(rates)} of comparisons."


def _resampled(definition: TableDefinition, comparisons: Sequence[SystemComparison]) -> str:
    """What the ends behind a gain are, where any is shown."""
    if not any(_ends(definition.column(item.column), item) for item in comparisons):
        return ""
    return (
        f" [low, high]: the gain's {100 * CONFIDENCE:.0f} % paired-bootstrap interval over test items, the trained "
        "models held fixed."
    )


def _ends(column: Column, item: SystemComparison) -> str:
    """The interval behind a gain; empty without one, and where it stands beside the published test's z."""
    if item.interval is None or column.published_test is not None:
        return ""
    low, high = item.interval
    return f" [{low:+.{column.decimals}f}, {high:+.{column.decimals}f}]"


def _gain(definition: TableDefinition, item: SystemComparison) -> str:
    column = definition.column(item.column)
    margin = " ± ?" if item.margin is None else f" ± {item.margin:.{column.decimals}f}"
    test = "" if item.p_value is None else f", p = {item.p_value:.2g}"
    if item.untested is not None and item.incomparable is None and column.test != "none":
        test = f", not tested: {item.untested}"
    return f"{column.header} ({item.gain:+.{column.decimals}f}{margin}{_ends(column, item)}{test})"
