"""One page of everything at hand: tables beside the published numbers, curves, pictures, and what is missing."""

import base64
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import groupby
from pathlib import Path

from depgen.errors import UserError
from depgen.locations import results_root, write_atomically
from depgen.reporting.experiments import own_tables, table_names
from depgen.reporting.plots import plot_curves, plot_series
from depgen.reporting.render import Page, page_of
from depgen.reporting.results import load_results
from depgen.reporting.table import TableDefinition, load_definition
from depgen.training import provenance

_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
_TITLE = re.compile(r"<title>(.+?)</title>", re.DOTALL)
_DRAWN_HERE = re.compile(r"(curves|series)(-[^-]+)?\.png")  # another name is of another cost
"""Pictures that the page draws anew from the results."""
_OWN, _OTHERS = "Your own tables", "Beyond the papers"
_PAPERS = {"dmlm": "DMLM (Yang & Wan, 2022)", "udgn": "UDGN (Shen et al., 2022)", "dclm": "DCLM (Ji et al., 2015)"}
"""By what the names of their tables begin with."""


@dataclass(frozen=True)
class Picture:
    """A picture with its title and its content as a data URI, or the HTML of a `page` in its place."""

    title: str
    source: str = ""
    page: str | None = None


@dataclass(frozen=True)
class Section:
    """A table at a size that has results; `paper` says whose it is."""

    paper: str
    page: Page
    pictures: tuple[Picture, ...]

    @property
    def anchor(self) -> str:
        """What links within the report name it by."""
        return f"{self.page.definition.table}-{self.page.size}"

    def verdicts(self, *ends: str) -> list[list[str]]:
        """The lines of its verdicts that end so; of a table of one's own all."""
        frame = self.page.extras.get("Verdicts")
        lines: list[list[str]] = [] if frame is None else frame.to_numpy().tolist()
        return [line for line in lines if line[-1] in ends or self.paper == _OWN]

    @property
    def lacking(self) -> list[str]:
        """Rows without numbers of ours, and measures that were not computed."""
        rows = [row + label for row, label in self.page.labels.items() if label.endswith(" yet)")]
        return [*rows, *(note for note in self.page.notes if note.startswith("Not computed"))]


def report(*, tables: Sequence[str] = (), output: Path | None = None) -> str:
    """Where the page went, what it holds, and how much is missing.

    The page opens with what the tables' comparisons found. Then come the tables at every size that has results, local
    or tracked: your own ones first, then paper by paper. Measures, curves and series are drawn from the results; all
    other pictures and pages are those under `results/*/`. The page needs no other file. A table or a result that does
    not read as one is listed, with the reason, under what is missing.

    Args:
        tables: only these, by name or by the path of their file; unset: every table.
        output: the page; unset: `results/report.html`.
    """
    path, known = output or results_root() / "report.html", _tables()
    sections, errors, unseen = list[Section](), dict[str, str](), list[TableDefinition]()
    for name, paper in ({name: known.get(name, _OWN) for name in tables} or known).items():
        try:
            definition = load_definition(name)
            of_table = list(_sections(definition, paper))
        except UserError as error:
            errors[name] = str(error)
            continue
        sections += of_table
        unseen += [] if of_table else [definition]
    shown = {section.page.definition.table for section in sections}
    folders = () if tables else sorted(path for path in results_root().glob("*") if path.is_dir())
    others = {each.name: some for each in folders if each.name not in shown and (some := list(_pictures(each)))}
    write_atomically(path, _html(sections, errors, unseen, others))
    drawn = sum(len(section.pictures) for section in sections) + sum(map(len, others.values()))
    missing = sum(len(section.lacking) for section in sections) + len(errors) + len(unseen)
    return f"{path}: {len(sections)} tables, {drawn} pictures; {missing} things are missing and named there."


def _tables() -> dict[str, str]:
    """Every table, by its name or the path of its file, with whose it is: your own first, then paper by paper."""
    papers = {name: _PAPERS.get(name.partition("_")[0], _OTHERS) for name in table_names()}
    order = [*_PAPERS.values(), _OTHERS]
    return dict.fromkeys(own_tables(), _OWN) | dict(sorted(papers.items(), key=lambda each: order.index(each[1])))


def _html(
    sections: Sequence[Section],
    errors: Mapping[str, str],
    unseen: Sequence[TableDefinition],
    others: Mapping[str, Sequence[Picture]],
) -> str:
    """The page's HTML; all text in it is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("depgen.reporting", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(
        groups={paper: list(some) for paper, some in groupby(sections, key=lambda each: each.paper)},
        sections=sections,
        errors=errors,
        unseen=unseen,
        others=others,
        date=provenance.today(),
        commit=provenance.short_commit(provenance.commit()),
    )


def _sections(definition: TableDefinition, paper: str) -> Iterator[Section]:
    """A table at each size that has results, the pictures of its folder with the first."""
    kept = tuple(_pictures(results_root() / definition.table))
    for size in definition.sizes:
        results = load_results(definition, size=size)
        if results.runs:
            yield Section(paper, page_of(results), (*_drawn(definition, size), *kept))
            kept = ()


def _drawn(definition: TableDefinition, size: str) -> Iterator[Picture]:
    """Learning curves of a table's rows, and its series, where it has such; a reason where none is drawn."""
    drawings: list[tuple[Callable[..., str], str]] = []
    if any(row.x is not None for row in definition.rows):
        drawings.append((plot_series, "Each measure against what the rows vary."))
    if any(column.is_perplexity for column in definition.columns):
        title = "Training: validation perplexity against training tokens seen; the best point of each run marked."
        drawings.append((plot_curves, title))
    for draw, title in drawings:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "picture.png"
            try:
                draw(definition.given or definition.table, size=size, output=path)
            except UserError as error:  # no row keeps a curve, or there is no matplotlib
                yield Picture(f"Not drawn: {error}")
            else:
                yield Picture(title, _uri(path))


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
