"""A table of results as Markdown, LaTeX, CSV, JSON or for the terminal, with its verdicts, runs and notes below."""

import io
import itertools
import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

from depgen.reporting.compare import LEVEL, UNKNOWN_TOLERANCE, SystemComparison, best_cells, compare, empty_texts
from depgen.reporting.results import (
    BOUND,
    CONFIDENCE,
    OF_DOCUMENTS,
    RESAMPLES,
    SEED,
    UNKNOWN,
    Result,
    Results,
)
from depgen.reporting.table import Column, Row, TableDefinition, is_made
from depgen.training.experiment import PAPER

if TYPE_CHECKING:
    from pandas import DataFrame

Format = Literal["markdown", "latex", "csv", "text", "json"]
NOTE_WIDTH, WIDE = 120, 180
"""Letters in a line of notes, and of the tables below the table, for the terminal."""
MATCHED = 0.01
"""How far, relative, the training tokens of compared systems may lie apart."""
SMALLEST = 1e-16
"""Below this, p-values are not told apart."""
_Key = TypeVar("_Key")


@dataclass(frozen=True)
class Cell:
    """One number of a table, or the place of one that was not computed.

    Attributes:
        row: the system's name.
        numbers: whose number: `paper`, `measured` (tracked), `local`, or `difference` of ours from the paper's; empty
            where the row has none.
        measure: the column's key.
        value: None where it was not computed, and in the one cell of a row that has no numbers at all.
        deviation: standard deviation over seeds, or the paper's over its runs.
        low: of the bootstrap interval over items.
        high: of the same.
        seeds: how many seeds the number is over; None for the paper's and for differences.
        mark: `*` where the system is better than the best other one, or where the paper has its own star.
        unknown: the share of `<unk>` in the text that a perplexity of ours is over; None where it is not known.
    """

    row: str
    numbers: str
    measure: str
    value: float | None = None
    deviation: float | None = None
    low: float | None = None
    high: float | None = None
    seeds: int | None = None
    mark: str = ""
    unknown: float | None = None

    def text(self, decimals: int) -> str:
        """As it is printed.

        >>> Cell("UDGN", "measured", "perplexity", 21.494, 0.3, 21.0, 22.0, 2, "*").text(2)
        '21.49 ± 0.30 [21.00, 22.00]*'
        """
        if self.value is None:
            return "–" if self.numbers else ""
        value = round(self.value, decimals) or 0.0  # no minus before a zero
        text = f"{value:{'+' if self.numbers == 'difference' and value else ''}.{decimals}f}"
        text += "" if self.deviation is None else f" ± {self.deviation:.{decimals}f}"
        text += "" if self.low is None else f" [{self.low:.{decimals}f}, {self.high:.{decimals}f}]"
        return text + self.mark


