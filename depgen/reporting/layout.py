"""A table's numbers put side by side: the paper's, the tracked, the local, and the difference."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from depgen.reporting.comparison import Results, Summary, compare, starred, summarise
from depgen.reporting.definition import Column, Row, TableDefinition
from depgen.reporting.measured import Measured
from depgen.reporting.notes import notes_of
from depgen.reporting.results import Result

Numbers = Literal["paper", "measured", "local", "difference"]


@dataclass(frozen=True)
class Cell:
    """One number with its spread and star, or a word in its place.

    Attributes:
        value: the number; None for a word or nothing.
        deviation: standard deviation over seeds.
        star: whether it is significantly better than the best other one.
        signed: whether a plus is printed (differences).
        word: what stands in place of a number.
        decimals: digits after the point.
    """

    value: float | None = None
    deviation: float | None = None
    star: bool = False
    signed: bool = False
    word: str = ""
    decimals: int = 2


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
        """The caption with the profile."""
        return f"{self.definition.caption} (profile {self.profile})"


def lay_out(definition: TableDefinition, *, profile: str, results: Results, measured: Mapping[str, Measured]) -> Layout:
    """The table of local and tracked results beside the published ones."""
    comparisons, tests = compare(definition, results)
    stars = starred(definition, results, comparisons)
    lines: list[Line] = []
    for row in definition.rows:
        lines += _lines(definition, row, results.get(row.name, ()), measured.get(row.name), stars)
    notes = notes_of(
        definition, profile=profile, results=results, measured=measured, comparisons=comparisons, tests=tests
    )
    return Layout(definition, profile, tuple(lines), tuple(notes))


def _lines(
    definition: TableDefinition,
    row: Row,
    local: Sequence[Result],
    measured: Measured | None,
    stars: set[tuple[str, str]],
) -> list[Line]:
    """A row's lines; one that has no numbers at all keeps a line that says so."""
    columns = definition.columns
    lines = []
    if row.values:
        cells = tuple(Cell(row.values.get(c.key), star=c.key in row.stars, decimals=c.decimals) for c in columns)
        lines.append(Line(row, "", "paper", cells))
    if measured is not None:
        lines.append(_ours(row, columns, measured.results, set(measured.stars), "measured"))
    if local:
        lines.append(_ours(row, columns, local, {c.key for c in columns if (row.name, c.key) in stars}, "local"))
    ours = local or (measured.results if measured is not None else ())
    if row.values and ours:
        lines.append(Line(row, "", "difference", tuple(_difference(row, c, summarise(ours, c.key)) for c in columns)))
    if not lines:
        lines.append(Line(row, "", "local", tuple(Cell() for _ in columns)))
    published = any(each.values for each in definition.rows)
    lines[0] = dataclasses.replace(lines[0], label=_label(row, bool(ours), published))
    return lines


def _label(row: Row, ran: bool, published: bool) -> str:
    """The row's name, and what keeps it from having numbers of ours."""
    label = row.name
    if published and not row.in_paper and row.floor_of is None:
        label += "†"
    if row.quoted is not None:
        return f"{label} (quoted: {row.quoted})"
    if row.experiment is None and row.floor_of is None:
        return f"{label} (not built yet)"
    return label if ran else f"{label} (not run yet)"


def _ours(row: Row, columns: Sequence[Column], results: Sequence[Result], stars: set[str], numbers: Numbers) -> Line:
    cells = []
    for column in columns:
        summary = summarise(results, column.key)
        if summary is not None:
            cells.append(Cell(summary.mean, summary.deviation, star=column.key in stars, decimals=column.decimals))
        else:
            missing = any(column.key in result.not_computed for result in results)
            cells.append(Cell(word="n/c" if missing else ""))
    return Line(row, "", numbers, tuple(cells), len(results))


def _difference(row: Row, column: Column, summary: Summary | None) -> Cell:
    """Ours less the paper's."""
    if summary is None or column.key not in row.values:
        return Cell()
    return Cell(summary.mean - row.values[column.key], signed=True, decimals=column.decimals)
