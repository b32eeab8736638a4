"""`depgen human-eval score`: people's answers laid out like published tables, beside these."""

import json as json_format
from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from depgen.errors import UserError
from depgen.evaluation.human import Kind, Outcome, left_out, read_outcome
from depgen.locations import write_atomically
from depgen.reporting.render import Cell, Format, Page, render, row_cells
from depgen.reporting.table import Row, TableDefinition, load_definition

PUBLISHED: Mapping[Kind, tuple[str, ...]] = {
    "pairwise": ("human/dmlm_table3",),
    "turing": ("human/dmlm_table6",),
    "rating": ("human/itexp_table4", "human/itexp_table5"),
}
"""Tables in a folder of their own: `depgen reproduce` does not make them. Of several, that with most of the systems."""
LEVEL = 0.01
"""Of Table 3's star."""


def score(folders: list[Path], *, format: Format = "markdown", output: Path | None = None, json: bool = False) -> str:
    """People's answers beside the published ones: comparisons and a Turing test as DMLM's, ratings as ITEXP's.

    Args:
        folders: one or more that `depgen human-eval export` wrote, with the raters' files in `answers/`.
        format: of the table.
        output: a file for the table as well.
        json: the figures as JSON instead of a table.

    Raises:
        UserError: answers are missing or do not fit the key; folders do not belong into one table.
    """
    pairs = [row.name for row in load_definition(*PUBLISHED["pairwise"]).rows]
    outcomes = {folder: read_outcome(folder, pairs) for folder in folders}
    kinds = {outcome.questionnaire.kind for outcome in outcomes.values()}
    if len(kinds) > 1 or (kinds != {"pairwise"} and len(outcomes) > 1):
        raise UserError("Expected comparisons, one Turing test, or one folder of ratings: they make different tables.")
    systems = [system for outcome in outcomes.values() for system in outcome.figures["system"].unique()]
    if len({*systems}) < len(systems):
        raise UserError(f"A pair is in two folders: {', '.join(systems)}.")
    tables = [load_definition(name) for name in PUBLISHED[kinds.pop()]]
    definition = max(tables, key=lambda table: len({*systems} & {row.name for row in table.rows}))
    if json:
        figures = {str(folder): outcome.figures.to_dict("records") for folder, outcome in outcomes.items()}
        text = json_format.dumps(figures, indent=2, ensure_ascii=False) + "\n"
    else:
        text = render(_page(definition, outcomes), format=format)
    if output is not None:
        write_atomically(output, text)
    return text


def _page(definition: TableDefinition, outcomes: Mapping[Path, Outcome]) -> Page:
    """The published table with our lines in it; systems and pairs that it lacks follow at its end."""
    ours: dict[str, list[Cell]] = {}
    for outcome in outcomes.values():
        for system, figures in outcome.figures.groupby("system", sort=False):
            rows = figures.set_index("measure")
            stars = {key for key in rows.index if _is_starred(rows["value"], key)}
            ours[system] = [
                Cell(system, "local", key, row["value"], low=row["low"], high=row["high"], mark="*" * (key in stars))
                for key, row in rows.reindex([column.key for column in definition.columns]).iterrows()
                if key in rows.index
            ]
    known = {row.name for row in definition.rows}
    more = tuple(Row(name=system, in_paper=False) for system in ours if system and system not in known)
    definition = definition.model_copy(update={"rows": (*definition.rows, *more)})
    cells = [
        cell
        for row in definition.rows
        for cell in row_cells(definition, row, ours.get(row.name, ()))
        if cell.numbers != "difference"  # other people judged other texts
    ]
    notes = [*definition.notes, *(note for folder, outcome in outcomes.items() for note in _notes(folder, outcome))]
    if more:
        notes.append("†: not in the paper.")
    if definition.table == "dmlm_table3":
        notes.append(
            f"A star: p < {LEVEL} in the two-sided Wilcoxon signed-rank test, not corrected for the number of tests. "
            "Ours is over pairs of texts, each with its raters' mean preference, pairs without one left out of the "
            "ranks; the paper does not name its unit. Single judgements are not independent."
        )
    labels = {row.name: "" if row.in_paper else "†" for row in definition.rows}
    return Page(definition, "", tuple(cells), labels, notes=tuple(notes))


def _is_starred(values: pd.Series, key: str) -> bool:
    """Whether a share of wins or losses is the larger one, and the test over items says that this is no chance."""
    aspect, _, name = key.rpartition("_")
    other = {"win": "lose", "lose": "win"}.get(name)
    if other is None:
        return False
    return bool(values[f"{aspect}_p_items"] < LEVEL and values[key] > values[f"{aspect}_{other}"])


def _notes(folder: Path, outcome: Outcome) -> Iterator[str]:
    """What was asked, of whom, what is missing; and the figures that have no column."""
    questionnaire = outcome.questionnaire
    first = "" if outcome.first_shown is None else f"; the text shown first won {100 * outcome.first_shown:.1f} %"
    sources = ", ".join(f"{system} from {file}" for system, file in questionnaire.sources.items())
    yield (
        f"{folder}: {questionnaire.shown['item'].nunique()} items, {len(outcome.raters)} of "
        f"{len(questionnaire.raters)} raters, {outcome.missing:,} answers missing{first}; left out before the draw: "
        f"{left_out(questionnaire)}; texts of {sources}."
    )
    values = dict(zip(outcome.figures["measure"], outcome.figures["value"], strict=True))
    tests = [f"{name.replace('_', ' ')} {value:.2g}" for name, value in values.items() if "_p_" in name]
    if tests:
        yield f"{folder}: {', '.join(tests)}."
    elif (alpha := values["alpha"]) is not None:
        yield f"{folder}: Krippendorff's alpha of the raters {alpha:.3f}."
    yield "Ours: every item counts alike; in brackets 95 % bootstrap intervals over items, with the raters as they are."
