"""How measures are distributed over texts: Figures 4 to 6 of Casas et al. (2020)."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from depgen.errors import UserError
from depgen.locations import results_root, write_atomically
from depgen.reporting.pictures.plotting import figure, save
from depgen.reporting.results import load_results, pooled_scores
from depgen.reporting.table import chosen_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Items = NDArray[np.float64]
"""Numbers of items; each array has its own length."""
BINS = 25
"""Of values that are not whole numbers."""


def draw_histogram(table: str, *, size: str | None = None, output: Path | None = None) -> str:
    """The share of items in each bin, one line for each row and measure that has scores of single items.

    Whole numbers have a bin each. Seeds are pooled; a row's local results replace its tracked ones. The shares are
    written as CSV next to the picture.

    Args:
        table: the table's name, or a YAML file of one.
        size: whose results; unset: `small`, or the table's only one.
        output: the picture, .png, .pdf or .svg; unset: `results/<table>/histogram-<size>.png`.

    Raises:
        UserError: no such table, no scores of single items, or no matplotlib.
    """
    definition, size, _ = chosen_table(table, size)
    ours = load_results(definition, size=size)
    found = {
        (row.name, column.header): known
        for row in definition.rows
        for column in definition.columns
        if (scores := pooled_scores(ours.of(row.name), column.key)) is not None
        and len(known := scores[~np.isnan(scores)])
    }
    if not found:
        raise UserError(
            f"No result of {definition.table} at size {size} has scores of single items. Make one: "
            f"depgen reproduce {definition.argument} --size {size}"
        )
    rows, headers = ({name[place] for name in found} for place in range(2))
    items = {
        row if len(headers) == 1 < len(rows) else header if len(rows) == 1 < len(headers) else f"{row}, {header}": each
        for (row, header), each in found.items()
    }
    edges = edges_of(list(items.values()))
    shares = {name: np.histogram(each, edges)[0] / len(each) for name, each in items.items()}
    path = output or results_root() / definition.table / f"histogram-{size}.png"
    save(histogram_figure(shares, edges, axis=definition.caption if len(headers) > 1 else headers.pop()), path)
    write_atomically(path.with_suffix(".csv"), as_csv(shares, edges))
    means = "; ".join(f"{name} {each.mean():.3g} over {len(each):,}" for name, each in items.items())
    return f"{path} and {path.with_suffix('.csv').name}. Means: {means}."


def edges_of(items: list[Items]) -> np.ndarray:
    """The edges of bins for all items: around each whole number, or `BINS` of one width from the least to the largest.

    >>> edges_of([np.array([1.0, 3.0]), np.array([2.0])])
    array([0.5, 1.5, 2.5, 3.5])
    """
    values = np.concatenate(items)
    least, largest = values.min(), values.max()
    if (values == np.round(values)).all():
        return np.arange(least - 0.5, largest + 1)
    return np.linspace(least, largest, BINS + 1)


def histogram_figure(shares: Mapping[str, np.ndarray], edges: np.ndarray, *, axis: str) -> "Figure":
    """Steps of all distributions over each other, the area below each filled."""
    drawing = figure(6.0, 3.6)
    axes = drawing.add_subplot()
    for name, each in shares.items():
        axes.stairs(100 * each, edges, label=name, fill=True, alpha=0.25)
        axes.stairs(100 * each, edges, color=axes.patches[-1].get_facecolor()[:3])
    axes.set_xlabel(axis, fontsize=9)
    axes.set_ylabel("% of texts", fontsize=9)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8)
    return drawing


def as_csv(shares: Mapping[str, np.ndarray], edges: np.ndarray) -> str:
    """A line a bin: its edges, then the share of each distribution."""
    from pandas import DataFrame

    low, high = ([f"{each:g}" for each in ends] for ends in (edges[:-1], edges[1:]))
    lines = DataFrame({"from": low, "to": high, **shares})
    return str(lines.to_csv(index=False, float_format="%.6f", lineterminator="\n"))
