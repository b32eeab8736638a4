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
from depgen.reporting.definition import TableDefinition, load_definition
from depgen.reporting.experiments import own_tables, table_names
from depgen.reporting.extras import DECIDED, ITEMS_ONLY, Finding, counted, data_in_words
from depgen.reporting.layout import Layout, lay_out
from depgen.reporting.pictures.curves import draw_curves
from depgen.reporting.pictures.plotting import check_picture
from depgen.reporting.pictures.series import draw_series
from depgen.reporting.store import Ours, read_ours
from depgen.training import provenance

log = logging.getLogger(__name__)
_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
_TITLE = re.compile(r"<title>(.+?)</title>", re.DOTALL)
_DRAWN_HERE = re.compile(r"(curves|series)(-[^-]+)?\.png")  # another name is of another cost
"""Pictures that the page draws anew from the results."""


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
        ours: its numbers.
        layout: the table.
        pictures: drawn here, and those of its folder.
    """

    paper: str
    ours: Ours
    layout: Layout
    pictures: tuple[Picture, ...]

    @property
    def anchor(self) -> str:
        """What links within the page name it by."""
        return f"{self.layout.definition.table}-{self.layout.size}"

    @property
    def provenance(self) -> list[str]:
        """Data with its size, seeds, machines and days, over all rows."""
        results = self.ours.results
        corpora = dict.fromkeys(data_in_words(each, "training documents") for each in results)
        seeds = sorted({each.seed for each in results if not self.ours.definition.row(each.row).is_floor})
        days = sorted({each.date for each in results})
        return [
            f"data: {'; '.join(corpora)}",
            *([f"seeds: {', '.join(map(str, seeds))}"] if seeds else []),
            "; ".join(dict.fromkeys(each.hardware for each in results)),
            days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}",
        ]

    @property
    def lacking(self) -> list[str]:
        """Rows without numbers of ours, and measures that were not computed."""
        rows: dict[str, list[str]] = {}
        for system in self.layout.systems:
            if system.missing is not None:
                rows.setdefault(system.missing, []).append(system.row.name)
        missing = [f"{reason}: {'; '.join(names)}" for reason, names in rows.items()]
        return [*missing, *(note for note in self.layout.notes if note.startswith("Not computed"))]


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
    sections, errors, unseen = list[Section](), dict[str, str](), list[TableDefinition]()
    every = _tables()
    for name, paper in ({name: every.get(name, _OWN) for name in tables} or every).items():
        try:
            definition = load_definition(name)
        except UserError as error:
            errors[name] = str(error)
            continue
        found, unread = _sections(definition, paper)
        sections += found
        errors |= unread
        unseen += [] if found or unread else [definition]
    shown = {section.layout.definition.table for section in sections}
    folders = () if tables else sorted(path for path in results_root().glob("*") if path.is_dir())
    others = {each.name: some for each in folders if each.name not in shown and (some := list(_pictures(each)))}
    write_atomically(path, _page(sections, errors, unseen, others))
    drawn = sum(len(section.pictures) for section in sections) + sum(map(len, others.values()))
    missing = sum(len(section.lacking) for section in sections) + len(errors) + len(unseen)
    return f"{path}: {len(sections)} tables, {drawn} pictures; {missing} things are missing and named there."


_OWN, _OTHERS = "Your own tables", "Beyond the papers"
_PAPERS = {
    "dmlm": "DMLM (Yang & Wan, 2022)",
    "udgn": "UDGN (Shen et al., 2022)",
    "dclm": "DCLM (Ji et al., 2015)",
}
"""By what the names of its tables begin with."""


def _tables() -> dict[str, str]:
    """Every table, by its name or the path of its file, with whose it is: your own first, then paper by paper."""
    papers = {name: _PAPERS.get(name.partition("_")[0], _OTHERS) for name in table_names()}
    order = [*_PAPERS.values(), _OTHERS]
    return dict.fromkeys(own_tables(), _OWN) | dict(sorted(papers.items(), key=lambda each: order.index(each[1])))


def _page(
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
        summary=counted([each for section in sections for each in section.layout.found]),
        decided=_found(sections, DECIDED, own=True),
        items_only=_found(sections, ITEMS_ONLY, own=False),
        errors=errors,
        unseen=unseen,
        others=others,
        date=provenance.today(),
        commit=provenance.short_commit(provenance.commit()),
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


def _sections(definition: TableDefinition, paper: str) -> tuple[list[Section], dict[str, str]]:
    """A table at each size that has results, the pictures of its folder with the first; and what does not read."""
    sections, errors = list[Section](), dict[str, str]()
    for size in definition.sizes:
        try:
            ours = read_ours(definition, size=size)
            if not ours.results:
                continue
            layout = lay_out(ours)
        except UserError as error:
            errors[f"{definition.caption} ({size})"] = str(error)
            continue
        kept = () if sections else _pictures(results_root() / definition.table)
        sections.append(Section(paper, ours, layout, (*_drawn(definition, size), *kept)))
    return sections, errors


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
