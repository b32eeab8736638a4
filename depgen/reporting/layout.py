"""A table's numbers put side by side: the paper's, the tracked, the local, and the difference."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from depgen.reporting.comparison import Results, Summary, compare, judges, starred, summarise
from depgen.reporting.definition import Column, Row, TableDefinition, is_made
from depgen.reporting.intervals import Bounds, intervals
from depgen.reporting.measured import Measured, join
from depgen.reporting.notes import notes_of
from depgen.reporting.results import Result

Numbers = Literal["paper", "measured", "local", "joined", "difference"]


@dataclass(frozen=True)
class Cell:
    """One number with its spread and star, or a word in its place.

    Attributes:
        value: the number; None for a word or nothing.
        deviation: standard deviation over seeds, or the paper's over its runs.
        star: whether it is significantly better than the best other one.
        signed: whether a plus is printed (differences).
        word: what stands in place of a number.
        decimals: digits after the point.
        seeds: how many seeds the number is over; None where that is not asked.
        partial: whether the row has more seeds than that.
        interval: low and high end of the bootstrap interval over items; None where there is none.
    """

    value: float | None = None
    deviation: float | None = None
    star: bool = False
    signed: bool = False
    word: str = ""
    decimals: int = 2
    seeds: int | None = None
    partial: bool = False
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Line:
    """One line: a system's numbers of one kind, over so many seeds."""

    row: Row
    label: str
    numbers: Numbers
    cells: tuple[Cell, ...]
    seeds: int | None = None


@dataclass(frozen=True)
class Layout:
    """A whole table before it takes a format."""

    definition: TableDefinition
    profile: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...]

    @property
    def caption(self) -> str:
        """The caption with the profile, where one is known."""
        return self.definition.caption + (f" (profile {self.profile})" if self.profile else "")


def lay_out(definition: TableDefinition, *, profile: str, results: Results, measured: Mapping[str, Measured]) -> Layout:
    """The table of local and tracked results beside the published ones.

    Where the tracked results of a row have other seeds of the same configuration as the local ones, both are one line.
    A floor has no seeds: its first result counts.
    """
    floors = {row.name for row in definition.rows if row.is_floor}
    results = {name: tuple(each[:1] if name in floors else each) for name, each in results.items()}
    measured = {
        name: dataclasses.replace(each, results=each.results[:1]) if name in floors else each
        for name, each in measured.items()
    }
    results, measured, joined = _joined(results, measured, floors)
    comparisons, tests = compare(definition, results)
    bounds = intervals(definition, results)
    stars = starred(definition, results, comparisons)
    lines: list[Line] = []
    published = any(row.values for row in definition.rows)
    asked_of_people = not any(row.experiment or row.is_floor for row in definition.rows)
    for row in definition.rows:
        won = {key for name, key in stars if name == row.name}
        found = _Found(won, bounds.get(row.name, {}), row.name in joined)
        first, *others = _lines(definition, row, results.get(row.name, ()), measured.get(row.name), found)
        ran = asked_of_people or bool(results.get(row.name) or row.name in measured)
        made = is_made(row, profile=profile)
        lines += [dataclasses.replace(first, label=_label(row, ran=ran, made=made, published=published)), *others]
    notes = notes_of(
        definition,
        profile=profile,
        results=results,
        measured=measured,
        comparisons=comparisons,
        tests=tests,
        joined=joined,
    )
    return Layout(definition, profile, tuple(lines), (*_partial(definition, lines), *notes))


def _joined(
    results: Results, measured: Mapping[str, Measured], floors: Collection[str]
) -> tuple[dict[str, tuple[Result, ...]], dict[str, Measured], set[str]]:
    """Local results with tracked seeds beside them, tracked results that stay a line of their own, the rows joined."""
    ours = {name: tuple(each) for name, each in results.items()}
    apart, joined = dict(measured), set()
    for name, tracked in measured.items():
        local = ours.get(name, ())
        both = join(local, tracked.results)
        if not local or name in floors or len(both) == len(local):
            continue
        seeds = {result.seed for result in both}
        ours[name], rest = both, tuple(each for each in tracked.results if each.seed not in seeds)
        joined.add(name)
        del apart[name]
        if rest:
            apart[name] = Measured(rest, ())
    return ours, apart, joined


def _partial(definition: TableDefinition, lines: Sequence[Line]) -> Iterator[str]:
    """Which numbers are over fewer seeds than their row has."""
    cells = [
        f"{line.row.name} ({line.numbers}) {column.header}: {cell.seeds} of {line.seeds}"
        for line in lines
        for column, cell in zip(definition.columns, line.cells, strict=True)
        if cell.partial
    ]
    if cells:
        yield f"‡: over some of the row's seeds only: {'; '.join(cells)}."


@dataclass(frozen=True)
class _Found:
    """What was found of a row's numbers: wins and intervals by column, and whether tracked seeds are among them."""

    stars: set[str]
    intervals: Bounds
    joined: bool = False


def _lines(
    definition: TableDefinition,
    row: Row,
    local: Sequence[Result],
    measured: Measured | None,
    found: _Found,
) -> list[Line]:
    """A row's lines; one that has no numbers at all keeps a line that says so."""
    columns = definition.columns
    lines = []
    if row.values:
        cells = tuple(
            Cell(row.values.get(c.key), row.deviations.get(c.key), star=c.key in row.stars, decimals=c.decimals)
            for c in columns
        )
        lines.append(Line(row, "", "paper", cells))
    if measured is not None:
        lines.append(_ours(row, columns, measured.results, _Found(set(measured.stars), measured.intervals), "measured"))
    if local:
        lines.append(_ours(row, columns, local, found, "joined" if found.joined else "local"))
    ours = local or (measured.results if measured is not None else ())
    if row.values and ours:
        lines.append(Line(row, "", "difference", tuple(_difference(row, c, summarise(ours, c.key)) for c in columns)))
    if not lines:
        lines.append(Line(row, "", "local", tuple(Cell() for _ in columns)))
    return lines


def _label(row: Row, *, ran: bool, made: bool, published: bool) -> str:
    """The row's name, whom the paper quotes for it, and what keeps it from having numbers of ours."""
    mark = "†" if published and not row.in_paper and not row.is_floor else ""
    remarks = [] if row.quoted is None else [f"quoted: {row.quoted}"]
    if not ran and (row.quoted is None or row.experiment is not None):
        remarks.append("not run yet" if made else "not built yet")
    return f"{row.name}{mark}" + (f" ({'; '.join(remarks)})" if remarks else "")


def _ours(row: Row, columns: Sequence[Column], results: Sequence[Result], found: _Found, numbers: Numbers) -> Line:
    cells = []
    for column in columns:
        if column.published_only:
            cells.append(Cell())
            continue
        summary = summarise(results, column.key)
        if summary is not None:
            cells.append(
                Cell(
                    summary.mean,
                    summary.deviation,
                    star=column.key in found.stars,
                    decimals=column.decimals,
                    seeds=summary.seeds,
                    partial=summary.seeds < len(results),
                    interval=found.intervals.get(column.key),
                )
            )
        else:
            missing = any(column.key in result.not_computed for result in results) or judges(results, column.key)
            cells.append(Cell(word="n/c" if missing else ""))
    return Line(row, "", numbers, tuple(cells), len(results))


def _difference(row: Row, column: Column, summary: Summary | None) -> Cell:
    """Ours less the paper's."""
    if summary is None or column.key not in row.values:
        return Cell()
    return Cell(summary.mean - row.values[column.key], signed=True, decimals=column.decimals)
