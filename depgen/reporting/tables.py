"""A table in a format: Markdown, LaTeX, CSV or for the terminal."""

import csv
import io
import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal

from depgen.errors import UserError
from depgen.locations import results_root, write_atomically
from depgen.reporting.definition import TableDefinition, chosen_tables
from depgen.reporting.layout import Layout, SystemLines, lay_out
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
        layout = lay_out(read_ours(definition, size=chosen))
        text = render(layout, format=format)
        for each, ending in _ENDINGS.items() if files else ():
            path = results_root() / definition.table / f"table-{chosen}.{ending}"
            write_atomically(path, render(layout, format=each))
        if output is not None:
            write_atomically(output, text)
        if format == "csv" and shown:
            text = text.partition("\n")[2]  # one head for all
        shown.append(f"{reason}\n\n{text}" if format in ("markdown", "text") and output is None else text)
    return ("" if format == "csv" else "\n").join(shown)


def tracked_page(definition: TableDefinition, size: str) -> str:
    """The table of the tracked results alone in Markdown, the same on every machine."""
    return render(lay_out(read_ours(definition, size=size, local=False)), format="markdown")


def render(layout: Layout, *, format: Format) -> str:
    """The laid-out table as text that ends in a line break."""
    return {"markdown": _markdown, "latex": _latex, "csv": _csv, "text": _text}[format](layout)


def _in_words(system: SystemLines) -> list[list[str]]:
    """A system's lines as printed: its label in the first, whose numbers, and these."""
    lines = enumerate(system.lines.items())
    return [["" if number else system.label, whose, *map(str, cells)] for number, (whose, cells) in lines]


def _markdown(layout: Layout) -> str:
    rows = [[cell.replace("*", "\\*") for cell in row] for system in layout.systems for row in _in_words(system)]
    tables = [_markdown_table(layout.caption, ["System", "", *layout.head], rows, left=2)]
    tables += [_markdown_table(each.title, each.head, each.rows, left=len(each.head)) for each in layout.extras]
    return "\n\n".join([*tables, "\n".join(f"- {note}" for note in layout.notes)]) + "\n"


def _markdown_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int) -> str:
    lines = [f"**{title}**", "", f"| {' | '.join(head)} |"]
    lines.append(f"|{'|'.join(['---'] * left + ['--:'] * (len(head) - left))}|")
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines)


def _latex(layout: Layout) -> str:
    """For booktabs; notes and the tables below are comments."""
    lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{ll{'r' * len(layout.head)}}}", r"\toprule"]
    lines.append(_latex_row(["System", "", *layout.head]))
    for _, systems in groupby(layout.systems, key=lambda each: each.row.group):
        lines += [r"\midrule", *(_latex_row(row).translate(_MARKS) for system in systems for row in _in_words(system))]
    lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{layout.caption.translate(_LATEX)}}}", r"\end{table}"]
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
_MARKS = str.maketrans({"*": r"$^{*}$", "‡": r"$^{\ddagger}$", "±": r"$\pm$"})
"""The marks in cells, in LaTeX."""


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(each.translate(_LATEX) for each in cells) + r" \\"


def _csv(layout: Layout) -> str:
    """One number a line; the last column says why a number is out of date, and is empty where it is not."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    head = ["table", "size", "system", "numbers", "measure", "value", "deviation", "low", "high", "seeds", "mark"]
    writer.writerow([*head, "word", "out_of_date"])
    for system in layout.systems:
        for whose, cells in system.lines.items():
            outdated = "" if whose == "paper" else "; ".join(system.outdated)
            for column, cell in zip(layout.definition.columns, cells, strict=True):
                if cell.value is None and not cell.word:
                    continue
                place = [layout.definition.table, layout.size, system.row.name, whose, column.key]
                values = (cell.value, cell.deviation, *(cell.interval or (None, None)))
                numbers = ["" if number is None else f"{number:.10g}" for number in values]
                writer.writerow([*place, *numbers, cell.seeds, cell.mark, cell.word, outdated])
    return stream.getvalue()


def _text(layout: Layout) -> str:
    """For the terminal."""
    blocks: list[list[list[str]]] = []
    for before, system in zip((None, *layout.systems), layout.systems, strict=False):
        if before is None or before.row.group != system.row.group or max(len(before.lines), len(system.lines)) > 1:
            blocks.append([])
        blocks[-1] += _in_words(system)
    drawn = [_drawn(layout.caption, ["System", "", *layout.head], blocks, left=2)]
    drawn += [_drawn(each.title, each.head, [each.rows], left=len(each.head), wrap=True) for each in layout.extras]
    wrapper = textwrap.TextWrapper(
        NOTE_WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    text = "\n".join([*drawn, *map(wrapper.fill, layout.notes)])
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _drawn(
    title: str, head: Sequence[str], blocks: Iterable[Iterable[Sequence[str]]], *, left: int, wrap: bool = False
) -> str:
    """A table drawn by rich, `left` columns flush left, a rule between blocks of rows; nothing is cut."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=Text(title), title_justify="left", show_lines=wrap)
    for number, word in enumerate(head):
        side: Literal["left", "right"] = "left" if number < left else "right"
        drawn.add_column(Text(word), justify=side, no_wrap=not wrap or number == 0, overflow="fold")
    for rows in blocks:
        drawn.add_section()
        for row in rows:
            drawn.add_row(*map(Text, row))
    stream = io.StringIO()
    Console(file=stream, width=WIDE if wrap else 1000, color_system=None).print(drawn)
    return stream.getvalue().rstrip("\n")
