"""One page of everything at hand: tables beside the published numbers, curves, pictures, and what is missing."""

import base64
import logging
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import groupby
from pathlib import Path

from depgen.errors import UserError
from depgen.locations import results_root, write_atomically
from depgen.reporting.compare import Verdict
from depgen.reporting.curves import draw_curves
from depgen.reporting.definition import TableDefinition, load_definition
from depgen.reporting.dot_plots import Panel, panels_of
from depgen.reporting.experiments import own_tables, table_names
from depgen.reporting.findings import DECIDED, ITEMS_ONLY, Finding, counted
from depgen.reporting.layout import Head, Layout, Line, lay_out
from depgen.reporting.plotting import check_picture
from depgen.reporting.results import Result
from depgen.reporting.series import draw_series
from depgen.reporting.store import read_ours
from depgen.reporting.tables import head_of, parts_of, show
from depgen.training import provenance

log = logging.getLogger(__name__)
_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
_TITLE = re.compile(r"<title>(.+?)</title>", re.DOTALL)
_DRAWN_HERE = re.compile(r"(curves|series)(-[^-]+)?\.png")  # another name is of another cost
"""Pictures that the page draws anew from the results."""
_OURS = ("local", "joined", "measured")


@dataclass(frozen=True)
class Picture:
    """A picture or page that is carried within the report.

    Attributes:
        title: of the picture, below it.
        source: its content, as a data URI.
        page: the HTML of a page, in place of a picture.
    """

    title: str
    source: str = ""
    page: str | None = None


@dataclass(frozen=True)
class Section:
    """A table at a size.

    Attributes:
        paper: whose table it is; tables of one's own, and those of no paper, have names of their own.
        layout: the table.
        provenance: data, seeds, machines and days.
        pictures: drawn here, and those of its folder.
        panels: its measures as dots.
    """

    paper: str
    layout: Layout
    provenance: tuple[str, ...]
    pictures: tuple[Picture, ...]
    panels: tuple[Panel, ...]

    @property
    def anchor(self) -> str:
        """What links within the page name it by."""
        return f"{self.layout.definition.table}-{self.layout.size}"

    @property
    def systems(self) -> Iterator[tuple[Head, list[Line], list[float | None]]]:
        """Each system's head and lines, and the numbers of ours that columns are sorted by, where it has such."""
        for _, group in groupby(self.layout.lines, key=lambda line: line.row.name):
            lines = list(group)
            head, ours = lines[0].head, [line for line in lines if line.numbers in _OURS]
            assert head is not None
            best = min(ours, key=lambda line: _OURS.index(line.numbers), default=None)
            yield head, lines, [None if best is None else cell.value for cell in (best or lines[0]).cells]


@dataclass(frozen=True)
class Gap:
    """What a table lacks that is shown; one that cannot be shown has no anchor."""

    caption: str
    anchor: str
    lines: tuple[str, ...]


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
    path = output or results_root() / "report.html"
    sections, gaps, unseen = list[Section](), list[Gap](), list[TableDefinition]()
    every = _tables()
    for name, paper in [(name, dict(every).get(name, _OWN)) for name in tables] or every:
        try:
            definition = load_definition(name)
        except UserError as error:
            gaps.append(Gap(name, "", (str(error),)))
            continue
        found, lacking = _sections(definition, paper)
        sections += found
        gaps += lacking
        unseen += [] if found or lacking else [definition]
    others = {
        folder.name: pictures
        for folder in ([] if tables else _folders())
        if folder.name not in {section.layout.definition.table for section in sections}
        and (pictures := tuple(_pictures(folder)))
    }
    write_atomically(path, render_page(sections, gaps, unseen, others))
    drawn = sum(len(section.pictures) for section in sections) + sum(map(len, others.values()))
    missing = sum(len(gap.lines) for gap in gaps) + len(unseen)
    return f"{path}: {len(sections)} tables, {drawn} pictures; {missing} things are missing and named there."


_OWN, _OTHERS = "Your own tables", "Beyond the papers"
_PAPERS = {
    "dmlm": "DMLM (Yang & Wan, 2022)",
    "udgn": "UDGN (Shen et al., 2022)",
    "dclm": "DCLM (Ji et al., 2015)",
}
"""By what the names of its tables begin with."""


def _tables() -> list[tuple[str, str]]:
    """Every table, by its name or the path of its file, with whose it is: your own first, then paper by paper."""
    papers = {name: _PAPERS.get(name.partition("_")[0], _OTHERS) for name in table_names()}
    order = [*_PAPERS.values(), _OTHERS]
    package = sorted(papers.items(), key=lambda each: order.index(each[1]))
    return [*((path, _OWN) for path in own_tables()), *package]


