"""One page of everything at hand: tables beside the published numbers, curves, pictures, and what is missing."""

import base64
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path

from depgen.locations import results_root, write_atomically
from depgen.reporting.experiments import table_names
from depgen.reporting.plots import plot_curves, plot_series
from depgen.reporting.render import Page, page_of
from depgen.reporting.results import Results, load_results
from depgen.reporting.table import TableDefinition, load_definition
from depgen.training import provenance

_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
_TITLE = re.compile(r"<title>(.+?)</title>", re.DOTALL)
_DRAWN_HERE = re.compile(r"(curves|series)(-[^-]+)?\.png")  # another name is of another cost
"""Pictures that the page draws anew from the results."""


@dataclass(frozen=True)
class Picture:
    """A picture with its title and its content as a data URI, or the HTML of a `page` in its place."""

    title: str
    source: str = ""
    page: str = ""


def write_report(table: str | None, path: Path) -> str:
    """Write the page of one table, or of all, and say what it holds.

    It has the tables at every size that has results, local or tracked. Curves and series are drawn from the results;
    all other pictures and pages are those under `results/*/`. The page needs no other file.
    """
    import pandas as pd
    from jinja2 import Environment, PackageLoader, StrictUndefined

    sections, missing = list[tuple[Page, list[Picture]]](), list[TableDefinition]()
    for name in [table] if table else table_names():
        definition = load_definition(name)
        pages = [load_results(definition, size=size) for size in definition.sizes]
        pictures = [*_pictures(results_root() / definition.table)]
        for results in pages:
            if results.runs:
                sections.append((page_of(results), [*_drawn(results), *pictures]))
                pictures = []  # with the first size alone
        missing += [] if any(results.runs for results in pages) else [definition]
    shown = {page.definition.table for page, _ in sections}
    folders = () if table else sorted(folder for folder in results_root().glob("*") if folder.name not in shown)
    environment = Environment(
        loader=PackageLoader("depgen.reporting", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    with pd.option_context("display.max_colwidth", None):  # cells are shown whole
        text = environment.get_template("report.html").render(
            sections=sections,
            others={folder.name: pictures for folder in folders if (pictures := [*_pictures(folder)])},
            missing=missing,
            date=provenance.today(),
            commit=provenance.short_commit(provenance.commit()),
        )
    write_atomically(path, text)
    return f"{path}: {len(sections)} tables; {len(missing)} others have no results."


def _drawn(results: Results) -> Iterator[Picture]:
    """Learning curves of a table's rows, and its series, where it has such."""
    definition = results.definition
    has_curves = any(run.curve for run in results.runs)
    has_series = any(row.x is not None and results.of(row.name) for row in definition.rows)
    curves = "Training: validation perplexity against training tokens seen; the best point of each run marked."
    for draw, title, is_there in (
        (plot_series, "Each measure against what the rows vary.", has_series),
        (plot_curves, curves, has_curves),
    ):
        if is_there:
            with tempfile.TemporaryDirectory() as folder:
                picture = Path(folder) / "picture.png"
                draw(definition.given or definition.table, size=results.size, output=picture)
                yield Picture(title, _uri(picture))


def _pictures(folder: Path) -> Iterator[Picture]:
    """Heat maps, trees, attention and case studies that lie in a folder of results."""
    for path in sorted(folder.glob("*")):
        if path.suffix in _TYPES and not _DRAWN_HERE.fullmatch(path.name):
            yield Picture(f"{folder.name}: {path.stem}", _uri(path))
        elif path.suffix == ".html":
            page = path.read_text(encoding="utf-8")
            title = _TITLE.search(page)
            yield Picture(f"{folder.name}: {path.stem if title is None else unescape(title[1])}", page=page)


def _uri(path: Path) -> str:
    return f"data:{_TYPES[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"
