"""`depgen human-eval score`: people's answers laid out like published tables, beside these."""

import json as json_format
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from depgen.errors import UserError
from depgen.evaluation.human import Kind, Outcome, read_outcome
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
    """
    pairs = [row.name for row in load_definition(*PUBLISHED["pairwise"]).rows]
    outcomes = {folder: read_outcome(folder, pairs) for folder in folders}
    kinds = {outcome.questionnaire.kind for outcome in outcomes.values()}
    figures = pd.concat([outcome.figures.assign(folder=str(folder)) for folder, outcome in outcomes.items()])
    if len(kinds) > 1 or (kinds != {"pairwise"} and len(outcomes) > 1):
        raise UserError("Expected comparisons, one Turing test, or one folder of ratings: they make different tables.")
    if figures.duplicated(["system", "measure"]).any():
        raise UserError("A pair is in two folders.")
    tables = [load_definition(name) for name in PUBLISHED[kinds.pop()]]
    definition = max(tables, key=lambda table: len({*figures["system"]} & {row.name for row in table.rows}))
    if json:
        text = json_format.dumps(figures.to_dict("records"), indent=2, ensure_ascii=False) + "\n"
    else:
        text = render(_page(definition, figures, outcomes), format=format)
    if output is not None:
        write_atomically(output, text)
    return text


def _page(definition: TableDefinition, figures: pd.DataFrame, outcomes: Mapping[Path, Outcome]) -> Page:
    """The published table with our lines in it; systems and pairs that it lacks follow at its end."""
    keys = [column.key for column in definition.columns]
    ours: dict[str, list[Cell]] = {}
    for system, of_system in figures.groupby("system", sort=False):
        rows = of_system.set_index("measure")
        ours[str(system)] = [
            Cell(
                str(system), "local", key, row["value"], low=row["low"], high=row["high"],
                mark="*" * _is_starred(rows["value"], key),
            )
            for key, row in rows.reindex(keys).iterrows()
            if key in rows.index
        ]  # fmt: skip
    known = {row.name for row in definition.rows}
    more = tuple(Row(name=system, in_paper=False) for system in ours if system and system not in known)
    definition = definition.model_copy(update={"rows": (*definition.rows, *more)})
    cells = [
        cell
        for row in definition.rows
        for cell in row_cells(definition, row, ours.get(row.name, ()))
        if cell.numbers != "difference"  # other people judged other texts
    ]
    notes = list(definition.notes)
    for folder, outcome in outcomes.items():
        shown = outcome.questionnaire.shown
        notes.append(
            f"{folder}: {shown['item'].nunique()} items, {outcome.raters} of {shown['rater'].nunique()} raters, "
            f"{outcome.missing:,} answers missing."
        )
    without_column = figures[~figures["measure"].isin(keys) & figures["value"].notna()]
    notes += [f"{row.folder}: {row.measure.replace('_', ' ')} {row.value:.3g}." for row in without_column.itertuples()]
    notes.append("Ours: every item counts alike; in brackets 95 % bootstrap intervals over items.")
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
