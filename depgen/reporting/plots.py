"""Plots of results: each a function from a frame to a figure of matplotlib, and a verb `depgen plot` for both."""

import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from depgen.errors import UserError
from depgen.locations import results_root, write_atomically
from depgen.reporting.results import Results, load_results, pooled_scores, read_curve
from depgen.reporting.table import Row, chosen_table, is_made
from depgen.training.class_paths import class_in_run
from depgen.training.experiment import Experiment, settings_of
from depgen.training.runs import experiment_name, find_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

ENDINGS = (".png", ".pdf", ".svg")
_TEXT = {"svg.fonttype": "none", "pdf.fonttype": 42, "text.parse_math": False}
"""Text stays text in SVG, fonts are TrueType in PDF, as publishers want them, and `$` in a name is no mathematics."""


def figure(width: float, height: float) -> "Figure":
    """An empty figure of that size in inches, which needs no display."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserError(f"Plots need matplotlib ({error}). Install it: pip install 'depgen[plots]'.") from error
    return Figure(figsize=(width, height), layout="constrained")


def check_name(path: Path, endings: Sequence[str] = ENDINGS) -> None:
    """Raises UserError unless a plot can be written under that name; to be called before long work."""
    if path.suffix.lower() not in endings:
        raise UserError(f"Expected the name of a plot, which ends in {' or '.join(endings)}, found {path}.")


def save(drawing: "Figure", path: Path) -> None:
    """Write a figure as PNG, PDF or SVG, by the ending of the file's name; folders are made."""
    from matplotlib import rc_context
    from matplotlib.text import Text

    check_name(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for text in drawing.findobj(Text):
        assert isinstance(text, Text)
        text.set_parse_math(False)
    with rc_context(_TEXT):
        drawing.savefig(path, dpi=150)


def _results(table: str, size: str | None) -> Results:
    definition, size = chosen_table(table, size)
    return load_results(definition, size=size)


def _path(results: Results, kind: str, output: Path | None) -> Path:
    """Where a plot of a table goes unless the user says so."""
    return output or results_root() / results.definition.table / f"{kind}-{results.size}.png"


def _nothing(results: Results, what: str) -> UserError:
    """What is said where a table's results hold nothing of a plot."""
    definition, size = results.definition, results.size
    command = f"depgen reproduce {definition.argument} --size {size}"
    return UserError(f"No result of {definition.table} at size {size} has {what}. Make one: {command}.")


def _style(axes: "Axes", title: str | None = None) -> None:
    axes.grid(visible=True, which="both", alpha=0.3)
    if title is not None:
        axes.set_title(title, fontsize=10)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8)


# -- learning curves --------------------------------------------------------------------------------------------------

Cost = Literal["tokens", "steps", "minutes"]
_COSTS: dict[Cost, str] = {
    "tokens": "training tokens seen, all phases",
    "steps": "optimiser steps, all phases",
    "minutes": "minutes of wall time, all phases, validation included",
}
_Points = Sequence[tuple[float, float]]


def plot_curves(
    table: str | None = None,
    *,
    size: str | None = None,
    runs: Sequence[str] = (),
    against: Cost | None = None,
    output: Path | None = None,
) -> str:
    """Validation perplexity of a table's systems, or of any runs: a line a run, its best point marked.

    Perplexities of different kinds of likelihood, which do not compare, have a panel each.

    Returns where the plot went, and the best point of each line. A row's local results replace its tracked ones. Phases
    that measure no perplexity leave a gap at the left.

    Args:
        table: the table's name, or a YAML file of one.
        size: whose results; unset: `small`, or the table's only one.
        runs: run folders to be drawn beside the table's, finished or not; costs are then steps or minutes.
        against: the cost on the axis; unset: `tokens`, with `--runs` `steps`.
        output: the plot, .png, .pdf or .svg; unset: `results/<table>/curves-<size>.png`, without a table `curves.png`;
            with another cost than usual, its name follows.
    """
    from pandas import DataFrame

    cost: Cost = against or ("steps" if runs else "tokens")
    if runs and cost == "tokens":
        raise UserError("Runs do not say how many tokens a step has: take --against steps or minutes.")
    if table is None and not runs:
        raise UserError("Name a table, or --runs.")
    title, path, lines = "Validation perplexity", Path("curves.png"), [*_curves_of_runs(runs, cost)]
    if table is not None:
        results = _results(table, size)
        title, path = f"{results.definition.caption} ({results.size})", _path(results, "curves", None)
        lines = [
            (row.name, f"{row.name}, seed {result.seed}", _kind_of_row(row, results.size), *point)
            for row in results.definition.rows
            for result in results.of(row.name)
            for point in _points(result.curve, result.clock, cost)
        ] + lines
        if not lines:
            raise _nothing(results, f"a validation curve against {cost}")
    if cost != ("steps" if table is None else "tokens"):
        path = path.with_stem(f"{path.stem}-{cost}")
    frame = DataFrame(lines, columns=["system", "run", "likelihood", "cost", "perplexity"])
    save(curves_figure(frame, title=title, axis=_COSTS[cost]), output or path)
    lowest = [
        f"{best.run}: lowest {best.perplexity:.2f} after {best.cost:,.{int(cost == 'minutes')}f} {cost}"
        for best in _lowest(frame).itertuples()
    ]
    return "\n".join([f"{output or path}: validation perplexity against {_COSTS[cost]}.", *lowest])


