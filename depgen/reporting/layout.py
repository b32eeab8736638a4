"""A table laid out: the paper's numbers, ours, and the difference, a line each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from depgen.reporting.age import ages_in
from depgen.reporting.compare import Mark, compare, marked
from depgen.reporting.definition import Column, Row, TableDefinition, is_made
from depgen.reporting.extras import Extra, Finding, findings, runs_of, verdicts_of
from depgen.reporting.intervals import intervals
from depgen.reporting.notes import judges_of, notes_of, reason_of
from depgen.reporting.store import Bounds, Ours, Source

Whose = Literal["paper", Source, "difference"]


@dataclass(frozen=True)
class Cell:
    """One number with its spread and mark, or a word in its place.

    Attributes:
        value: the number; None for a word or nothing.
        deviation: standard deviation over seeds, or the paper's over its runs.
        mark: what the comparison with the best other system gave.
        signs: a sign where the row has more seeds than the number is over, and a letter where the column has numbers of
            several judges.
        signed: whether a plus is printed (differences).
        word: shown in place of a number.
        decimals: digits after the point.
        seeds: how many seeds the number is over; None for the paper's and for differences.
        interval: low and high end of the bootstrap interval over items; None where there is none.

    >>> str(Cell(21.494, 0.3, mark="*", interval=(21.0, 22.0)))
    '21.49 ± 0.30 [21.00, 22.00]*'
    """

    value: float | None = None
    deviation: float | None = None
    mark: Mark = ""
    signs: str = ""
    signed: bool = False
    word: str = ""
    decimals: int = 2
    seeds: int | None = None
    interval: Bounds | None = None

    @property
    def parts(self) -> list[str]:
        """The number or word without marks, and the deviation and the interval that it has.

        >>> Cell(21.494, 0.3, mark="*", interval=(21.0, 22.0)).parts
        ['21.49', '± 0.30', '[21.00, 22.00]']
        """
        if self.value is None:
            return [self.word]
        value = round(self.value, self.decimals) or 0.0  # no minus before a zero
        parts = [f"{value:{'+' if self.signed and value else ''}.{self.decimals}f}"]
        if self.deviation is not None:
            parts.append(f"± {self.deviation:.{self.decimals}f}")
        if self.interval is not None:
            parts.append("[{:.{digits}f}, {:.{digits}f}]".format(*self.interval, digits=self.decimals))
        return parts

    @property
    def marks(self) -> str:
        """All that is printed behind the number."""
        return self.mark + self.signs

    def __str__(self) -> str:
        return " ".join(self.parts) + self.marks


@dataclass(frozen=True)
class SystemLines:
    """A system's lines.

    Attributes:
        row: the system.
        lines: the cells of each line, one a column, by whose numbers they are.
        mark: a dagger where the paper does not have the row.
        remarks: whom the paper quotes for it, `missing`, and whether a local result is out of date.
        missing: what keeps the row from having numbers of ours, such as `not run yet`; None where it has some.
        outdated: why numbers of ours are out of date, a text a seed.

    >>> SystemLines(Row("PRPN"), {}, "†", ("not run yet",)).label
    'PRPN† (not run yet)'
    """

    row: Row
    lines: Mapping[Whose, Sequence[Cell]]
    mark: str = ""
    remarks: tuple[str, ...] = ()
    missing: str | None = None
    outdated: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name, and what is to be known before the numbers."""
        return f"{self.row.name}{self.mark}" + (f" ({'; '.join(self.remarks)})" if self.remarks else "")

    @property
    def ours(self) -> Sequence[Cell]:
        """Our numbers, from wherever they are; empty cells where the paper alone has some."""
        papers = self.lines.get("paper", ())
        return next((cells for whose, cells in self.lines.items() if whose in get_args(Source)), [Cell()] * len(papers))


@dataclass(frozen=True)
class Layout:
    """A whole table before it takes a format; `extras` are the tables below it, `found` what its rows were to show."""

    definition: TableDefinition
    size: str
    systems: tuple[SystemLines, ...]
    notes: tuple[str, ...]
    extras: tuple[Extra, ...] = ()
    found: tuple[Finding, ...] = ()

    @property
    def caption(self) -> str:
        """The caption with the size, where one is known."""
        return self.definition.caption + (f" (size {self.size})" if self.size else "")

    @property
    def head(self) -> list[str]:
        """The names of the columns; arrows point to the better end."""
        arrows = {True: " ↑", False: " ↓", None: ""}
        return [f"{column.header}{arrows[column.higher_better]}" for column in self.definition.columns]