@dataclass(frozen=True)
class Page:
    """A table and what stands below it, before it takes a format.

    Attributes:
        definition: of the table.
        size: of the experiments; empty where none is known.
        cells: the numbers, in the table's order.
        labels: by row, what is printed behind its name.
        extras: the tables below, by title.
        notes: one line each.
        verdicts: each two systems that the table names, by measure.
    """

    definition: TableDefinition
    size: str
    cells: tuple[Cell, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    extras: Mapping[str, "DataFrame"] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    verdicts: tuple[SystemComparison, ...] = ()

    @property
    def caption(self) -> str:
        """The caption with the size; without it where configurations have none but the paper's, their own."""
        return self.definition.caption + (
            f" (size {self.size})" if self.size and self.definition.sizes != (PAPER,) else ""
        )

    @property
    def table(self) -> "DataFrame":
        """What is printed: a line a system and kind of numbers, a column a measure.

        A last column has the shares of `<unk>` that perplexities are over, where one is more than 1 %.
        """
        import pandas as pd

        columns = {column.key: column for column in self.definition.columns}
        lines: dict[tuple[str, str], dict[str, str]] = {}
        for cell in self.cells:
            lines.setdefault((cell.row, cell.numbers), {})[cell.measure] = cell.text(columns[cell.measure].decimals)
        arrows = {True: " ↑", False: " ↓", None: ""}
        head = [f"{column.header}{arrows[column.higher_better]}" for column in columns.values()]
        rows = [
            [row + self.labels.get(row, ""), numbers, *map(texts.get, columns)]
            for (row, numbers), texts in lines.items()
        ]
        frame = pd.DataFrame(rows, columns=["System", "", *head]).fillna("")
        frame["System"] = frame["System"].where(frame["System"] != frame["System"].shift(), "")
        shares = {(cell.row, cell.numbers): cell.unknown for cell in self.cells if cell.unknown is not None}
        if max(shares.values(), default=0.0) > UNKNOWN_TOLERANCE:
            frame["<unk>"] = [f"{100 * shares[line]:.2f} %" if line in shares else "" for line in lines]
        return frame

    @property
    def tables(self) -> dict[str, "DataFrame"]:
        """The table and those below it, by title."""
        return {self.caption: self.table, **self.extras}


# -- a page -----------------------------------------------------------------------------------------------------------


def page_of(results: Results) -> Page:
    """The table of our numbers next to the published ones, with all that stands below it."""
    comparisons, definition = compare(results), results.definition
    best = best_cells(results, comparisons)
    is_published = any(row.values for row in definition.rows)
    is_made_here = any(row.experiment or row.is_floor for row in definition.rows)  # and not by asking people
    cells, labels = list[Cell](), dict[str, str]()
    for row in definition.rows:
        ours = [*_cells(results, row, best)]
        cells += row_cells(definition, row, ours)
        remarks = [f"quoted: {row.quoted}"] if row.quoted else []
        if not ours and is_made_here and (row.quoted is None or row.experiment is not None):
            hours = row.core_hours.get(results.size)
            not_run = "not run yet" if hours is None else f"not run: {hours:g} core-hours a seed"
            remarks.append(not_run if is_made(row, size=results.size) else "not built yet")
        dagger = "†" if is_published and not row.in_paper and not row.is_floor else ""
        labels[row.name] = dagger + (f" ({'; '.join(remarks)})" if remarks else "")
    verdicts = tuple(
        item for item in comparisons if definition.planned or item.other in definition.row(item.row).against
    )
    extras = {
        "Verdicts": _verdicts(definition, verdicts),
        "Values of the seeds": _values(results),
        "Runs": _runs(results),
    }
    shown = {title: frame for title, frame in extras.items() if len(frame)}
    return Page(definition, results.size, tuple(cells), labels, shown, tuple(_notes(results)), verdicts)


def row_cells(definition: TableDefinition, row: Row, ours: Sequence[Cell]) -> Iterator[Cell]:
    """A row's cells: the paper's numbers, ours, and the differences of those that compare; one empty cell if none."""
    if not row.values and not ours:
        yield Cell(row.name, "", definition.columns[0].key)
    for column in definition.columns:
        if column.key in row.values:
            deviation, star = row.deviations.get(column.key), "*" if column.key in row.stars else ""
            yield Cell(row.name, "paper", column.key, row.values[column.key], deviation, mark=star)
    yield from ours
    for cell in ours:
        if cell.value is not None and cell.measure in row.values and definition.column(cell.measure).comparable:
            yield Cell(row.name, "difference", cell.measure, cell.value - row.values[cell.measure])


def _cells(results: Results, row: Row, best: set[tuple[str, str]]) -> Iterator[Cell]:
    """Our numbers of a row, and the places of those that are missing and expected."""
    source = results.source(row.name)
    for column in results.definition.ours if results.of(row.name) else ():
        place, figure = (row.name, column.key), results.figure(row.name, column.key)
        if figure is not None:
            low, high = results.intervals.get(place, (None, None))
            mark, seeds = "*" if place in best else "", len(figure.values)
            share = results.figure(row.name, "unk_rate") if column.is_perplexity else None
            unknown = None if share is None else share.mean
            yield Cell(row.name, source, column.key, figure.mean, figure.deviation, low, high, seeds, mark, unknown)
        elif _why_missing(results, row, column):
            yield Cell(row.name, source, column.key)


# -- formats ----------------------------------------------------------------------------------------------------------


def render(page: Page, *, format: Format) -> str:
    """A page as text that ends in a line break."""
    return {"markdown": _markdown, "latex": _latex, "csv": _csv, "text": _text, "json": _json}[format](page)


def _markdown(page: Page) -> str:
    blocks = []
    for title, frame in page.tables.items():
        right = frame.shape[1] - 2 if title == page.caption else 0
        sides = ["---"] * (frame.shape[1] - right) + ["--:"] * right
        lines = [[cell.replace("*", "\\*").replace("|", "\\|") for cell in row] for row in frame.to_numpy().tolist()]
        head, *rows = (f"| {' | '.join(row)} |" for row in (list(frame.columns), *lines))
        blocks.append("\n".join([f"**{title}**", "", head, f"|{'|'.join(sides)}|", *rows]))
    return "\n\n".join([*blocks, "\n".join(f"- {note}" for note in page.notes)]) + "\n"


_LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
        "<": "$<$", ">": "$>$",
        "†": r"$^{\dagger}$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "*": r"$^{*}$", "±": r"$\pm$", "–": "--",
    }
)  # fmt: skip


