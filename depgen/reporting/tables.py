"""A table in a format: Markdown, LaTeX, CSV or for the terminal."""

import csv
import io
import textwrap
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal

from depgen.errors import UserError
from depgen.locations import results_root, write_atomically
from depgen.reporting.definition import TableDefinition, chosen_tables
from depgen.reporting.layout import Cell, Layout, lay_out
from depgen.reporting.store import read_ours

Format = Literal["markdown", "latex", "csv", "text"]
NOTE_WIDTH, WIDE = 120, 180
"""Letters in a line of notes, and of the tables below the table, for the terminal."""
_ENDINGS: dict[Format, str] = {"markdown": "md", "latex": "tex", "csv": "csv", "text": "txt"}


def table(
    table: str | None = None,
    *,
    size: str | None = None,
    format: Format = "markdown",
    output: Path | None = None,
    files: bool = False,
) -> str:
    """A table of our results next to the published ones; a local result replaces the tracked one of its seed.

    Args:
        table: its name; unset: every table, each at the given size or at its only one.
        size: whose results; unset: `small`, or the table's only one.
        format: of the returned text.
        output: a file for the returned text.
        files: write all four formats under `results/<table>/` as well.

    Raises:
        UserError: there is no such table or size, or a result does not read as one.
    """
    if table is None and output is not None:
        raise UserError("--output takes one table: name it.")
    shown: list[str] = []
    for definition, chosen, reason in chosen_tables(table, size):
        layout = layout_of(definition, chosen)
        text = render(layout, format=format)
        if files:
            _write(layout)
        if output is not None:
            write_atomically(output, text)
        if format == "csv" and shown:
            text = text.partition("\n")[2]  # one head for all
        shown.append(f"{reason}\n\n{text}" if format in ("markdown", "text") and output is None else text)
    return ("" if format == "csv" else "\n").join(shown)


def _write(layout: Layout) -> None:
    for format, ending in _ENDINGS.items():
        path = results_root() / layout.definition.table / f"table-{layout.size}.{ending}"
        write_atomically(path, render(layout, format=format))


def layout_of(definition: TableDefinition, size: str) -> Layout:
    """The table of the local and tracked results at a size."""
    return lay_out(read_ours(definition, size=size))


def tracked_page(definition: TableDefinition, size: str) -> str:
    """The table of the tracked results alone in Markdown, the same on every machine."""
    return render(lay_out(read_ours(definition, size=size, local=False)), format="markdown")


def render(layout: Layout, *, format: Format) -> str:
    """The laid-out table as text that ends in a line break."""
    return {"markdown": _markdown, "latex": _latex, "csv": _csv, "text": _text}[format](layout)


def show(cell: Cell, *, plus_minus: str = " ± ", star: str = "*", partial: str = "‡", spread: bool = True) -> str:
    """A cell's words; without `spread` neither deviation nor interval.

    >>> show(Cell(21.494, 0.3, mark="*", interval=(21.0, 22.0)))
    '21.49 ± 0.30 [21.00, 22.00]*'
    """
    value, *others = parts_of(cell)
    marks = cell.mark.replace("*", star) + (partial if cell.partial else "") + cell.judge
    if cell.value is None:
        return value
    return (" ".join([value, *others]).replace(" ± ", plus_minus) if spread else value) + marks


def parts_of(cell: Cell) -> list[str]:
    """A cell's number or word, without marks, and the deviation and the interval that it has.

    >>> parts_of(Cell(21.494, 0.3, mark="*", interval=(21.0, 22.0)))
    ['21.49', '± 0.30', '[21.00, 22.00]']
    """
    if cell.value is None:
        return [cell.word]
    value = round(cell.value, cell.decimals) or 0.0  # no minus before a zero
    parts = [f"{value:{'+' if cell.signed and value else ''}.{cell.decimals}f}"]
    if cell.deviation is not None:
        parts.append(f"± {cell.deviation:.{cell.decimals}f}")
    if cell.interval is not None:
        parts.append("[{:.{digits}f}, {:.{digits}f}]".format(*cell.interval, digits=cell.decimals))
    return parts


