"""A table in a format: Markdown, LaTeX, CSV or for the terminal."""

import csv
import dataclasses
import io
import textwrap
from pathlib import Path
from typing import Literal

from depgen.errors import UserError
from depgen.locations import results_root, write_atomically
from depgen.reporting.asked import asked_for
from depgen.reporting.definition import TableDefinition
from depgen.reporting.intervals import CONFIDENCE, RESAMPLES, SEED
from depgen.reporting.layout import Cell, Layout, lay_out
from depgen.reporting.measured import Ours, read_measured, read_ours

Format = Literal["markdown", "latex", "csv", "text"]
Spread = Literal["bounds", "half_width", "seeds"]
NOTE_WIDTH = 120
_ENDINGS: dict[Format, str] = {"markdown": "md", "latex": "tex", "csv": "csv", "text": "txt"}


def table(
    table: str | None = None,
    *,
    size: str | None = None,
    format: Format = "markdown",
    spread: Spread = "bounds",
    output: Path | None = None,
    files: bool = False,
) -> str:
    """A table of the results so far beside the published and the tracked ones.

    Args:
        table: its name; unset: every table that there is, each at the size asked for or at its only one.
        size: whose results; unset: `small`, or the only one of the table.
        format: of the returned text.
        spread: what stands beside a number: its deviation over seeds, and behind it the `bounds` of its 95 % bootstrap
            interval over items; the interval's `half_width` alone; or the deviation over `seeds` alone. CSV has all.
        output: a file for the returned text.
        files: write all four formats under `results/<table>/` as well.

    Raises:
        UserError: there is no such table or size, or a result does not read as one.
    """
    if table is None and output is not None:
        raise UserError("--output takes one table: name it.")
    shown: list[str] = []
    for definition, chosen, reason in asked_for(table, size):
        layout = layout_of(definition, chosen)
        text = render(layout, format=format, spread=spread)
        if files:
            _write(layout, spread)
        if output is not None:
            write_atomically(output, text)
        if format == "csv" and shown:
            text = text.partition("\n")[2]  # one head for all
        shown.append(f"{reason}\n\n{text}" if format in ("markdown", "text") and output is None else text)
    return ("" if format == "csv" else "\n").join(shown)


def _write(layout: Layout, spread: Spread) -> None:
    for format, ending in _ENDINGS.items():
        path = results_root() / layout.definition.table / f"table-{layout.size}.{ending}"
        write_atomically(path, render(layout, format=format, spread=spread))


def layout_of(definition: TableDefinition, size: str) -> Layout:
    """The table of the local and tracked results at a size."""
    return lay_out(definition, size=size, ours=read_ours(definition, size=size))


def tracked_page(definition: TableDefinition, size: str) -> str:
    """The table of the tracked results alone in Markdown, the same on every machine."""
    tracked = read_measured(definition, size=size)
    ours = {row.name: Ours(apart=tracked.get(row.name)) for row in definition.rows}
    return render(lay_out(definition, size=size, ours=ours), format="markdown")


def render(layout: Layout, *, format: Format, spread: Spread = "bounds") -> str:
    """The laid-out table as text that ends in a line break."""
    if format != "csv":
        layout = with_spread(layout, spread)
    return {"markdown": _markdown, "latex": _latex, "csv": _csv, "text": _text}[format](layout)


def with_spread(layout: Layout, spread: Spread) -> Layout:
    """The table with that spread beside its numbers alone, and a note of what it is."""

    def chosen(cell: Cell) -> Cell:
        if spread == "seeds":
            return dataclasses.replace(cell, interval=None)
        if spread == "half_width":
            half = None if cell.interval is None else (cell.interval[1] - cell.interval[0]) / 2
            return dataclasses.replace(cell, deviation=half, interval=None)
        return cell

    lines = tuple(dataclasses.replace(line, cells=tuple(map(chosen, line.cells))) for line in layout.lines)
    notes = ((_SPREADS[spread],) if any(line.seeds for line in lines) else ()) + layout.notes
    return dataclasses.replace(layout, lines=lines, notes=notes)


_INTERVAL = (
    f"{100 * CONFIDENCE:.0f} % bootstrap percentile interval over test items ({RESAMPLES:,} resamples, seed {SEED}, "
    "the same items for all systems and seeds; the models and, in Self-BLEU, the other texts held fixed), where a "
    "measure has item scores"
)
_SPREADS: dict[Spread, str] = {
    "bounds": f"±: standard deviation over seeds (none for one seed). [low, high]: {_INTERVAL}.",
    "half_width": f"±: half the width of the {_INTERVAL}.",
    "seeds": "±: standard deviation over seeds (none for one seed).",
}