def _kind_of_row(row: Row, size: str) -> str:
    return _kind(row.experiment_at(size)) if row.experiment is not None and is_made(row, size=size) else "unknown"


def _kind(config: Path | Experiment) -> str:
    """The kind of likelihood of an experiment's system; `unknown` where no class at hand says it."""
    name = (settings_of(config).get("model") or {}).get("class_path")
    file = config.file if isinstance(config, Experiment) else config
    try:
        return str(getattr(class_in_run(str(name), file), "likelihood", "unknown"))
    except UserError:
        return "unknown"


def _curves_of_runs(runs: Sequence[str], cost: Cost) -> Iterator[tuple[str, str, str, float, float]]:
    for reference in runs:
        run = find_run(reference)
        _, curve, clock = read_curve(run / "metrics.csv", tokens_per_epoch=0)
        points = _points(curve, clock, cost)
        if not points:
            raise UserError(f"{run / 'metrics.csv'} holds no validation perplexity with its time yet.")
        name, config = f"{experiment_name(run)}/{run.name}", run / "config.yaml"
        kind = _kind(config) if config.is_file() else "unknown"
        yield from ((name, name, kind, *point) for point in points)


def _points(curve: _Points, clock: _Points, cost: Cost) -> _Points:
    """(cost, perplexity) of a curve over tokens and of its steps and seconds; empty where it did not keep the cost."""
    if cost == "tokens":
        return curve
    costs = [steps if cost == "steps" else seconds / 60 for steps, seconds in clock]
    return [(x, y) for x, (_, y) in zip(costs, curve, strict=False)]


def _lowest(curves: "DataFrame") -> "DataFrame":
    """The best point of each run, in the runs' order."""
    return curves.loc[curves.groupby("run", sort=False).perplexity.idxmin()]


def curves_figure(curves: "DataFrame", *, title: str, axis: str) -> "Figure":
    """Lines of one colour a system, the best point of each marked, on a logarithmic axis; a panel a kind of likelihood.

    Args:
        curves: a line a validation, with columns `system run likelihood cost perplexity`, in the order of training.
        title: over the plot.
        axis: the text below it.
    """
    kinds = curves.likelihood.unique()
    drawing = figure(7.0, 4.5 * len(kinds))
    from matplotlib.ticker import EngFormatter

    for axes, kind in zip(drawing.subplots(len(kinds), 1, squeeze=False)[:, 0], kinds, strict=True):
        of_kind = curves[curves.likelihood == kind]
        for number, (system, of_system) in enumerate(of_kind.groupby("system", sort=False)):
            for place, (_, run) in enumerate(of_system.groupby("run", sort=False)):
                label = None if place else str(system)
                axes.plot(run.cost, run.perplexity, color=f"C{number}", alpha=0.8, label=label)
                best = _lowest(run)
                axes.plot(best.cost, best.perplexity, "o", color=f"C{number}", markersize=4)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:.4g}")
        axes.yaxis.set_minor_formatter("{x:.4g}")
        axes.xaxis.set_major_formatter(EngFormatter())
        axes.set_xlabel(axis)
        axes.set_ylabel("validation perplexity" + (f" ({kind} likelihood)" if len(kinds) > 1 else ""))
        _style(axes, textwrap.fill(title, 85))
    return drawing


# -- series: measures against what the rows vary ----------------------------------------------------------------------