def head_of(layout: Layout) -> list[str]:
    """The names of the columns; arrows point to the better end."""
    arrows = {True: " ↑", False: " ↓", None: ""}
    return ["System", "", *(f"{column.header}{arrows[column.higher_better]}" for column in layout.definition.columns)]


def _markdown(layout: Layout) -> str:
    lines = [f"**{layout.caption}**", "", *_markdown_head(head_of(layout), left=2)]
    for line in layout.lines:
        lines.append(_markdown_row([line.label, line.numbers, *(show(cell, star="\\*") for cell in line.cells)]))
    for extra in layout.extras:
        lines += ["", f"**{extra.title}**", "", *_markdown_head(extra.head, left=len(extra.head))]
        lines += [_markdown_row(row) for row in extra.rows]
    return "\n".join([*lines, "", *(f"- {note}" for note in layout.notes)]) + "\n"


def _markdown_head(head: Sequence[str], *, left: int) -> list[str]:
    return [f"| {' | '.join(head)} |", f"|{'|'.join(['---'] * left + ['--:'] * (len(head) - left))}|"]


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _latex(layout: Layout) -> str:
    """For booktabs; notes and the tables below are comments."""
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
    for extra in layout.extras:
        lines += [f"% {extra.title}", *(f"% {' & '.join(row)}" for row in (extra.head, *extra.rows))]
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
    """One number a line; the last column says why a number is out of date, and is empty where it is not."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    head = ["table", "size", "system", "numbers", "measure", "value", "deviation", "low", "high", "seeds", "mark"]
    writer.writerow([*head, "word", "out_of_date"])
    for line in layout.lines:
        for column, cell in zip(layout.definition.columns, line.cells, strict=True):
            if cell.value is None and not cell.word:
                continue
            values = (cell.value, cell.deviation, *(cell.interval or (None, None)))
            numbers = ["" if number is None else f"{number:.10g}" for number in values]
            seeds = next((each for each in (cell.seeds, line.seeds) if each is not None), "")
            place = [layout.definition.table, layout.size, line.row.name, line.numbers, column.key]
            writer.writerow([*place, *numbers, seeds, cell.mark, cell.word, "; ".join(line.outdated)])
    return stream.getvalue()


def _text(layout: Layout) -> str:
    """For the terminal."""
    rows: list[list[str]] = []
    sections, before = set[int](), layout.lines[0].row
    several = {line.row.name for line in layout.lines if line.head is None}
    for line in layout.lines:
        if line.row.name != before.name and (line.row.group != before.group or {line.row.name, before.name} & several):
            sections.add(len(rows))
        before = line.row
        rows.append([line.label, line.numbers, *(show(cell) for cell in line.cells)])
    drawn = [_drawn(layout.caption, head_of(layout), rows, left=2, sections=sections)]
    drawn += [_drawn(each.title, each.head, each.rows, left=len(each.head), wrap=True) for each in layout.extras]
    notes = ["\n".join(_wrapped(note)) for note in layout.notes]
    text = "\n".join([*drawn, *notes])
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _wrapped(note: str) -> list[str]:
    return textwrap.wrap(
        note, NOTE_WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _drawn(
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: int,
    sections: Collection[int] = (),
    wrap: bool = False,
) -> str:
    """A table drawn by rich, `left` columns flush left, a rule before the rows of these numbers; nothing is cut."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=Text(title), title_justify="left", show_lines=wrap)
    for number, word in enumerate(head):
        side: Literal["left", "right"] = "left" if number < left else "right"
        drawn.add_column(Text(word), justify=side, no_wrap=not wrap or number == 0, overflow="fold")
    for number, row in enumerate(rows):
        if number in sections:
            drawn.add_section()
        drawn.add_row(*map(Text, row))
    stream = io.StringIO()
    Console(file=stream, width=WIDE if wrap else 1000, color_system=None).print(drawn)
    return stream.getvalue().rstrip("\n")
