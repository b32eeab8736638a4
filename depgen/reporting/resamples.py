"""Two systems over the same resampled test sets: the difference with its interval, beside the published z-test."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from depgen.metrics.coherence import one_sided_p, paired_interval, z_test
from depgen.reporting.comparison import Results
from depgen.reporting.definition import Column, TableDefinition
from depgen.reporting.results import RESAMPLED, Result, item_scores

LEVEL = 0.01
"""At which the paper marks a win."""


def resamples(results: Sequence[Result], row_slug: str, column: Column) -> Float[np.ndarray, " resamples"] | None:
    """A measure's figures on resampled test sets, each the mean over seeds; None where a seed lacks them."""
    return item_scores(results, row_slug, column.key + RESAMPLED)


def differences(definition: TableDefinition, results: Results) -> Iterator[str]:
    """A line for each pair that the table asks about, in each measure with a z-test, behind one that explains them."""
    lines = []
    for column in definition.columns:
        if column.test != "z_test":
            continue
        for row in definition.rows:
            for name in row.against:
                other = definition.row(name)
                first = resamples(results.get(row.name, ()), row.slug, column)
                second = resamples(results.get(name, ()), other.slug, column)
                if first is not None and second is not None and len(first) == len(second):
                    lines.append(f"{row.name} against {name}: {column.header} {_difference(first, second)}.")
    if lines:
        yield (
            "Paired: the difference over the same resampled test sets, the mean over seeds, with its 95 % interval; "
            "beside it the published two-sample z-test, one-sided, which takes resampled sets for independent "
            f"observations, so that nearly every difference passes it. p < {LEVEL} is the paper's mark."
        )
        yield from lines


def _difference(first: Float[np.ndarray, " resamples"], second: Float[np.ndarray, " resamples"]) -> str:
    interval, z = paired_interval(first, second), z_test(first, second).statistic
    assert z is not None
    return f"{interval.value:+.2f} [{interval.low:.2f}, {interval.high:.2f}], z = {z:.2f} (p = {one_sided_p(z):.2g})"
