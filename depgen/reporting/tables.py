"""A table in a format: Markdown, LaTeX, CSV or for the terminal."""

import csv
import io
import textwrap
from pathlib import Path
from typing import Literal

from depgen.locations import results_root, write_atomically
from depgen.reporting.definition import load_definition
from depgen.reporting.layout import Cell, Layout, lay_out
from depgen.reporting.measured import read_measured
from depgen.reporting.provenance import choose_profile
from depgen.reporting.results import read_results

Format = Literal["markdown", "latex", "csv", "text"]
NOTE_WIDTH = 120
_ENDINGS: dict[Format, str] = {"markdown": "md", "latex": "tex", "csv": "csv", "text": "txt"}


def table(table: str, *, profile: str | None = None, format: Format = "markdown", output: Path | None = None) -> str:
    """A table of the results so far beside the published and the tracked ones.

    All four formats are written under `results/<table>/` as well.

    Args:
        table: its name.
        profile: whose results; unset: `paper` where a GPU is found, `small` elsewhere.
        format: of the returned text.
        output: a file for the returned text.

    Raises:
        UserError: there is no such table or profile, or a result does not read as one.
    """
    definition = load_definition(table)
    profile, reason = choose_profile(definition.profiles, profile)
    results = {row.name: read_results(definition.table, row.slug, profile=profile) for row in definition.rows}
    layout = lay_out(definition, profile=profile, results=results, measured=read_measured(definition, profile=profile))
    for each, ending in _ENDINGS.items():
        write_atomically(results_root() / definition.table / f"table-{profile}.{ending}", render(layout, format=each))
    text = render(layout, format=format)
    if output is not None:
        write_atomically(output, text)
    return f"{reason}\n\n{text}" if format in ("markdown", "text") and output is None else text


def render(layout: Layout, *, format: Format) -> str:
    """The laid-out table as text that ends in a line break."""
    return {"markdown": _markdown, "latex": _latex, "csv": _csv, "text": _text}[format](layout)


def show(cell: Cell, *, plus_minus: str = " ± ", star: str = "*", partial: str = "‡") -> str:
    """A cell's words.

    >>> show(Cell(21.494, 0.3, star=True))
    '21.49 ± 0.30*'
    """
    if cell.value is None:
        return cell.word
    value = round(cell.value, cell.decimals) or 0.0  # no minus before a zero
    text = f"{value:{'+' if cell.signed and value else ''}.{cell.decimals}f}"
    if cell.deviation is not None:
        text += f"{plus_minus}{cell.deviation:.{cell.decimals}f}"
    return text + (star if cell.star else "") + (partial if cell.partial else "")


def _head(layout: Layout, up: str = "↑", down: str = "↓") -> list[str]:
    arrows = {True: f" {up}", False: f" {down}", None: ""}
    return ["System", "", *(f"{column.header}{arrows[column.higher_better]}" for column in layout.definition.columns)]


def _markdown(layout: Layout) -> str:
    head = _head(layout)
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
    head = " & ".join(_escape(word) for word in _head(layout, up="UP", down="DOWN"))
    head = head.replace("UP", r"$\uparrow$").replace("DOWN", r"$\downarrow$")
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


def _escape(text: str) -> str:
    """LaTeX's special characters made ordinary."""
    for character in "&%$#_{}":
        text = text.replace(character, f"\\{character}")
    return text.replace("†", r"$^{\dagger}$")


def _csv(layout: Layout) -> str:
    """One number a line."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["table", "profile", "system", "numbers", "measure", "value", "deviation", "seeds", "star", "word"])
    for line in layout.lines:
        for column, cell in zip(layout.definition.columns, line.cells, strict=True):
            if cell.value is None and not cell.word:
                continue
            numbers = ["" if number is None else f"{number:.10g}" for number in (cell.value, cell.deviation)]
            seeds = next((each for each in (cell.seeds, line.seeds) if each is not None), "")
            place = [layout.definition.table, layout.profile, line.row.name, line.numbers, column.key]
            writer.writerow([*place, *numbers, seeds, int(cell.star), cell.word])
    return stream.getvalue()


def _text(layout: Layout) -> str:
    """For the terminal, drawn by rich."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=Text(layout.caption), title_justify="left")
    for number, word in enumerate(_head(layout)):
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