def show(cell: Cell, *, plus_minus: str = " ± ", star: str = "*", partial: str = "‡") -> str:
    """A cell's words.

    >>> show(Cell(21.494, 0.3, star=True, interval=(21.0, 22.0)))
    '21.49 ± 0.30 [21.00, 22.00]*'
    """
    if cell.value is None:
        return cell.word
    value = round(cell.value, cell.decimals) or 0.0  # no minus before a zero
    text = f"{value:{'+' if cell.signed and value else ''}.{cell.decimals}f}"
    if cell.deviation is not None:
        text += f"{plus_minus}{cell.deviation:.{cell.decimals}f}"
    if cell.interval is not None:
        low, high = (f"{end:.{cell.decimals}f}" for end in cell.interval)
        text += f" [{low}, {high}]"
    return text + (star if cell.star else "") + (partial if cell.partial else "")


def head_of(layout: Layout) -> list[str]:
    """What stands over the columns; arrows point to the better end."""
    arrows = {True: " ↑", False: " ↓", None: ""}
    return ["System", "", *(f"{column.header}{arrows[column.higher_better]}" for column in layout.definition.columns)]


def _markdown(layout: Layout) -> str:
    head = head_of(layout)
    lines = [
        f"**{layout.caption}**",
        "",
        f"| {' | '.join(head)} |",
        f"|{'|'.join(['---', '---'] + ['--:'] * (len(head) - 2))}|",
    ]
    for line in layout.lines:
        cells = [line.label.replace("|", "\\|"), line.numbers, *(show(cell, star="\\*") for cell in line.cells)]
        lines.append(f"| {' | '.join(cells)} |")
    notes = [f"- {note}" for note in layout.notes]
    return "\n".join([*lines, "", *notes]) + "\n"


def _latex(layout: Layout) -> str:
    """For booktabs."""
    head = " & ".join(map(_escape, head_of(layout)))
    lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{ll{'r' * len(layout.definition.columns)}}}"]
    lines += [r"\toprule", rf"{head} \\", r"\midrule"]
    group = layout.lines[0].row.group
    for line in layout.lines:
        if line.row.group != group:
            lines.append(r"\midrule")
            group = line.row.group
        cells = [show(cell, plus_minus=r" $\pm$ ", star=r"$^{*}$", partial=r"$^{\ddagger}$") for cell in line.cells]
        lines.append(" & ".join([_escape(line.label), line.numbers, *cells]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{_escape(layout.caption)}}}", r"\end{table}"]
    return "\n".join([*lines, *(f"% {note}" for note in layout.notes)]) + "\n"


_LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
        "†": r"$^{\dagger}$", "↑": r"$\uparrow$", "↓": r"$\downarrow$",
    }
)  # fmt: skip


def _escape(text: str) -> str:
    """LaTeX's special characters made ordinary."""
    return text.translate(_LATEX)


def _csv(layout: Layout) -> str:
    """One number a line."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    head = ["table", "size", "system", "numbers", "measure", "value", "deviation", "low", "high", "seeds", "star"]
    writer.writerow([*head, "word"])
    for line in layout.lines:
        for column, cell in zip(layout.definition.columns, line.cells, strict=True):
            if cell.value is None and not cell.word:
                continue
            values = (cell.value, cell.deviation, *(cell.interval or (None, None)))
            numbers = ["" if number is None else f"{number:.10g}" for number in values]
            seeds = next((each for each in (cell.seeds, line.seeds) if each is not None), "")
            place = [layout.definition.table, layout.size, line.row.name, line.numbers, column.key]
            writer.writerow([*place, *numbers, seeds, int(cell.star), cell.word])
    return stream.getvalue()


def _text(layout: Layout) -> str:
    """For the terminal, drawn by rich."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=Text(layout.caption), title_justify="left")
    for number, word in enumerate(head_of(layout)):
        drawn.add_column(Text(word), justify="left" if number < 2 else "right", no_wrap=True)
    before = layout.lines[0].row
    alone = {row.name for row in layout.definition.rows if sum(line.row.name == row.name for line in layout.lines) == 1}
    for line in layout.lines:
        row = line.row
        if row.group != before.group or (row.name != before.name and not {row.name, before.name} <= alone):
            drawn.add_section()
        before = row
        drawn.add_row(Text(line.label), line.numbers, *(show(cell) for cell in line.cells))
    stream = io.StringIO()
    console = Console(file=stream, width=1000, color_system=None)
    console.print(drawn)
    for note in layout.notes:
        console.print(
            Text(
                "\n".join(
                    textwrap.wrap(
                        note,
                        NOTE_WIDTH,
                        initial_indent="- ",
                        subsequent_indent="  ",
                        break_long_words=False,
                        break_on_hyphens=False,
                    )
                )
            )
        )
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"
