"""Validation perplexity against what training has cost: where each system stops improving."""

import logging
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from depgen.errors import UserError
from depgen.locations import results_root
from depgen.reporting.pictures.plotting import figure, save
from depgen.reporting.results import load_results
from depgen.reporting.run_facts import read_curve
from depgen.reporting.table import TableDefinition, chosen_table
from depgen.training.runs import experiment_name, find_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)

TITLE_WIDTH = 85
"""Letters that stand over a picture in one line."""

Cost = Literal["tokens", "steps", "minutes"]
_AXES: dict[Cost, str] = {
    "tokens": "training tokens seen, all phases",
    "steps": "optimiser steps, all phases",
    "minutes": "minutes of wall time, all phases, validation included",
}


@dataclass(frozen=True)
class Curve:
    """One run's line.

    Attributes:
        system: whose; lines of one system share a colour.
        run: which of its runs, in words.
        points: (cost, validation perplexity), in order.
    """

    system: str
    run: str
    points: tuple[tuple[float, float], ...]

    @property
    def lowest(self) -> tuple[float, float]:
        """Where it is best."""
        return min(self.points, key=lambda point: point[1])


def draw_curves(
    table: str | None = None,
    *,
    size: str | None = None,
    rows: Sequence[str] = (),
    runs: Sequence[str] = (),
    against: Cost | None = None,
    output: Path | None = None,
) -> str:
    """Validation perplexity of a table's systems, or of any runs, in one picture: a line a run, its best point marked.

    Returns where the picture went, and the best point of each line. A row's local results replace its tracked
    ones. Phases that measure no perplexity leave a gap at the left.

    Args:
        table: the table's name, or a YAML file of one.
        size: whose results; unset: `small`, or the table's only one.
        rows: which systems; none: all that have a curve. One without a curve is named in the log.
        runs: run folders to be drawn beside the table's, finished or not; costs are then steps or minutes.
        against: the cost on the axis; unset: `tokens`, with `--runs` `steps`.
        output: the picture, .png, .pdf or .svg; unset: `results/<table>/curves-<size>.png`, without a table
            `curves.png`; with another cost than usual, its name follows.

    Raises:
        UserError: there is no curve, no such row or run, tokens are asked for of bare runs, or no matplotlib.
    """
    cost: Cost = against or ("steps" if runs else "tokens")
    if runs and cost == "tokens":
        raise UserError("Runs do not say how many tokens a step has: take --against steps or minutes.")
    if table is None and not runs:
        raise UserError("Name a table, or --runs.")
    if table is None and (rows or size is not None):
        raise UserError("--rows and --size choose among a table's results: name the table, or leave them out.")
    curves, title, path = list(_of_runs(runs, cost)), "Validation perplexity", Path("curves.png")
    if table is not None:
        definition, size, _ = chosen_table(table, size)
        curves = [*_of_table(definition, size, rows, cost), *curves]
        title, path = f"{definition.caption} ({size})", results_root() / definition.table / f"curves-{size}.png"
        if not curves:
            command = f"depgen reproduce {definition.argument} --size {size}"
            raise UserError(f"No validation curve against {cost} at size {size}. Make one: {command}.")
    usual = "steps" if table is None else "tokens"
    path = output or (path if cost == usual else path.with_stem(f"{path.stem}-{cost}"))
    save(curves_figure(curves, title=title, axis=_AXES[cost]), path)
    digits = 1 if cost == "minutes" else 0
    lowest = [
        f"{curve.run}: lowest {y:.2f} after {x:,.{digits}f} {cost}" for curve in curves for x, y in [curve.lowest]
    ]
    return "\n".join([f"{path}: validation perplexity against {_AXES[cost]}.", *lowest])


def _of_table(definition: TableDefinition, size: str, rows: Sequence[str], cost: Cost) -> Iterator[Curve]:
    """The curves of a table's results; rows that are named and have none are logged."""
    wanted = [definition.row(name).name for name in rows] or [row.name for row in definition.rows]
    ours = load_results(definition, size=size)
    for name in wanted:
        points = {result.seed: _points(result.curve, result.clock, cost) for result in ours.of(name)}
        if not any(points.values()) and rows:
            logger.warning("%s has no validation curve at size %s and is not drawn.", name, size)
        if any(points.values()) and not all(points.values()):
            logger.warning("%s: not every seed kept its %s; those without are not drawn.", name, cost)
        yield from (Curve(name, f"{name}, seed {seed}", found) for seed, found in points.items() if found)


def _of_runs(runs: Sequence[str], cost: Cost) -> Iterator[Curve]:
    """The curves of run folders.

    Raises:
        UserError: no such run, or one without validation perplexity or without its wall time.
    """
    for reference in runs:
        run = find_run(reference)
        _, curve, clock = read_curve(run / "metrics.csv", tokens_per_epoch=0)
        points = _points(curve, clock, cost)
        if not points:
            raise UserError(f"{run / 'metrics.csv'} holds no validation perplexity with its time yet.")
        name = f"{experiment_name(run)}/{run.name}"
        yield Curve(name, name, points)


def _points(
    curve: Sequence[tuple[float, float]], clock: Sequence[tuple[float, float]], cost: Cost
) -> tuple[tuple[float, float], ...]:
    """(cost, perplexity) of a curve over tokens and of its steps and seconds; empty where it did not keep the cost."""
    if cost == "tokens":
        return tuple(curve)
    costs = [steps if cost == "steps" else seconds / 60 for steps, seconds in clock]
    return tuple((x, y) for x, (_, y) in zip(costs, curve, strict=False))


def curves_figure(curves: Sequence[Curve], *, title: str, axis: str) -> "Figure":
    """Lines of one colour a system, the best point of each marked, on a logarithmic axis.

    Log-likelihood on a linear axis would give the same picture upside down.
    """
    drawing = figure(7.0, 4.5)
    from matplotlib.ticker import EngFormatter

    axes = drawing.add_subplot()
    systems = list(dict.fromkeys(curve.system for curve in curves))
    for number, system in enumerate(systems):
        lines = [curve for curve in curves if curve.system == system]
        for curve in lines:
            label = system if curve is lines[0] else None
            axes.plot(*zip(*curve.points, strict=True), color=f"C{number}", alpha=0.8, label=label)
            axes.plot(*curve.lowest, "o", color=f"C{number}", markersize=4)
    axes.set_yscale("log")
    for show in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        show("{x:.4g}")
    axes.xaxis.set_major_formatter(EngFormatter())
    axes.set_xlabel(axis)
    axes.set_ylabel("validation perplexity")
    axes.set_title(textwrap.fill(title, TITLE_WIDTH), fontsize=10)
    axes.legend(fontsize=8)
    axes.grid(visible=True, which="both", alpha=0.3)
    return drawing