def lay_out(ours: Ours) -> Layout:
    """The table of our numbers next to the published ones."""
    definition = ours.definition
    (comparisons, tests), old = compare(ours), ages_in(ours)
    marks, bounds = marked(ours, comparisons), {place: ends for place, (ends, _) in intervals(ours).items()}
    systems = []
    for row in definition.rows:
        outdated = tuple(f"seed {seed}: {age.reason}" for (name, seed), age in old.items() if name == row.name)
        cells = [
            _cell(ours, row, column, marks.get((row.name, column.key), ""), bounds.get((row.name, column.key)))
            for column in definition.columns
        ]
        systems.append(_system(ours, row, cells if ours.of(row.name) else None, outdated))
    notes = notes_of(ours, comparisons, tests, old)
    extras = tuple(extra for extra in (verdicts_of(ours, comparisons), runs_of(ours)) if extra.rows)
    return Layout(definition, ours.size, tuple(systems), tuple(notes), extras, tuple(findings(ours, comparisons)))


def _system(ours: Ours, row: Row, cells: Sequence[Cell] | None, outdated: tuple[str, ...]) -> SystemLines:
    """A system's lines with its cells of ours; None where it has no results."""
    rows = ours.definition.rows
    asked_of_people = not any(each.experiment or each.is_floor for each in rows)
    published = any(each.values for each in rows)
    missing = None
    if cells is None and not asked_of_people and (row.quoted is None or row.experiment is not None):
        missing = "not run yet" if is_made(row, size=ours.size) else "not built yet"
    remarks = (row.quoted and f"quoted: {row.quoted}", missing, "out of date" if outdated else None)
    return SystemLines(
        row,
        lines_of(ours.definition.columns, row, cells, whose=ours.source(row.name)),
        mark="†" if published and not row.in_paper and not row.is_floor else "",
        remarks=tuple(each for each in remarks if each),
        missing=missing,
        outdated=outdated,
    )


def lines_of(
    columns: Iterable[Column], row: Row, cells: Sequence[Cell] | None, *, whose: Whose = "local"
) -> dict[Whose, Sequence[Cell]]:
    """A row's lines: the paper's numbers, ours and the differences; one that has no numbers at all is an empty line.

    Args:
        columns: of the table.
        row: the system.
        cells: ours, one a column; None where there are none.
        whose: what ours are called.
    """
    lines: dict[Whose, Sequence[Cell]] = {}
    if row.values:
        lines["paper"] = [
            Cell(
                row.values.get(c.key), row.deviations.get(c.key), "*" if c.key in row.stars else "", decimals=c.decimals
            )
            for c in columns
        ]
    if cells is not None:
        lines[whose] = cells
        differences = [_difference(row, column, cell) for column, cell in zip(columns, cells, strict=True)]
        if any(cell.value is not None for cell in differences):
            lines["difference"] = differences
    return lines or {"local": [Cell() for _ in columns]}


def _cell(ours: Ours, row: Row, column: Column, mark: Mark, interval: Bounds | None) -> Cell:
    if column.published_only:
        return Cell()
    figure, seeds = ours.figure(row.name, column.key), len(ours.of(row.name))
    if figure is None:
        return Cell(word="n/c" if reason_of(ours, row, column) else "", seeds=seeds)
    over = len(figure.values)
    return Cell(
        figure.mean,
        figure.deviation,
        mark,
        signs=("‡" if over < seeds else "") + judges_of(ours, column.key).get(figure.judge, ""),
        decimals=column.decimals,
        seeds=over,
        interval=interval,
    )


def _difference(row: Row, column: Column, cell: Cell) -> Cell:
    """Ours less the paper's."""
    if cell.value is None or column.key not in row.values or not column.comparable:
        return Cell()
    return Cell(cell.value - row.values[column.key], signed=True, decimals=column.decimals)
