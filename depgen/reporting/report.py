"""One page of results: tables beside the published numbers, curves and pictures."""

import base64
from pathlib import Path

from depgen.locations import results_root, write_atomically
from depgen.reporting.plots import plot_curves, plot_series
from depgen.reporting.render import Page, page_of
from depgen.reporting.results import load_results
from depgen.reporting.table import load_definition, table_names
from depgen.training import provenance

_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}


def write_report(table: str | None, path: Path) -> str:
    """Write the page of one table, or of all with local results, and say what it holds.

    It has the tables at every size that has results, and the pictures and pages under `results/*/`, for which curves
    and series are drawn anew. Where no table has local results, it has all with tracked ones, and names the others.
    The page needs no other file.
    """
    import pandas as pd
    from jinja2 import Environment, PackageLoader, StrictUndefined

    definitions = [load_definition(name) for name in ([table] if table else table_names())]
    at_hand = [load_results(definition, size=size) for definition in definitions for size in definition.sizes]
    at_hand = [results for results in at_hand if results.runs]
    own = [results for results in at_hand if results.local and table is None]
    pages = list[Page]()
    for results in own or at_hand:
        definition = results.definition
        pages.append(page_of(results))
        if any(run.curve for run in results.runs):
            plot_curves(str(definition.given), size=results.size)
        if any(row.x is not None and results.of(row.name) for row in definition.rows):
            plot_series(str(definition.given), size=results.size)
    shown = {page.definition.table for page in pages}
    missing = [] if own else [definition for definition in definitions if definition.table not in shown]
    folders = [folder for folder in sorted(results_root().glob("*")) if table is None or folder.name in shown]
    environment = Environment(
        loader=PackageLoader("depgen.reporting", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    with pd.option_context("display.max_colwidth", None):  # cells are shown whole
        text = environment.get_template("report.html").render(
            pages=pages,
            folders={folder.name: pictures for folder in folders if (pictures := _pictures(folder))},
            missing=missing,
            date=provenance.today(),
            commit=provenance.short_commit(provenance.commit()),
        )
    write_atomically(path, text)
    others = (
        f"{len(definitions) - len(shown)} others have no local results"
        if own
        else f"{len(missing)} others have no results"
    )
    return f"{path}: {len(pages)} tables; {others}."


def _pictures(folder: Path) -> dict[str, str]:
    """What lies in a folder of results, by name: a picture as a data URI, an HTML page (of trees) as it is."""
    shown = {}
    for path in sorted(folder.glob("*")):
        if path.suffix in _TYPES:
            shown[path.stem] = f"data:{_TYPES[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"
        elif path.suffix == ".html":
            shown[path.stem] = path.read_text(encoding="utf-8")
    return shown
