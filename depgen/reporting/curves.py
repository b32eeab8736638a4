"""Validation perplexity against training tokens seen: where each system stops improving."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from depgen.errors import UserError
from depgen.locations import results_root
from depgen.reporting.definition import TableDefinition, load_definition
from depgen.reporting.measured import join, read_measured
from depgen.reporting.plotting import figure, save
from depgen.reporting.provenance import choose_profile
from depgen.reporting.results import Result, read_results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)


def draw_curves(table: str, *, profile: str | None = None, rows: Sequence[str] = (), output: Path | None = None) -> str:
    """Validation perplexity against training tokens seen, drawn as one line a system and seed.

    Returns where the picture went, and the lowest point of each line. Local results go before tracked ones of the same
    seed.

    Args:
        table: the table's name, or a YAML file of one.
        profile: whose results; unset: `paper` where a GPU is found, `small` elsewhere.
        rows: which systems; none: all that have a curve. One without a curve is named in the log.
        output: the PNG; unset: `results/<table>/curves-<profile>.png`.

    Raises:
        UserError: there is no curve, no such row, or no matplotlib.
    """
    definition = load_definition(table)
    profile, _ = choose_profile(definition.profiles, profile)
    wanted = [definition.row(name).name for name in rows] or [row.name for row in definition.rows]
    found = {name: results for name, results in _results(definition, profile).items() if name in wanted}
    if not found:
        command = f"depgen reproduce {definition.argument} --profile {profile}"
        raise UserError(f"No validation curve at profile {profile}. Make one: {command}.")
    for name in wanted if rows else ():
        if name not in found:
            logger.warning("%s has no validation curve at profile %s and is not drawn.", name, profile)
    path = output or results_root() / definition.table / f"curves-{profile}.png"
    save(curves_figure(found, title=f"{definition.caption} ({profile})"), path)
    lowest = [
        f"{name}, seed {result.seed}: lowest {y:.2f} after {x:,.0f} tokens"
        for name, results in found.items()
        for result in results
        for x, y in [min(result.curve, key=lambda point: point[1])]
    ]
    return "\n".join([f"{path}: validation perplexity against training tokens seen.", *lowest])


def _results(definition: TableDefinition, profile: str) -> dict[str, list[Result]]:
    """Results with a curve by row: local ones, and tracked ones of other seeds where these are of the same make."""
    measured = read_measured(definition, profile=profile)
    found = {}
    for row in definition.rows:
        local = [result for result in read_results(definition.table, row.slug, profile=profile) if result.curve]
        tracked = [result for result in measured[row.name].results if result.curve] if row.name in measured else []
        if local or tracked:
            found[row.name] = list(join(local, tracked)) if local else tracked
    return found


def curves_figure(results: dict[str, list[Result]], *, title: str) -> "Figure":
    """Lines of one colour a system, the lowest point of each marked, perplexity on a logarithmic axis."""
    drawing = figure(7.0, 4.5)
    axes = drawing.add_subplot()
    for number, (name, seeds) in enumerate(results.items()):
        for result in seeds:
            label = name if result is seeds[0] else None
            x, y = zip(*result.curve, strict=True)
            axes.plot(x, y, color=f"C{number}", alpha=0.8, label=label)
            axes.plot(*min(result.curve, key=lambda point: point[1]), "o", color=f"C{number}", markersize=4)
    axes.set_yscale("log")
    for show in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        show("{x:.4g}")
    axes.set_xlabel("training tokens seen, all phases")
    axes.set_ylabel("validation perplexity")
    axes.set_title(title, fontsize=10)
    axes.legend(fontsize=8)
    axes.grid(visible=True, which="both", alpha=0.3)
    return drawing
