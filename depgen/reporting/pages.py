"""The verb `table`: results printed beside the published ones, kept in the tracked tree, or as one page of HTML."""

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from depgen.errors import UserError
from depgen.locations import results_root, write_atomically
from depgen.reporting.compare import compare
from depgen.reporting.plots import plot_curves, plot_seeds, plot_series
from depgen.reporting.render import Format, Page, page_of, render
from depgen.reporting.results import Result, Results, load_results, measured_page, measured_path, tracked_lines
from depgen.reporting.table import TableDefinition, chosen_tables, load_definition, table_names
from depgen.training import provenance

_FILES: dict[Format, str] = {"markdown": "md", "latex": "tex", "csv": "csv", "text": "txt"}
"""Formats that are written as files, with their endings."""


def table(
    table: str | None = None,
    *,
    size: str | None = None,
    format: Format = "markdown",
    output: Path | None = None,
    files: bool = False,
    record: bool = False,
    report: bool = False,
) -> str:
    """A table of our results next to the published ones; a row's local results replace its tracked ones.

    Args:
        table: its name; unset: every table, each at the given size or at its only one.
        size: whose results; unset: `small`, or the table's only one.
        format: of the returned text; `json` holds every number and every comparison with its p-values.
        output: a file for the returned text, or for the report.
        files: write it as Markdown, LaTeX, CSV and text under `results/<table>/` as well.
        record: add the local results to the tracked ones, in `experiments/measured/`, instead.
        report: write one HTML page of this table, or of all with local results, with curves and pictures, at every size
            with results, instead: `results/report.html`.
    """
    if record:
        tables = chosen_tables(table, size)
        return "\n".join(line for definition, chosen in tables for line in record_table(definition, chosen))
    if report:
        return write_report(table, output or results_root() / "report.html")
    shown: list[str] = []
    for definition, chosen in chosen_tables(table, size):
        page = page_of(load_results(definition, size=chosen))
        text = render(page, format=format)
        for each, ending in _FILES.items() if files else ():
            path = results_root() / definition.table / f"table-{chosen}.{ending}"
            write_atomically(path, render(page, format=each))
        if format == "csv" and shown:
            text = text.partition("\n")[2]  # one head for all
        shown.append(text)
    whole = ("" if format == "csv" else "\n").join(shown)
    if output is not None:
        write_atomically(output, whole)
    return whole


# -- tracked results --------------------------------------------------------------------------------------------------

CURVE_POINTS = 40
_NOT_IN_LINE = ("table", "items", "run", "curve", "clock")
"""The file is named by the table, items and runs stay on this machine, and curves have lines of their own."""


def record_table(definition: TableDefinition, size: str) -> Iterator[str]:
    """Which tracked files of a table were written: `experiments/measured/<table>.jsonl` and its page.

    A line for each local result is added, and lines of its curve and of the intervals and comparisons that items of
    single seeds gave. Only lines of a seed that was made again are replaced. The page is written again if the table's
    definition has changed, too.
    """
    results, path = load_results(definition, size=size), measured_path(definition.table)
    runs = [run for run in results.runs if run.row in results.local]
    if runs:
        if changed := [f"{run.row}, seed {run.seed}" for run in runs if _is_outdated(definition, run)]:
            raise UserError(
                f"{results_root() / definition.table}: {'; '.join(changed)}: made before the experiment was changed, "
                f"so that nothing was recorded. Make it again: {definition.command(size, option='--redo')} --rows ROW."
            )
        again = {(run.row, run.seed) for run in runs}
        old = [line for line in tracked_lines(definition.table) if line["size"] != size or not _seeds_of(line) & again]
        lines = [*(json.dumps(line, ensure_ascii=False) for line in old), *_lines(results, runs)]
        write_atomically(path, "".join(f"{line}\n" for line in lines))
        yield f"{path}: size {size}, {'; '.join(dict.fromkeys(run.row for run in runs))}"
    page, text = measured_page(definition.table, size), tracked_page(definition, size)
    if results.runs and (not page.is_file() or page.read_text("utf-8") != text):
        write_atomically(page, text)
        yield f"{page}: the tracked results, size {size}"


def tracked_page(definition: TableDefinition, size: str) -> str:
    """The table of the tracked results alone in Markdown, the same on every machine."""
    return render(page_of(load_results(definition, size=size, local=False)), format="markdown")


