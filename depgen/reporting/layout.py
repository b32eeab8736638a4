"""A table laid out: the paper's numbers, ours, and the difference, a line each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from depgen.reporting.age import Age, ages_in
from depgen.reporting.compare import Mark, SystemComparison, compare, marked
from depgen.reporting.definition import Column, Row, TableDefinition, is_made
from depgen.reporting.extras import Extra, runs_of, verdicts_of
from depgen.reporting.findings import Finding, findings
from depgen.reporting.intervals import intervals, with_intervals
from depgen.reporting.notes import judges_of, notes_of, reason_of
from depgen.reporting.store import Bounds, Ours

Whose = Literal["paper", "measured", "local", "joined", "difference"]


@dataclass(frozen=True)
class Cell:
    """One number with its spread and mark, or a word in its place.

    Attributes:
        value: the number; None for a word or nothing.
        deviation: standard deviation over seeds, or the paper's over its runs.
        mark: what the comparison with the best other system gave.
        judge: a letter where the column has numbers of several judges.
        signed: whether a plus is printed (differences).
        word: shown in place of a number.
        decimals: digits after the point.
        seeds: how many seeds the number is over; None for the paper's and for differences.
        partial: whether the row has more seeds than that.
        interval: low and high end of the bootstrap interval over items; None where there is none.
    """

    value: float | None = None
    deviation: float | None = None
    mark: Mark = ""
    judge: str = ""
    signed: bool = False
    word: str = ""
    decimals: int = 2
    seeds: int | None = None
    partial: bool = False
    interval: Bounds | None = None


@dataclass(frozen=True)
class Head:
    """A system's name, with what is to be known before its numbers.

    Attributes:
        name: as the table has it.
        mark: a dagger where the paper does not have the row.
        remarks: whom the paper quotes for it, `missing`, and whether a local result is out of date.
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
class Line:
    """One line: a system's numbers of one kind.

    Attributes:
        row: the system.
        numbers: whose.
        cells: one a column.
        seeds: over how many seeds; None for the paper's and for differences.
        head: what the system's first line says before its numbers; None in its other lines.
        outdated: why numbers of ours are out of date, a text a seed.
    """

    row: Row
    numbers: Whose
    cells: tuple[Cell, ...]
    seeds: int | None = None
    head: Head | None = None
    outdated: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The head in words; empty where there is none."""
        return "" if self.head is None else str(self.head)


@dataclass(frozen=True)
class Layout:
    """A whole table before it takes a format; `extras` are the tables below it, `found` what its rows were to show."""

    definition: TableDefinition
    size: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    extras: tuple[Extra, ...] = ()
    found: tuple[Finding, ...] = ()

    @property
    def caption(self) -> str:
        """The caption with the size, where one is known."""
        return self.definition.caption + (f" (size {self.size})" if self.size else "")


def lay_out(ours: Ours) -> Layout:
    """The table of our numbers next to the published ones."""
    definition = ours.definition
    comparisons, tests = compare(ours)
    comparisons, old = with_intervals(ours, comparisons), ages_in(ours)
    lines = tuple(_lines(ours, comparisons, old))
    notes = notes_of(ours, comparisons, tests, partial=tuple(_partial(definition, lines)), outdated=old)
    extras = (verdicts_of(ours, comparisons), runs_of(ours))
    kept = tuple(each for each in extras if each.rows)
    return Layout(definition, ours.size, lines, tuple(notes), kept, tuple(findings(ours, comparisons)))


def _lines(
    ours: Ours, comparisons: Sequence[SystemComparison], outdated: Mapping[tuple[str, int], Age]
) -> Iterator[Line]:
    definition = ours.definition
    found, bounds = marked(ours, comparisons), {place: ends for place, (ends, _) in intervals(ours).items()}
    published = any(row.values for row in definition.rows)
    asked_of_people = not any(row.experiment or row.is_floor for row in definition.rows)
    for row in definition.rows:
        ran = asked_of_people or bool(ours.of(row.name))
        made = is_made(row, size=ours.size)
        old = tuple(f"seed {seed}: {age.reason}" for (name, seed), age in outdated.items() if name == row.name)
        head = _head(row, ran=ran, made=made, published=published, outdated=bool(old))
        seeds, cells = len(ours.of(row.name)), None
        if seeds:
            places = [(column, (row.name, column.key)) for column in definition.columns]
            cells = [_cell(ours, row, column, found.get(place, ""), bounds.get(place)) for column, place in places]
        first, *others = lines_of(definition, row, cells, numbers=ours.source(row.name), seeds=seeds)
        for line in (replace(first, head=head), *others):
            yield line if line.numbers == "paper" else replace(line, outdated=old)


def lines_of(
    definition: TableDefinition,
    row: Row,
    cells: Sequence[Cell] | None,
    *,
    numbers: Whose = "local",
    seeds: int | None = None,
) -> list[Line]:
    """A row's lines: the paper's numbers, ours and the differences; one that has no numbers at all is an empty line.

    Args:
        definition: of the table.
        row: the system.
        cells: ours, one a column; None where there are none.
        numbers: what ours are called.
        seeds: over how many seeds ours are.
    """
    columns, lines = definition.columns, []
    if row.values:
        published = [
            Cell(
                row.values.get(c.key), row.deviations.get(c.key), "*" if c.key in row.stars else "", decimals=c.decimals
            )
            for c in columns
        ]
        lines.append(Line(row, "paper", tuple(published)))
    if cells is not None:
        lines.append(Line(row, numbers, tuple(cells), seeds))
        differences = tuple(_difference(row, column, cell) for column, cell in zip(columns, cells, strict=True))
        if any(cell.value is not None for cell in differences):
            lines.append(Line(row, "difference", differences))
    return lines or [Line(row, "local", tuple(Cell() for _ in columns))]


def _head(row: Row, *, ran: bool, made: bool, published: bool, outdated: bool) -> Head:
    mark = "†" if published and not row.in_paper and not row.is_floor else ""
    quoted = None if row.quoted is None else f"quoted: {row.quoted}"
    wanted = not ran and (row.quoted is None or row.experiment is not None)
    missing = ("not run yet" if made else "not built yet") if wanted else None
    old = "out of date" if outdated else None
    return Head(row.name, mark, tuple(each for each in (quoted, missing, old) if each is not None), missing)


def _cell(ours: Ours, row: Row, column: Column, mark: Mark, interval: Bounds | None) -> Cell:
    if column.published_only:
        return Cell()
    figure, seeds = ours.figure(row.name, column.key), len(ours.of(row.name))
    if figure is None:
        return Cell(word="n/c" if reason_of(ours, row, column) else "")
    return Cell(
        figure.mean,
        figure.deviation,
        mark,
        judge=judges_of(ours, column.key).get(figure.judge, ""),
        decimals=column.decimals,
        seeds=len(figure.values),
        partial=len(figure.values) < seeds,
        interval=interval,
    )


def _difference(row: Row, column: Column, cell: Cell) -> Cell:
    """Ours less the paper's."""
    if cell.value is None or column.key not in row.values or not column.comparable:
        return Cell()
    return Cell(cell.value - row.values[column.key], signed=True, decimals=column.decimals)


def _partial(definition: TableDefinition, lines: Sequence[Line]) -> Iterator[str]:
    """Which numbers are over fewer seeds than their row has."""
    for line in lines:
        for column, cell in zip(definition.columns, line.cells, strict=True):
            if cell.partial:
                yield f"{line.row.name} {column.header}: {cell.seeds} of {line.seeds}"