def _latex(page: Page) -> str:
    """For booktabs, a rule between groups of systems; notes are comments."""
    head, *rows = ([text.translate(_LATEX) for text in line] for line in (page.table.columns, *page.table.to_numpy()))
    lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{ll{'r' * (len(head) - 2)}}}", r"\toprule"]
    lines.append(" & ".join(head) + r" \\")
    systems, before = iter(page.definition.rows), object()
    for row in rows:
        if row[0] and (group := next(systems).group) != before:
            lines, before = [*lines, r"\midrule"], group
        lines.append(" & ".join(row) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{page.caption.translate(_LATEX)}}}", r"\end{table}"]
    return "\n".join([*lines, *(f"% {note}" for note in page.notes)]) + "\n"


def _csv(page: Page) -> str:
    """One number a line."""
    import pandas as pd

    frame = pd.DataFrame([cell for cell in page.cells if cell.value is not None], columns=list(Cell.__annotations__))
    frame = frame.rename(columns={"row": "system"}).astype({"seeds": "Int64"})
    frame.insert(0, "table", page.definition.table)
    frame.insert(1, "size", page.size)
    return str(frame.to_csv(index=False, float_format="%.10g", lineterminator="\n"))


def _text(page: Page) -> str:
    """For the terminal; nothing is cut."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    stream = io.StringIO()
    for title, frame in page.tables.items():
        is_first = title == page.caption
        drawn = Table(title=Text(title), title_justify="left", show_lines=not is_first)
        for place, word in enumerate(frame.columns):
            side: Literal["left", "right"] = "right" if is_first and place > 1 else "left"
            drawn.add_column(Text(word), justify=side, no_wrap=is_first or place == 0, overflow="fold")
        for row in frame.to_numpy():
            if is_first and row[0]:
                drawn.add_section()
            drawn.add_row(*map(Text, row))
        Console(file=stream, width=1000 if is_first else WIDE, color_system=None).print(drawn)
    wrapper = textwrap.TextWrapper(
        NOTE_WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    lines = [*stream.getvalue().splitlines(), *"\n".join(map(wrapper.fill, page.notes)).splitlines()]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _json(page: Page) -> str:
    verdicts = [{**asdict(item), "verdict": item.verdict} for item in page.verdicts]
    content = {"table": page.definition.table, "cells": [*map(asdict, page.cells)], "verdicts": verdicts}
    return json.dumps(content, indent=2) + "\n"


# -- tables below the table -------------------------------------------------------------------------------------------


def _verdicts(definition: TableDefinition, verdicts: Sequence[SystemComparison]) -> "DataFrame":
    """A line a verdict; figures that do not compare have no gain."""
    import pandas as pd

    lines = []
    for item in verdicts:
        column = definition.column(item.column)
        gain, *ends = (f"{number:+.{column.decimals}f}" for number in (item.gain, *(item.interval or ())))
        why = f"not tested: {item.untested}" if item.untested and column.test != "none" else ""
        line = (gain, _p_value(item.p_seeds), f"[{', '.join(ends)}]" if ends else "", _p_value(item.p_items) or why)
        verdict = f"{item.verdict}: {item.incomparable}" if item.incomparable else item.verdict
        lines.append([item.row, item.other, column.header, *(("",) * 4 if item.incomparable else line), verdict])
    head = ["System", "against", "measure", "gain", "p (seeds)", "interval", "p (items)", "verdict"]
    return pd.DataFrame(lines, columns=head)


def _values(results: Results) -> "DataFrame":
    """A line a row and measure of the planned comparisons: the value of each seed, in the order of the Runs table."""
    import pandas as pd

    plans = results.definition.planned
    compared = {(name, plan.column) for plan in plans for name in (plan.row, plan.against)}
    lines = []
    for row, column in itertools.product(results.definition.rows, results.definition.columns):
        figure = results.figure(row.name, column.key)
        if figure is not None and (row.name, column.key) in compared:
            values = (f"{value:.{column.decimals}f}" for value in figure.values.values())
            lines.append([row.name, column.header, ", ".join(values)])
    return pd.DataFrame(lines, columns=["System", "measure", "values"])


def _p_value(p_value: float | None) -> str:
    """Two digits, such as `0.036`; empty where there is none."""
    if p_value is None:
        return ""
    return f"{p_value:.2g}" if p_value >= SMALLEST else f"< {SMALLEST}"


def _runs(results: Results) -> "DataFrame":
    """Where every row's numbers come from; a column that no row has is left out."""
    import pandas as pd

    rows = [{"System": row.name, **_run(results, row)} for row in results.definition.rows if results.of(row.name)]
    frame = pd.DataFrame(rows)
    return frame.loc[:, (frame != "").any()] if rows else frame