def render_page(
    sections: Sequence[Section],
    gaps: Sequence[Gap],
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
        summary=counted([each for section in sections for each in section.layout.found]),
        decided=_found(sections, DECIDED, own=True),
        items_only=_found(sections, ITEMS_ONLY, own=False),
        gaps=gaps,
        unseen=unseen,
        others=others,
        date=provenance.today(),
        commit=provenance.short_commit(provenance.commit()),
        head_of=head_of,
        show=show,
        parts_of=parts_of,
        counted=counted,
    )


def _found(
    sections: Sequence[Section], verdicts: Collection[Verdict], *, own: bool
) -> list[tuple[Section, list[Finding]]]:
    """The findings of these verdicts, table by table; of tables of one's own all if `own`, else none."""
    found = []
    for section in sections:
        is_own = section.paper == _OWN
        chosen = [each for each in section.layout.found if (own if is_own else each.verdict in verdicts)]
        found += [(section, chosen)] if chosen else []
    return found


def _sections(definition: TableDefinition, paper: str) -> tuple[list[Section], list[Gap]]:
    """A table at each size that has results, the pictures of its folder with the first; and what each lacks."""
    sections, gaps = list[Section](), list[Gap]()
    for size in definition.sizes:
        caption, anchor = f"{definition.caption} ({size})", f"{definition.table}-{size}"
        try:
            ours = read_ours(definition, size=size)
            if not ours.results:
                continue
            layout = lay_out(ours)
        except UserError as error:
            gaps.append(Gap(caption, "", (str(error),)))
            continue
        kept = () if sections else tuple(_pictures(results_root() / definition.table))
        sections.append(
            Section(
                paper=paper,
                layout=layout,
                provenance=tuple(_provenance(definition, ours.results)),
                pictures=(*_drawn(definition, size), *kept),
                panels=() if _is_series(definition) else tuple(panels_of(layout)),
            )
        )
        lines = tuple(_lacking(layout))
        gaps += [Gap(caption, anchor, lines)] if lines else []
    return sections, gaps


def _provenance(definition: TableDefinition, results: Sequence[Result]) -> Iterator[str]:
    """Data with its size, seeds, machines and days, over all rows."""
    corpora = dict.fromkeys(
        result.data.corpus
        + (" (reduced)" if result.data.reduced else "")
        + ("" if result.data.train_documents is None else f", {result.data.train_documents:,} training documents")
        for result in results
    )
    yield "data: " + "; ".join(corpora)
    seeds = {result.seed for result in results if not definition.row(result.row).is_floor}
    if seeds:
        yield "seeds: " + ", ".join(map(str, sorted(seeds)))
    yield "; ".join(dict.fromkeys(result.hardware for result in results))
    days = sorted({result.date for result in results})
    yield days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def _lacking(layout: Layout) -> Iterator[str]:
    """Rows without numbers of ours, and measures that were not computed."""
    rows: dict[str, list[str]] = {}
    for line in layout.lines:
        if line.head is not None and line.head.missing is not None:
            rows.setdefault(line.head.missing, []).append(line.row.name)
    for reason, names in rows.items():
        yield f"{reason}: {'; '.join(names)}"
    yield from (note for note in layout.notes if note.startswith("Not computed"))


def _drawn(definition: TableDefinition, size: str) -> Iterator[Picture]:
    """Learning curves of a table's rows, and its series, where it has such."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.png"
        try:
            check_picture(path)
        except UserError as error:  # no matplotlib: the page says so in the picture's place
            yield Picture(f"Curves are not drawn: {error}")
            return
        drawings: list[tuple[Callable[..., str], str]] = []
        if _is_series(definition):
            drawings.append((draw_series, "Each measure against what the rows vary"))
        if any(column.is_perplexity for column in definition.columns):
            drawings.append((draw_curves, _CURVES))
        for draw, title in drawings:
            try:
                draw(definition.given or definition.table, size=size, output=path)
            except UserError as error:  # no row keeps a curve, say
                log.info("%s, %s: %s", definition.table, size, error)
            else:
                yield Picture(f"{title}.", _uri(path))


_CURVES = "Training: validation perplexity against training tokens seen; the best point of each run marked"


def _is_series(definition: TableDefinition) -> bool:
    """Whether its rows vary one number."""
    return any(row.x is not None for row in definition.rows)


def _folders() -> list[Path]:
    root = results_root()
    return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


def _pictures(folder: Path) -> Iterator[Picture]:
    """Heat maps, trees, attention and case studies that lie in a folder of results."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.suffix in _TYPES and not _DRAWN_HERE.fullmatch(path.name):
            yield Picture(f"{folder.name}: {path.stem}", _uri(path))
        elif path.suffix == ".html":
            page = path.read_text(encoding="utf-8")
            title = _TITLE.search(page)
            yield Picture(f"{folder.name}: {path.stem if title is None else unescape(title[1])}", page=page)


def _uri(path: Path) -> str:
    return f"data:{_TYPES[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"
