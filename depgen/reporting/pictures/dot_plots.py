"""A table's measures as dots: one panel a measure, one line a system, ours with its interval and the paper's number."""

import math
from dataclasses import dataclass

from depgen.reporting.definition import Column
from depgen.reporting.layout import Cell, Layout

MOST = 8
"""As many panels are drawn of a table."""
_LINE, _TOP, _BOTTOM, _SCALE, _LETTER, _LONGEST, _END = 20.0, 6.0, 20.0, 190.0, 6.4, 34, 14.0
"""Pixels of a line, above and below the lines, of the scale, of a letter; the longest name; pixels after the scale."""
_TICKS = 4


@dataclass(frozen=True)
class Dot:
    """A system's place in a panel, in pixels; None where there is no such number."""

    name: str
    text: str
    y: float
    ours: float | None
    low: float | None
    high: float | None
    paper: float | None


@dataclass(frozen=True)
class Panel:
    """One measure: its name, its size in pixels, where the scale begins, the dots, and the scale's numbers."""

    title: str
    width: float
    height: float
    left: float
    dots: tuple[Dot, ...]
    ticks: tuple[tuple[float, str], ...]


def panels_of(layout: Layout) -> list[Panel]:
    """A panel for each of the first measures that two systems have of ours; sizes only where nothing else is shown."""
    columns = list(enumerate(layout.definition.columns))
    directed = [(number, column) for number, column in columns if column.higher_better is not None]
    for chosen in (directed, columns):
        found = [panel for number, column in chosen if (panel := _panel(layout, number, column)) is not None]
        if found:
            return found[:MOST]
    return []


def _panel(layout: Layout, number: int, column: Column) -> Panel | None:
    empty = [Cell()] * len(layout.definition.columns)
    systems = [(each.row.name, each.ours[number], each.lines.get("paper", empty)[number]) for each in layout.systems]
    shown = [(name, ours, paper) for name, ours, paper in systems if ours.value is not None or paper.value is not None]
    if sum(ours.value is not None for _, ours, _ in shown) < 2:
        return None
    values = [each for _, ours, paper in shown for each in (*_ends(ours), *_ends(paper))]
    low, high = min(values), max(values)
    spread = (high - low) or abs(high) or 1.0
    low, high = low - spread / 20, high + spread / 20
    left = round(_LETTER * min(_LONGEST, max(len(name) for name, _, _ in shown)) + 12)

    def place(value: float | None) -> float | None:
        return None if value is None else round(left + _SCALE * (value - low) / (high - low), 1)

    dots = []
    for line, (name, ours, paper) in enumerate(shown):
        ends = [place(each) for each in _ends(ours)]
        dots.append(
            Dot(
                name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…",
                "" if ours.value is None else str(ours),
                _TOP + _LINE * (line + 0.5),
                place(ours.value),
                *((ends[0], ends[-1]) if ends else (None, None)),
                place(paper.value),
            )
        )
    ticks = tuple((place(each) or 0.0, f"{each:g}") for each in ticks_between(low, high))
    arrow = {True: " (more is better)", False: " (less is better)", None: ""}[column.higher_better]
    height = _TOP + _LINE * len(shown) + _BOTTOM
    return Panel(column.header + arrow, left + _SCALE + _END, height, left, tuple(dots), ticks)


def _ends(cell: Cell) -> tuple[float, ...]:
    """The ends of a number's interval, else of its deviation, else itself."""
    if cell.value is None:
        return ()
    if cell.interval is not None:
        return (min(cell.interval[0], cell.value), max(cell.interval[1], cell.value))
    deviation = cell.deviation or 0.0
    return (cell.value - deviation, cell.value + deviation)


def ticks_between(low: float, high: float) -> list[float]:
    """Round numbers between two others, at most five.

    >>> ticks_between(0.0, 1.0), ticks_between(137.2, 214.9)
    ([0.0, 0.5, 1.0], [140.0, 160.0, 180.0, 200.0])
    """
    raw = (high - low) / _TICKS
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * each for each in (1, 2, 5, 10) if unit * each >= raw)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [round(step * number, 10) for number in range(first, last + 1)]