def _run(results: Results, row: Row) -> dict[str, str]:
    """What is told of a row's runs, by the heads of the columns."""
    runs = results.of(row.name)
    empty, unknown = empty_texts(runs), results.figure(row.name, "unk_rate")
    seconds = _mean(run.clock[-1][1] if run.clock else run.processor_seconds for run in runs)
    trained_by, measured_by = _every(run.commit for run in runs), _every(run.measured_commit for run in runs)
    return {
        "data": _every(map(_data_in_words, runs)),
        "trees": "" if row.is_floor else _every(run.trees or "none" for run in runs),
        "seeds": "" if row.is_floor else ", ".join(str(run.seed) for run in runs),
        "began from": _every(run.beginning for run in runs),
        "parameters (M)": _millions(_mean(run.parameters for run in runs)),
        "epochs": _every(str(run.budget.epochs or "") for run in runs),
        "tokens (M)": _millions(_mean(run.budget.train_tokens for run in runs)),
        "minutes": "" if seconds is None else f"{seconds / 60:,.0f}" if seconds >= 60 else f"{seconds:.0f} s",
        "empty texts": f"{empty[0]:,} of {empty[1]:,}" if empty is not None and empty[0] else "",
        "<unk>": "" if unknown is None else f"{100 * unknown.mean:.2f} %",
        "precision": _every(run.precision for run in runs),
        "machine": _every(run.hardware for run in runs),
        "date": _every(run.date for run in runs),
        "commit": trained_by,
        "measured by": "" if measured_by == trained_by else measured_by,
    }


def _every(texts: Iterable[str | None]) -> str:
    """What is said, each once."""
    return " / ".join(dict.fromkeys(text for text in texts if text))


def _data_in_words(result: Result) -> str:
    """The corpus, whether it is reduced, and how many training documents it has."""
    data = result.data.corpus + (" (reduced)" if result.data.reduced else "")
    return data if result.data.train_documents is None else f"{data}, {result.data.train_documents:,} documents"


def _mean(numbers: Iterable[float | None]) -> float | None:
    """The mean of what is known; None where nothing is."""
    known = [number for number in numbers if number is not None]
    return sum(known) / len(known) if known else None


def _millions(number: float | None) -> str:
    """A number in millions: two decimals, and below 1 three significant digits.

    >>> _millions(1234567890), _millions(34512)
    ('1,234.57', '0.0345')
    """
    if number is None:
        return ""
    return f"{number / 1e6:,.2f}" if number >= 1e6 else f"{number / 1e6:#.3g}"


# -- notes ------------------------------------------------------------------------------------------------------------


def _notes(results: Results) -> list[str]:
    """At most eight lines, each of one kind."""
    kinds = {
        "Numbers": _sources(results),
        "Marks": _marks(results),
        "Compare with care": _data(results),
        "Training tokens NOT matched": _budgets(results),
        "Out of date": _outdated(results),
        "Not computed": _missing(results),
        "Settings": _settings(results),
        "Notes": _explanations(results.definition),
    }
    lines = {kind: [line.rstrip(".") for line in of_kind] for kind, of_kind in kinds.items()}
    return [f"{kind}: {'; '.join(of_kind)}." for kind, of_kind in lines.items() if of_kind]


def _sources(results: Results) -> Iterator[str]:
    """Where the numbers of each line come from."""
    definition = results.definition
    sources = {results.source(run.row) for run in results.runs}
    published = any(row.values for row in definition.rows)
    if published:
        yield f"paper: {definition.source}, with its own marks"
    if "measured" in sources:
        yield "measured: tracked in experiments/measured"
    if "local" in sources:
        yield f"local: from results/{definition.table}"
    if published and sources:
        yield "difference: ours less the paper's"
    if not sources and any(row.trained is not None for row in definition.rows):
        yield f"nothing of ours yet at size {results.size}: {definition.command(results.size)}"


