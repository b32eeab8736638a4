"""Two systems over the same documents: the difference with its interval, beside the published z-test over resamples."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from depgen.metrics.coherence import one_sided_p, paired_interval, z_statistic
from depgen.reporting.comparison import Results, shared_documents
from depgen.reporting.definition import Column, Row, TableDefinition
from depgen.reporting.results import RESAMPLED, Result, item_scores, seed_scores, with_items

LEVEL = 0.01
"""At which the paper marks a win."""


def resamples(results: Sequence[Result], column: Column) -> Float[np.ndarray, "resamples seeds"] | None:
    """A measure's figures on resampled test sets; None where a seed lacks them."""
    return seed_scores(results, column.key + RESAMPLED)


def published_z(first: Float[np.ndarray, "resamples seeds"], second: Float[np.ndarray, "resamples others"]) -> float:
    """The z of the systems' means over seeds and of the deviations of one seed (the root of the mean square).

    The paper has one run of each system; a mean over seeds varies less over resampled sets than any of them.
    """
    means, deviations = (float(first.mean()), float(second.mean())), (_deviation(first), _deviation(second))
    return z_statistic(means, deviations, resamples=len(first))


def _deviation(accuracies: Float[np.ndarray, "resamples seeds"]) -> float:
    return float(np.sqrt(accuracies.var(axis=0).mean()))


def differences(definition: TableDefinition, results: Results) -> Iterator[str]:
    """A line a pair that the table asks about, in each measure published with a z-test, behind one that explains it."""
    lines = [
        f"{row.name} against {name}: {column.header} {found}."
        for column in definition.columns
        if column.published_test is not None
        for row in definition.rows
        for name in row.against
        if (found := _difference(definition.row(name), row, column, results)) is not None
    ]
    if lines:
        yield (
            "Paired: the difference of two systems' figures with its 95 % interval over documents, the mean over "
            "seeds; pieces of one document are drawn together. Beside it, for comparison with the paper alone, its "
            "two-sample z-test, one-sided, which takes resampled test sets for independent observations, so that "
            f"nearly every difference passes it: p < {LEVEL} is the paper's mark, and no star or verdict of ours."
        )
        yield from lines


def _difference(other: Row, row: Row, column: Column, results: Results) -> str | None:
    """The difference, its interval and z; None where a system has no figures of its items."""
    name = column.items or column.key
    mine, theirs = (with_items(results.get(each.name, ()), name, column.key + RESAMPLED) for each in (row, other))
    first, second = resamples(mine, column), resamples(theirs, column)
    own, others = item_scores(mine, name), item_scores(theirs, name)
    if first is None or second is None or own is None or others is None:
        return None
    groups = shared_documents(mine, theirs, name)
    if isinstance(groups, str) or groups is None or len(own) != len(others) or len(first) != len(second):
        return f"not compared: {groups}" if isinstance(groups, str) else "not compared: items of other documents"
    interval, z = paired_interval(own, others, groups), published_z(first, second)
    return (
        f"{interval.value:+.2f} [{interval.low:.2f}, {interval.high:.2f}], published z = {z:.2f} "
        f"(p = {one_sided_p(z):.2g})"
    )