def plot_series(table: str, *, size: str | None = None, output: Path | None = None) -> str:
    """Each measure of a table against the `x` of its rows, one panel a measure; deviations over seeds as bars.

    Floors are dashed lines. A row's local results replace its tracked ones.

    Args:
        table: the table's name, or a YAML file of one.
        size: whose results; unset: `small`, or the table's only one.
        output: the plot, .png, .pdf or .svg; unset: `results/<table>/series-<size>.png`.
    """
    results = _results(table, size)
    frame = series_frame(results)
    if frame.empty:
        raise _nothing(results, "a measure at an `x` of its rows")
    path = _path(results, "series", output)
    save(series_figure(frame, axis=results.definition.caption), path)
    return f"{path}: {', '.join(frame.measure.unique())}."


def series_frame(results: Results) -> "DataFrame":
    """A line a measure and row: `measure row x mean deviation`, by measure and from left to right.

    `x` is NaN for a floor, `deviation` over seeds for a single one. Measures that no row with an `x` has are left out.
    """
    from pandas import DataFrame

    lines = [
        (number, column.header, row.name, row.x, value.mean, value.deviation)
        for number, column in enumerate(results.definition.columns)
        for row in results.definition.rows
        if (row.x is not None or row.is_floor) and (value := results.figure(row.name, column.key)) is not None
    ]
    frame = DataFrame(lines, columns=["number", "measure", "row", "x", "mean", "deviation"])
    frame = frame.astype({"x": float, "deviation": float}).sort_values(["number", "x"], kind="stable")
    return frame[frame.groupby("number").x.transform("count") > 0].drop(columns="number")


def series_figure(series: "DataFrame", *, axis: str) -> "Figure":
    """A panel a measure: its mean over seeds at each x, one standard deviation up and down where there are several.

    Args:
        series: as `series_frame` gives it.
        axis: the text below the panels.
    """
    measures = series.measure.unique()
    drawing = figure(3.2 * len(measures), 3.2)
    for axes, measure in zip(drawing.subplots(1, len(measures), squeeze=False)[0], measures, strict=True):
        lines = series[series.measure == measure]
        points, floors = lines[lines.x.notna()], lines[lines.x.isna()]
        axes.errorbar(points.x, points["mean"], yerr=points.deviation.fillna(0.0), marker="o", capsize=3)
        for number, floor in enumerate(floors.to_dict("records"), start=1):
            axes.axhline(floor["mean"], linestyle="--", linewidth=1, color=f"C{number}", label=floor["row"])
        axes.set_xticks(points.x, [f"{x:g}" for x in points.x], fontsize=8)
        _style(axes, measure)
    drawing.supxlabel(axis, fontsize=9)
    return drawing


# -- seeds: the runs of planned comparisons ------------------------------------------------------------------------


def plot_seeds(table: str, *, size: str | None = None, output: Path | None = None) -> str:
    """Every run of a table's planned comparisons: a panel a system and measure, a dot a seed, a bar the mean.

    A row's local results replace its tracked ones.

    Args:
        table: the table's name, or a YAML file of one that has `planned`.
        size: whose results; unset: `small`, or the table's only one.
        output: the plot, .png, .pdf or .svg; unset: `results/<table>/seeds-<size>.png`.
    """
    results = _results(table, size)
    frame = seeds_frame(results)
    if frame.empty:
        raise _nothing(results, "a measure of its planned comparisons")
    path = _path(results, "seeds", output)
    save(seeds_figure(frame), path)
    return f"{path}: {', '.join(frame.system.unique())}."


def seeds_frame(results: Results) -> "DataFrame":
    """A line a run and panel: `system measure row seed value`, a system's own runs last.

    `system` is the one that is compared; `row` is that system, or one that it is compared with.
    """
    from pandas import DataFrame

    plans = results.definition.planned
    lines = [
        (name, results.definition.column(key).header, row, seed, value)
        for name, key in dict.fromkeys((plan.row, plan.column) for plan in plans)
        for row in [*(plan.against for plan in plans if (plan.row, plan.column) == (name, key)), name]
        if (figure := results.figure(row, key)) is not None
        for seed, value in figure.values.items()
    ]
    return DataFrame(lines, columns=["system", "measure", "row", "seed", "value"])