_TESTS = {"paired_t": "a paired t-test", "paired_bootstrap": "a paired bootstrap", "welch_t": "Welch's t-test"}


def _marks(results: Results) -> Iterator[str]:
    """What the signs in the cells and the verdicts mean."""
    definition = results.definition
    if results.runs:
        directed = [column for column in definition.ours if column.higher_better is not None]
        headers = {name: [column.header for column in directed if column.test == name] for name in _TESTS}
        tested = ", ".join(f"{words} ({_listed(headers[name])})" for name, words in _TESTS.items() if headers[name])
        yield "±: standard deviation over seeds"
        yield (
            f"[low, high]: {100 * CONFIDENCE:.0f} % bootstrap interval over test items ({RESAMPLES:,} resamples, seed "
            f"{SEED}), the models held fixed"
        )
        if definition.planned:
            yield "p (seeds): of the planned comparisons alone, by the exact rank-sum test, Holm's correction over all"
            yield "interval: of the gain, 95 % bootstrap over seeds (10,000 resamples, seed 0)"
            yield "gain: positive where the system named first is better"
            return
        yield (
            f"*: better than the best other system of its group, two-sided p < {LEVEL} over seeds and, where items are "
            "tested, over items"
        )
        yield f"seeds are tested by Welch's t-test{f', items by {tested}' if tested else ''}"
        yield (
            "every p is corrected by Holm's method: over seeds in each measure over the pairs of the verdicts (other "
            "pairs apart), over items over all tests of the table (a recorded test: over those of its time)"
        )
        yield "gain: positive where the system named first is better"
    if any(row.values for row in definition.rows) and not all(row.in_paper or row.is_floor for row in definition.rows):
        yield "†: not in the paper"


def _data(results: Results) -> Iterator[str]:
    """What keeps rows from being compared with one another or with the paper: less data, other data, unknown words."""
    definition = results.definition
    runs = [(definition.row(run.row), run) for run in results.runs]
    reduced = [row for row, run in runs if run.data.reduced and row.floor != "corpus"]
    names = list(dict.fromkeys(row.name for row in reduced if row.values or not row.other_data))
    if names and any(row.values for row in definition.rows):
        yield (
            f"trained on less data than was published ({_rows_listed(results, names)}), so that differences from the "
            "paper are no verdict on a system"
        )
    same = [(run.data.fingerprint, row.name) for row, run in runs if not row.is_floor and not row.other_data]
    versions = dict.fromkeys(map(_listed, _grouped(same).values()))  # all rows have each text where seeds draw texts
    if len(versions) > 1:
        yield f"NOT the same data (text or reading options differ): {' | '.join(versions)}"
    of_judge = {OF_DOCUMENTS: "words that are <unk>", UNKNOWN: "words of the texts that the oracle reads as <unk>"}
    for column in definition.columns:
        for end, of_what in of_judge.items():
            figures = [(row.name, results.figure(row.name, column.key + end)) for row in definition.rows]
            shares = _grouped((f"{100 * figure.mean:.2f} %", name) for name, figure in figures if figure is not None)
            if shares:
                listed = ", ".join(f"{share} ({_listed(rows)})" for share, rows in shares.items())
                yield f"{column.header}: {of_what}: {listed}"


def _budgets(results: Results) -> Iterator[str]:
    """The groups whose systems saw different numbers of training tokens."""
    groups: dict[str | None, dict[str, float]] = {}
    for row in results.definition.rows:
        if (tokens := _mean(run.budget.train_tokens for run in results.of(row.name))) is not None:
            groups.setdefault(row.group, {})[row.name] = tokens
    for group, seen in groups.items():
        if max(seen.values()) > (1 + MATCHED) * min(seen.values()):
            listed = _listed([f"{name} {tokens:,.0f}" for name, tokens in seen.items()])
            yield f"{group}: {listed}" if group else listed


def _outdated(results: Results) -> Iterator[str]:
    """The rows and seeds that were made before a correction of the code."""
    seeds = _grouped(((run.row, run.made_before), str(run.seed)) for run in results.runs if run.made_before is not None)
    rows = _grouped(
        (before, row if len(of_row) == len(results.of(row)) else f"{row} (seed {', '.join(of_row)})")
        for (row, before), of_row in seeds.items()
    )
    yield from (f"made before {before}: {_rows_listed(results, names)}" for before, names in rows.items())


