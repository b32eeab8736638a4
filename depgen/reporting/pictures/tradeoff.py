"""Quality against diversity of texts by temperature: Figure 3 of Casas et al. (2020)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from depgen.errors import UserError
from depgen.locations import results_root
from depgen.reporting.pictures.plotting import figure, save
from depgen.reporting.results import Results, load_results
from depgen.reporting.table import Row, chosen_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = 4.2
"""Width and height of a panel, inches."""
QUALITY, DIVERSITY, CHOSEN, DEVIATION = "valid_bleu", "self_bleu", "temperature", "_sd"
MARKERS = "sDov^<>*"


@dataclass(frozen=True)
class Point:
    """Quality and diversity, each the mean over samples with its standard deviation."""

    quality: float
    diversity: float
    quality_deviation: float = 0.0
    diversity_deviation: float = 0.0


@dataclass(frozen=True)
class System:
    """The points of a row by temperature, and the temperature that was chosen; of real text a point alone."""

    row: Row
    points: Mapping[str, Point]
    chosen: str | None


def draw_tradeoff(table: str, *, size: str | None = None, output: Path | None = None) -> str:
    """Validation BLEU-5 against Self-BLEU-5: a line a system, a marker a temperature, the chosen one filled.

    There is a panel a group of rows; real text, which has no temperature, is a cross in all. An ellipse shows one
    standard deviation over samples. Means over seeds; a row's local results replace its tracked ones.

    Args:
        table: the table's name, or a YAML file of one; it has the measure `SampledBleu`.
        size: whose results; unset: `small`, or the table's only one.
        output: the picture, .png, .pdf or .svg; unset: `results/<table>/tradeoff-<size>.png`.

    Raises:
        UserError: no such table, no results with both measures, or no matplotlib.
    """
    definition, size, _ = chosen_table(table, size)
    ours = load_results(definition, size=size)
    systems = [found for row in definition.rows if (found := system_of(ours, row)) is not None]
    if not systems:
        raise UserError(
            f"No result of {definition.table} at size {size} has {QUALITY} and {DIVERSITY}. Make one: "
            f"depgen reproduce {definition.argument} --size {size}"
        )
    path = output or results_root() / definition.table / f"tradeoff-{size}.png"
    save(tradeoff_figure(systems), path)
    drawn = "; ".join(each.row.name for each in systems)
    return f"{path}: BLEU-5 against the validation split and Self-BLEU-5. {drawn}."


def system_of(ours: Results, row: Row) -> System | None:
    """A row's points; None where it has none. The key of a point is its temperature, empty for real text."""
    names = {name for result in ours.of(row.name) for name in result.metrics if name.startswith(f"{QUALITY}_")}
    ends = sorted(each for name in names if not (each := name.removeprefix(QUALITY)).startswith(DEVIATION))
    if row.is_floor:
        ends = [""]
    points = {end.removeprefix("_"): point for end in ends if (point := _point(ours, row, end)) is not None}
    chosen = ours.figure(row.name, CHOSEN)
    # Rounded: the mean of several seeds' 0.7 is not 0.7 to the last digit.
    return System(row, points, None if chosen is None else str(round(chosen.mean, 6))) if points else None


def _point(ours: Results, row: Row, end: str) -> Point | None:
    names = (QUALITY, DIVERSITY, f"{QUALITY}{DEVIATION}", f"{DIVERSITY}{DEVIATION}")
    found = [ours.figure(row.name, f"{name}{end}") for name in names]
    return None if None in found[:2] else Point(*(0.0 if each is None else each.mean for each in found))


def tradeoff_figure(systems: list[System]) -> "Figure":
    """A panel a group."""
    groups = list(dict.fromkeys(each.row.group for each in systems if not each.row.is_floor)) or [None]
    drawing = figure(PANEL * len(groups), PANEL)
    for axes, group in zip(drawing.subplots(1, len(groups), squeeze=False, sharey=True)[0], groups, strict=True):
        shown = [each for each in systems if each.row.is_floor or each.row.group == group]
        for number, system in enumerate(shown):
            _draw(axes, system, colour=f"C{number}")
        axes.set_title(group or "", fontsize=10)
        axes.set_xlabel("Self-BLEU-5 (less: more diverse)", fontsize=9)
        axes.set_ylabel("BLEU-5 against the validation split", fontsize=9)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize=7)
    return drawing


def _draw(axes: "Axes", system: System, *, colour: str) -> None:
    """A system's line; markers tell temperatures, the lowest first."""
    from matplotlib.patches import Ellipse

    points = list(system.points.values())
    if system.row.is_floor:
        axes.plot(points[0].diversity, points[0].quality, "x", color=colour, label=system.row.name)
        return
    axes.plot(
        [each.diversity for each in points], [each.quality for each in points], color=colour, label=system.row.name
    )
    for number, (temperature, each) in enumerate(system.points.items()):
        axes.plot(
            each.diversity, each.quality, MARKERS[number % len(MARKERS)], color=colour, markersize=6,
            markerfacecolor=colour if temperature == system.chosen else "white",
        )  # fmt: skip
        axes.annotate(temperature, (each.diversity, each.quality), (4, 4), textcoords="offset points", fontsize=6)
        width, height = 2 * each.diversity_deviation, 2 * each.quality_deviation
        axes.add_patch(Ellipse((each.diversity, each.quality), width, height, color=colour, alpha=0.2, linewidth=0))
