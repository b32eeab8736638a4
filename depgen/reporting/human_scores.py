"""`depgen human-eval score`: people's answers laid out like published tables, beside these."""

import json as json_format
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from depgen.errors import UserError
from depgen.evaluation.human.outcome import Outcome, read_outcome
from depgen.evaluation.human.questionnaire import Kind
from depgen.locations import write_atomically
from depgen.reporting.render import Cell, Format, Page, render, row_cells
from depgen.reporting.table import Row, TableDefinition, load_definition

PUBLISHED: Mapping[Kind, tuple[str, ...]] = {
    "pairwise": ("human/dmlm_table3",),
    "turing": ("human/dmlm_table6",),
    "rating": ("human/itexp_table4", "human/itexp_table5"),
}
"""Tables in a folder of their own: `depgen reproduce` does not make them. Of several, that with most of the systems."""
OF_OTHERS: Mapping[Kind, str] = {
    "pairwise": "Pairwise human evaluation of other texts",
    "turing": "Turing test of other sentences",
    "rating": "Ratings of other sentences, from 1 to 5",
}
"""What captions say where no texts are those of the paper's tables."""
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
    scored = [read_outcome(folder) for folder in folders]
    kinds = {each.asked.kind for each in scored}
    if len(kinds) > 1 or (kinds != {"pairwise"} and len(scored) > 1):
        raise UserError("Expected comparisons, one Turing test, or one folder of ratings: they make different tables.")
    tables = [load_definition(name) for name in PUBLISHED[scored[0].asked.kind]]
    definition = max(tables, key=lambda table: len({*scored[0].systems} & {row.name for row in table.rows}))
    scored = [each.as_one_of([row.name for row in definition.rows]) for each in scored]
    if len({each.pair for each in scored}) < len(scored):
        raise UserError(f"A pair stands in two folders: {', '.join(each.pair for each in scored)}.")
    if json:
        text = json_format.dumps([each.to_dict() for each in scored], indent=2, ensure_ascii=False) + "\n"
    else:
        text = render(_page(definition, scored), format=format)
    if output is not None:
        write_atomically(output, text)
    return text


def _page(definition: TableDefinition, scored: Sequence[Outcome]) -> Page:
    """The published table with our lines in it; systems and pairs that it lacks follow at its end."""
    numbers: dict[str, dict[str, float | None]] = {}
    foreign = set[str]()
    stars = set[tuple[str, str]]()
    for each in scored:
        own: dict[str, dict[str, float | None]] = {}
        for aspect, found in each.preferences.items():
            shares = {"win": found.win.value, "lose": found.lose.value, "tie": found.tie.value, "alpha": found.alpha}
            own.setdefault(each.pair, {}).update({f"{aspect}_{name}": share for name, share in shares.items()})
            if found.over_items.p_value < LEVEL:
                stars.add((each.pair, f"{aspect}_{'win' if found.win.value > found.lose.value else 'lose'}"))
        own |= {system: {"human": share.value} for system, share in each.humanness.items()}
        for system, ratings in each.rated.items():
            own[system] = {"rating": ratings.mean.value, "deviation": ratings.deviation}
        numbers |= own
        foreign |= set() if each.asked.of_paper else {*own}
    known = {row.name for row in definition.rows}
    rows = (*definition.rows, *(Row(name=name, in_paper=False) for name in numbers if name not in known))
    cells = list[Cell]()
    for row in rows:
        mine = [
            Cell(row.name, "local", key, numbers[row.name][key], mark="*" if (row.name, key) in stars else "")
            for key in (column.key for column in definition.columns)
            if row.name in numbers
        ]
        shown = row_cells(definition, row, mine)
        cells += [cell for cell in shown if row.name not in foreign or cell.numbers != "difference"]
    labels = {row.name: "" if row.in_paper else "†" for row in rows}
    stranger = () if set(numbers) <= known else ("†: not in the paper.",)
    profiles = sorted({each.asked.profile for each in scored if each.asked.profile is not None})
    nuclei = sorted({each.asked.top_p for each in scored if each.asked.top_p is not None})
    ours = f"; ours with p = {', '.join(map(str, nuclei))}" if nuclei else ""
    notes = (*definition.notes, *stranger, *_notes(scored))
    caption = definition.caption
    if not any(each.asked.of_paper for each in scored):
        caption = f"{OF_OTHERS[scored[0].asked.kind]}; the paper's numbers: {caption}"
    definition = definition.model_copy(update={"rows": rows, "caption": caption + ours})
    return Page(definition, ", ".join(profiles), tuple(cells), labels, notes=notes)


def _notes(scored: Sequence[Outcome]) -> Iterator[str]:
    if scored[0].asked.kind == "pairwise":
        yield (
            f"A star: p < {LEVEL} in the two-sided Wilcoxon signed-rank test, not corrected for the number of tests. "
            "Ours is over pairs of texts, each with its raters' mean preference, pairs without one left out of the "
            "ranks; the paper does not name its unit. Single judgements, whose p is next to it, are not independent."
        )
    if others := [each.folder for each in scored if not each.asked.of_paper]:
        yield (
            f"Texts from files or of other tables ({', '.join(map(str, others))}) are not those of the paper's "
            "systems, whatever their names: no difference from the paper's numbers is shown."
        )
    yield "Ours: every item counts alike; in brackets 95 % bootstrap intervals over items, with the raters as they are."
    for each in scored:
        yield from each.described()