def _missing(results: Results) -> Iterator[str]:
    """Each missing measure with its reason, and the figures that are over fewer seeds than their row has."""
    definition = results.definition
    places = [(column, row) for column in definition.ours for row in definition.rows]
    reasons = [(column, row, _why_missing(results, row, column)) for column, row in places]
    rows = _grouped(((column.header, reason), row.name) for column, row, reason in reasons if reason is not None)
    headers = _grouped(((reason, tuple(names)), header) for (header, reason), names in rows.items())
    for (reason, names), of_reason in headers.items():
        yield f"{_listed(of_reason)} ({_rows_listed(results, names)}): {reason.rstrip('.')}"
    for column, row in places:
        figure, seeds = results.figure(row.name, column.key), len(results.of(row.name))
        if figure is not None and len(figure.values) < seeds:
            yield f"{row.name} {column.header}: over {len(figure.values)} of {seeds} seeds"
    if alone := [column.header for column in definition.columns if column.published_only]:
        yield f"{_listed(alone)}: the data are not at hand"


def _why_missing(results: Results, row: Row, column: Column) -> str | None:
    """Why a row has no figure of a measure of ours; None where it has one, or is not expected to.

    The sizes of a corpus and the perplexity under a source are all that their rows have.
    """
    runs = results.of(row.name)
    if not runs or results.figure(row.name, column.key) is not None:
        return None
    if any(column.key in run.metrics for run in runs):
        return "its seeds were judged by different models, over which there is no mean"
    if said := dict.fromkeys(run.not_computed[column.key] for run in runs if column.key in run.not_computed):
        return "; ".join(said)
    is_alone = row.is_floor and row.experiment is not None
    return None if is_alone else "not measured; --remeasure computes it where the run is kept"


def _settings(results: Results) -> Iterator[str]:
    """What judged each measure, with the rows where several did; and how texts were made."""
    columns: dict[str, list[str]] = {}
    for column in results.definition.columns:
        for key in (column.key, column.key + BOUND):
            rows = _grouped((run.settings[key], run.row) for run in results.runs if key in run.settings)
            for setting, names in rows.items():
                of_rows = f" ({_listed(names)})" if len(rows) > 1 or key != column.key else ""
                columns.setdefault(setting, []).append(column.header + of_rows)
    yield from (f"{_listed(headers)}: {setting}" for setting, headers in columns.items())
    if results.definition.generation is not None:
        own = sorted({column.top_p for column in results.definition.columns if column.top_p is not None})
        for way, names in _grouped((run.generation, run.row) for run in results.runs if run.generation).items():
            begun = f"prompt_sentences {way.prompt_sentences}" if way.samples is None else f"samples {way.samples}"
            begun += "" if way.documents is None else f" of the first {way.documents:,} test documents"
            yield (
                f"texts ({_rows_listed(results, names)}): {begun}, top_p {' / '.join(map(str, own or [way.top_p]))}, "
                f"temperature {way.temperature}, seed {way.seed} + the run's, at most {way.max_new_tokens} tokens"
            )


def _explanations(definition: TableDefinition) -> Iterator[str]:
    """What is to be known of single columns and rows, and of the table."""
    yield from (f"{column.header}: {column.explanation}" for column in definition.columns if column.explanation)
    yield from (f"{row.name}: {row.note}" for row in definition.rows if row.note is not None)
    yield from definition.notes


def _grouped(pairs: Iterable[tuple[_Key, str]]) -> dict[_Key, list[str]]:
    """The names of each key, each once; both in order.

    >>> _grouped([("a", "x"), ("b", "y"), ("a", "z"), ("a", "x")])
    {'a': ['x', 'z'], 'b': ['y']}
    """
    groups: dict[_Key, list[str]] = {}
    for key, name in dict.fromkeys(pairs):
        groups.setdefault(key, []).append(name)
    return groups


def _rows_listed(results: Results, names: Sequence[str]) -> str:
    """The names of rows; `all rows` where these are all that have results."""
    return "all rows" if set(names) >= {run.row for run in results.runs} else _listed(names)


def _listed(names: Sequence[str]) -> str:
    """Names with commas between, or semicolons where a name holds a comma.

    >>> _listed(["DM-Transformer", "DM-Transformer, left chain"])
    'DM-Transformer; DM-Transformer, left chain'
    """
    return ("; " if any("," in name for name in names) else ", ").join(names)