def seeds_figure(seeds: "DataFrame") -> "Figure":
    """A panel a system and measure, a place a row.

    Args:
        seeds: as `seeds_frame` gives it.
    """
    panels = seeds.groupby(["system", "measure"], sort=False)
    drawing = figure(3.0 * len(panels), 3.6)
    for axes, ((system, measure), runs) in zip(drawing.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        rows = runs.row.unique()
        for place, row in enumerate(rows):
            values = runs.value[runs.row == row]
            axes.plot(np.linspace(place - 0.15, place + 0.15, len(values)), values, "o", color="C0", markersize=4)
            axes.hlines(values.mean(), place - 0.3, place + 0.3, color="black")
        axes.set_xticks(range(len(rows)), [textwrap.fill(row, 14, break_long_words=False) for row in rows], fontsize=7)
        axes.set_xlim(-0.6, len(rows) - 0.4)
        _style(axes, f"{system}: {measure}")
    return drawing


# -- quality against diversity ----------------------------------------------------------------------------------------

_QUALITY, _DIVERSITY = "valid_bleu", "self_bleu"
_MARKERS = "sDov^<>*"
"""Of temperatures, the lowest first."""


def plot_tradeoff(table: str, *, size: str | None = None, output: Path | None = None) -> str:
    """Validation BLEU-5 against Self-BLEU-5: a line a system, a marker a temperature, the chosen one filled.

    Figure 3 of Casas et al. (2020). There is a panel a group of rows; real text, which has no temperature, is a cross
    in all. An ellipse shows one standard deviation over samples. Means over seeds; a row's local results replace its
    tracked ones.

    Args:
        table: the table's name, or a YAML file of one; it has the measure `SampledBleu`.
        size: whose results; unset: `small`, or the table's only one.
        output: the plot, .png, .pdf or .svg; unset: `results/<table>/tradeoff-<size>.png`.
    """
    results = _results(table, size)
    frame = tradeoff_frame(results)
    if frame.empty:
        raise _nothing(results, f"{_QUALITY} and {_DIVERSITY}")
    path = _path(results, "tradeoff", output)
    save(tradeoff_figure(frame), path)
    return f"{path}: BLEU-5 against the validation split and Self-BLEU-5. {'; '.join(frame.system.unique())}."


def tradeoff_frame(results: Results) -> "DataFrame":
    """A line a system and temperature; columns `system group temperature chosen quality diversity` and deviations.

    Real text has one line, whose temperature is empty.
    """
    from pandas import DataFrame

    measured = ("quality", "diversity", "quality_deviation", "diversity_deviation")
    lines = []
    for row in results.definition.rows:
        names = {name for result in results.of(row.name) for name in result.metrics if name.startswith(f"{_QUALITY}_")}
        ends = sorted(end for name in names if not (end := name.removeprefix(_QUALITY)).startswith("_sd"))
        chosen = results.figure(row.name, "temperature")
        # Rounded: the mean of several seeds' 0.7 is not 0.7 to the last digit.
        temperature = None if chosen is None else str(round(chosen.mean, 6))
        for end in [""] if row.is_floor else ends:
            keys = (f"{_QUALITY}{end}", f"{_DIVERSITY}{end}", f"{_QUALITY}_sd{end}", f"{_DIVERSITY}_sd{end}")
            values = [results.figure(row.name, key) for key in keys]
            if values[0] is not None and values[1] is not None:
                name = end.removeprefix("_")
                means = [0.0 if value is None else value.mean for value in values]
                lines.append((row.name, row.group or "", name, name == temperature, *means))
    return DataFrame(lines, columns=["system", "group", "temperature", "chosen", *measured])


def tradeoff_figure(tradeoff: "DataFrame") -> "Figure":
    """A panel a group, from a frame as `tradeoff_frame` gives it."""
    real = tradeoff.temperature == ""
    groups = [*tradeoff.group[~real].unique()] or [""]
    drawing = figure(4.2 * len(groups), 4.2)
    from matplotlib.patches import Ellipse

    for axes, group in zip(drawing.subplots(1, len(groups), squeeze=False, sharey=True)[0], groups, strict=True):
        shown = tradeoff[real | (tradeoff.group == group)]
        for number, (system, points) in enumerate(shown.groupby("system", sort=False)):
            colour = f"C{number}"
            if (points.temperature == "").all():
                axes.plot(points.diversity, points.quality, "x", color=colour, label=system)
                continue
            axes.plot(points.diversity, points.quality, color=colour, label=system)
            for marker, point in zip(itertools.cycle(_MARKERS), points.itertuples(), strict=False):
                place = (point.diversity, point.quality)
                filled = colour if point.chosen else "white"
                axes.plot(*place, marker, color=colour, markersize=6, markerfacecolor=filled)
                axes.annotate(point.temperature, place, (4, 4), textcoords="offset points", fontsize=6)
                width, height = 2 * point.diversity_deviation, 2 * point.quality_deviation
                axes.add_patch(Ellipse(place, width, height, color=colour, alpha=0.2, linewidth=0))
        axes.set_xlabel("Self-BLEU-5 (less: more diverse)", fontsize=9)
        axes.set_ylabel("BLEU-5 against the validation split", fontsize=9)
        _style(axes, group)
    return drawing


# -- histograms -------------------------------------------------------------------------------------------------------

_BINS = 25
"""Of values that are not whole numbers."""
_ITEM_UNITS = {"perplexity": "nats a token", "word_perplexity": "nats a word"}
"""What the scores of single items are, where the column that has them is another measure."""


def plot_histogram(table: str, *, size: str | None = None, output: Path | None = None) -> str:
    """How a table's measures are distributed over texts: Figures 4 to 6 of Casas et al. (2020).

    Drawn are all rows and columns that have scores of single items, seeds pooled; those of a perplexity are nats a
    token or a word. A CSV file beside the plot holds the share of each bin. Returns their paths, means and counts.

    Args:
        table: the table's name, or a YAML file of one.
        size: whose results; unset: `small`, or the table's only one.
        output: the plot, .png, .pdf or .svg; unset: `results/<table>/histogram-<size>.png`.
    """
    results = _results(table, size)
    items = {
        (row.name, _ITEM_UNITS.get(column.key, column.header)): scores[~np.isnan(scores)]
        for row in results.definition.rows
        for column in results.definition.columns
        if (scores := pooled_scores(results.of(row.name), column.key)) is not None and not np.isnan(scores).all()
    }
    if not items:
        raise _nothing(results, "scores of single items")
    # A distribution is named by what tells it from the others: its row, its measure, or both.
    varied = [axis for axis in range(2) if len({place[axis] for place in items}) > 1] or [0, 1]
    named = {", ".join(place[axis] for axis in varied): scores for place, scores in items.items()}
    headers = {header for _, header in items}
    frame, path = histogram_frame(named), _path(results, "histogram", output)
    save(histogram_figure(frame, axis=results.definition.caption if len(headers) > 1 else headers.pop()), path)
    table_of_bins = frame.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    write_atomically(path.with_suffix(".csv"), table_of_bins)
    seeds = {row.name: len(results.of(row.name)) for row in results.definition.rows}
    means = [
        f"{name} {scores.mean():.3g} over {len(scores):,}" + (f" of {seeds[row]} seeds" if seeds[row] > 1 else "")
        for (row, _), (name, scores) in zip(items, named.items(), strict=True)
    ]
    return f"{path} and {path.with_suffix('.csv').name}. Means: {'; '.join(means)}."


def histogram_frame(items: Mapping[str, np.ndarray]) -> "DataFrame":
    """A line a bin: its edges `from` and `to`, and the share of each distribution's items in it.

    Whole numbers have a bin each, other values 25 of one width from the least to the largest.
    """
    from pandas import DataFrame

    values = np.concatenate([*items.values()])
    low, high = values.min(), values.max()
    whole = (values == np.round(values)).all()
    edges = np.arange(low - 0.5, high + 1) if whole else np.linspace(low, high, _BINS + 1)
    shares = {name: np.histogram(scores, edges)[0] / len(scores) for name, scores in items.items()}
    return DataFrame({"from": edges[:-1], "to": edges[1:], **shares})


def histogram_figure(bins: "DataFrame", *, axis: str) -> "Figure":
    """Steps of all distributions over each other, the area below each filled.

    Args:
        bins: as `histogram_frame` gives it.
        axis: the text below the plot.
    """
    drawing = figure(6.0, 3.6)
    axes, edges = drawing.add_subplot(), [*bins["from"], bins["to"].iloc[-1]]
    for name in [*bins][2:]:
        axes.stairs(100 * bins[name], edges, label=name, fill=True, alpha=0.25)
        axes.stairs(100 * bins[name], edges, color=axes.patches[-1].get_facecolor()[:3])
    axes.set_xlabel(axis, fontsize=9)
    axes.set_ylabel("% of texts", fontsize=9)
    _style(axes)
    return drawing
