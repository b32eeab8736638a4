"""A table's numbers put side by side: the paper's, the tracked, the local, and the difference."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from depgen.reporting.comparison import Summary, compare, starred, summarise
from depgen.reporting.definition import Column, Row, TableDefinition, is_made
from depgen.reporting.intervals import Bounds, intervals, with_intervals
from depgen.reporting.measured import Ours, tracked_stars
from depgen.reporting.notes import notes_of, why_missing
from depgen.reporting.results import Result

Whose = Literal["paper", "measured", "local", "joined", "difference"]


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
    """One line: a system's numbers of one kind, over so many seeds.

    Attributes:
        row: the system.
        numbers: whose.
        cells: one a column.
        seeds: how many; None for the paper's and for differences.
        head: what the system's first line says before its numbers; None in its other lines.
    """

    row: Row
    numbers: Whose
    cells: tuple[Cell, ...]
    seeds: int | None = None
    head: "Head | None" = None

    @property
    def label(self) -> str:
        """The head in words; empty where there is none."""
        return "" if self.head is None else str(self.head)


@dataclass(frozen=True)
class Head:
    """A system's name, with what is to be known before its numbers.

    Attributes:
        name: as the table has it.
        mark: a dagger where the paper does not have the row.
        remarks: whom the paper quotes for it, and `missing`.
        missing: what keeps the row from having numbers of ours, such as `not run yet`; None where it has some.

    >>> str(Head("PRPN", "†", ("not run yet",)))
    'PRPN† (not run yet)'
    """

    name: str
    mark: str = ""
    remarks: tuple[str, ...] = ()
    missing: str | None = None

    def __str__(self) -> str:
        return f"{self.name}{self.mark}" + (f" ({'; '.join(self.remarks)})" if self.remarks else "")


@dataclass(frozen=True)
class Layout:
    """A whole table before it takes a format."""

    definition: TableDefinition
    size: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...]

    @property
    def caption(self) -> str:
        """The caption with the size, where one is known."""
        return self.definition.caption + (f" (size {self.size})" if self.size else "")


def lay_out(definition: TableDefinition, *, size: str, ours: Mapping[str, Ours]) -> Layout:
    """The table of local and tracked results, by row name, beside the published ones."""
    results = {name: each.results for name, each in ours.items()}
    comparisons, tests = compare(definition, results)
    bounds = intervals(definition, results)
    stars = starred(definition, results, comparisons)
    comparisons = with_intervals(definition, results, comparisons)
    lines: list[Line] = []
    published = any(row.values for row in definition.rows)
    asked_of_people = not any(row.experiment or row.is_floor for row in definition.rows)
    for row in definition.rows:
        won = {key for name, key in stars if name == row.name}
        recorded = tracked_stars(definition, row, ours)
        first, *others = _lines(
            definition, row, ours[row.name], _Found(won, bounds.get(row.name, {})), recorded=recorded
        )
        ran = asked_of_people or bool(ours[row.name].shown)
        made = is_made(row, size=size)
        lines += [dataclasses.replace(first, head=_head(row, ran=ran, made=made, published=published)), *others]
    notes = notes_of(definition, size=size, ours=ours, comparisons=comparisons, tests=tests)
    return Layout(definition, size, tuple(lines), (*_partial(definition, lines), *notes))


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
    """What was found of a row's numbers: wins and intervals, by column."""

    stars: set[str]
    intervals: Bounds


def _lines(definition: TableDefinition, row: Row, ours: Ours, found: _Found, *, recorded: set[str]) -> list[Line]:
    """A row's lines; one that has no numbers at all keeps a line that says so."""
    columns = definition.columns
    lines = []
    if row.values:
        cells = tuple(
            Cell(row.values.get(c.key), row.deviations.get(c.key), star=c.key in row.stars, decimals=c.decimals)
            for c in columns
        )
        lines.append(Line(row, "paper", cells))
    if ours.apart is not None:
        tracked = _Found(recorded, ours.apart.intervals)
        lines.append(_line(row, columns, ours.apart.results, tracked, "measured"))
    if ours.results:
        lines.append(_line(row, columns, ours.results, found, "joined" if ours.joined else "local"))
    if row.values and ours.shown:
        cells = tuple(_difference(row, column, summarise(ours.shown, column.key)) for column in columns)
        if any(cell.value is not None for cell in cells):
            lines.append(Line(row, "difference", cells))
    if not lines:
        lines.append(Line(row, "local", tuple(Cell() for _ in columns)))
    return lines


def _head(row: Row, *, ran: bool, made: bool, published: bool) -> Head:
    mark = "†" if published and not row.in_paper and not row.is_floor else ""
    quoted = None if row.quoted is None else f"quoted: {row.quoted}"
    wanted = not ran and (row.quoted is None or row.experiment is not None)
    missing = ("not run yet" if made else "not built yet") if wanted else None
    return Head(row.name, mark, tuple(each for each in (quoted, missing) if each is not None), missing)


def _line(row: Row, columns: Sequence[Column], results: Sequence[Result], found: _Found, numbers: Whose) -> Line:
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
            cells.append(Cell(word="n/c" if why_missing(row, column, results) else ""))
    return Line(row, numbers, tuple(cells), len(results))


def _difference(row: Row, column: Column, summary: Summary | None) -> Cell:
    """Ours less the paper's."""
    if summary is None or column.key not in row.values:
        return Cell()
    return Cell(summary.mean - row.values[column.key], signed=True, decimals=column.decimals)
