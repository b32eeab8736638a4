"""A table as a picture: its measures against what the rows vary, such as the number of attention heads."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from depgen.errors import UserError
from depgen.locations import results_root
from depgen.reporting.pictures.plotting import figure, save
from depgen.reporting.results import Figure as Measured
from depgen.reporting.results import Results, load_results
from depgen.reporting.table import Column, chosen_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANEL = 3.2
"""Width and height of a panel, inches."""


def draw_series(table: str, *, size: str | None = None, axis: str | None = None, output: Path | None = None) -> str:
    """Each measure of a table against the `x` of its rows, one panel a measure; deviations over seeds as bars.

    Floors are dashed lines.

    A row's local results replace its tracked ones. Returns the path of the picture and the rows without results.

    Args:
        table: the table's name, or a YAML file of one.
        size: whose results; unset: `small`, or the table's only one.
        axis: the text below the panels; unset: the table's caption.
        output: the picture, .png, .pdf or .svg; unset: `results/<table>/series-<size>.png`.

    Raises:
        UserError: no such table, one whose rows have no `x`, no results, or no matplotlib.
    """
    definition, size, _ = chosen_table(table, size)
    if all(row.x is None for row in definition.rows):
        raise UserError(f"The rows of {definition.table} have no x: it is no series.")
    ours = load_results(definition, size=size)
    columns = [column for column in definition.columns if _points(ours, column)]
    if not columns:
        command = f"depgen reproduce {definition.argument} --size {size}"
        raise UserError(f"No result of {definition.table} at size {size}. Make one: {command}.")
    path = output or results_root() / definition.table / f"series-{size}.png"
    save(series_figure(ours, columns, axis=axis or definition.caption), path)
    lacking = [row.name for row in definition.rows if row.x is not None and not ours.of(row.name)]
    drawn = f"{path}: {', '.join(column.header for column in columns)}."
    return drawn + (f" Rows without results: {'; '.join(lacking)}." if lacking else "")


def _points(ours: Results, column: Column) -> dict[float, Measured]:
    """A measure at each x that has it, from left to right."""
    found = {
        row.x: figure
        for row in ours.definition.rows
        if row.x is not None and (figure := ours.figure(row.name, column.key)) is not None
    }
    return dict(sorted(found.items()))


def series_figure(ours: Results, columns: Sequence[Column], *, axis: str) -> "Figure":
    """A panel a measure: its mean over seeds at each x, one standard deviation up and down where there are several."""
    drawing = figure(PANEL * len(columns), PANEL)
    for axes, column in zip(drawing.subplots(1, len(columns), squeeze=False)[0], columns, strict=True):
        points = _points(ours, column)
        means = [each.mean for each in points.values()]
        deviations = [each.deviation or 0.0 for each in points.values()]
        axes.errorbar(list(points), means, yerr=deviations, marker="o", capsize=3)
        floors = {row.name: ours.figure(row.name, column.key) for row in ours.definition.rows if row.is_floor}
        known = [(name, floor.mean) for name, floor in floors.items() if floor is not None]
        for number, (name, mean) in enumerate(known, start=1):
            axes.axhline(mean, linestyle="--", linewidth=1, color=f"C{number}", label=name)
        if known:
            axes.legend(fontsize=7)
        axes.set_title(column.header, fontsize=10)
        axes.set_xticks(list(points), [f"{x:g}" for x in points], fontsize=8)
        axes.grid(visible=True, alpha=0.3)
    drawing.supxlabel(axis, fontsize=9)
    return drawing