def _is_outdated(definition: TableDefinition, run: Result) -> bool:
    """Whether an experiment gives something else today; the sizes of a corpus depend on no configuration."""
    from depgen.reporting.jobs import Job  # torch

    row = definition.row(run.row)
    return row.floor != "corpus" and run.config_sha256 != Job(definition, row, run.size, run.seed).config.digest


def _seeds_of(line: dict[str, Any]) -> set[tuple[str, int]]:
    """The rows and seeds that a tracked line is of."""
    seeds = [(line["row"], seed) for seed in line.get("seeds") or [line.get("seed")]]
    return {*seeds, *((line["against"], seed) for seed in line.get("other_seeds") or ())}


def _lines(results: Results, runs: Sequence[Result]) -> Iterator[str]:
    """The lines of local results, of their curves, and of what their items gave, comparisons in one direction."""
    for run in runs:
        place = {"row": run.row, "size": run.size, "seed": run.seed}
        content = {name: value for name, value in asdict(run).items() if name not in _NOT_IN_LINE}
        yield _line("result", place | content, digits=6)
        kept = thin(run.curve or run.clock, CURVE_POINTS)
        curve, clock = ([points[index] for index in kept if points] for points in (run.curve, run.clock))
        if kept:
            yield _line("curve", {**place, "curve": curve, "clock": clock}, digits=6)
    seeds = {place: sorted(figure.values) for place, figure in results.figures.items()}
    of_rows: dict[str, dict[str, Any]] = {}
    for (row, key), ends in results.intervals.items():
        if row in results.local:  # a line for the figures of a row that are over the same seeds
            line = {"row": row, "size": results.size, "seeds": seeds[row, key]}
            of_rows.setdefault(str(line), {**line, "intervals": {}})["intervals"][key] = ends
    yield from (_line("intervals", line) for line in of_rows.values())
    done = set[tuple[str, frozenset[str]]]()
    for item in () if results.definition.planned else compare(results):  # planned ones follow from the values
        pair = (item.column, frozenset((item.row, item.other)))
        if pair in done or not {item.row, item.other} <= results.local or {item.p_items, item.interval} == {None}:
            continue
        done.add(pair)
        content = {
            "row": item.row, "size": results.size, "against": item.other, "measure": item.column,
            "test": results.definition.column(item.column).test, "seeds": seeds[item.row, item.column],
            "other_seeds": seeds[item.other, item.column], "gain": item.gain, "p": item.p_items, "items": item.items,
            "interval": item.interval,
        }  # fmt: skip
        yield _line("comparison", content)


def _line(kind: str, content: dict[str, Any], *, digits: int = 10) -> str:
    """A tracked line: numbers are rounded to `digits` digits, empty values are left out."""
    text = json.dumps(content, allow_nan=False)
    rounded = json.loads(text, parse_float=lambda number: float(f"{float(number):.{digits}g}"))
    plain = {name: value for name, value in rounded.items() if value not in (None, {}, [])}
    return json.dumps({"kind": kind, **plain}, ensure_ascii=False)


def thin(curve: Sequence[tuple[float, float]], points: int) -> list[int]:
    """Which points of a curve to keep, at most `points`, evenly by rank: both ends and the lowest value stay.

    >>> thin([(0.0, 9.0), (1.0, 3.0), (2.0, 4.0), (3.0, 5.0), (4.0, 6.0)], 3)
    [0, 1, 4]
    """
    if len(curve) <= points:
        return list(range(len(curve)))
    kept = {round(index * (len(curve) - 1) / (points - 2)) for index in range(points - 1)} if points > 2 else {0}
    lowest = min(range(len(curve)), key=lambda index: curve[index][1])
    return sorted(kept | {lowest})


# -- a page of HTML ---------------------------------------------------------------------------------------------------

_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}


def write_report(table: str | None, path: Path) -> str:
    """Write the page of one table, or of all with local results, and say what it holds.

    It has the tables at every size that has results, and the pictures and pages under `results/*/`, for which curves,
    series and seeds are drawn again. Where no table has local results, it has all with tracked ones, and names the
    others. The page needs no other file.
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
        if definition.planned:
            plot_seeds(str(definition.given), size=results.size)
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
