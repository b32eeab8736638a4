"""`depgen human-eval score`: people's answers laid out like Tables 3 and 6 of Yang & Wan (ACL 2022), beside these."""

import json as json_format
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from depgen.errors import UserError
from depgen.evaluation.human.answers import RaterAnswers, Ratings, read_answers
from depgen.evaluation.human.questionnaire import Kind, Questionnaire, read_key
from depgen.evaluation.human.statistics import Preference, item_shares, krippendorff_alpha, preference
from depgen.locations import write_atomically
from depgen.metrics.significance import Interval
from depgen.reporting.definition import Row, TableDefinition, load_definition
from depgen.reporting.human_export import ANSWERS, KEY, left_out
from depgen.reporting.layout import Cell, Head, Layout, Line
from depgen.reporting.tables import Format, render

PUBLISHED: Mapping[Kind, str] = {"pairwise": "human/dmlm_table3", "turing": "human/dmlm_table6"}
"""Tables in a folder of their own: `depgen reproduce` does not make them."""
LEVEL = 0.01
"""Of Table 3's star."""


def score(folders: list[Path], *, format: Format = "markdown", output: Path | None = None, json: bool = False) -> str:
    """People's answers beside the published ones: comparisons as in Table 3, a Turing test as in Table 6.

    Args:
        folders: one or more that `depgen human-eval export` wrote, with the raters' files in `answers/`.
        format: of the table.
        output: a file for the table as well.
        json: the figures as JSON instead of a table.

    Raises:
        UserError: answers are missing or do not fit the key; folders do not belong into one table.
    """
    scored = [_scored(folder) for folder in folders]
    kinds = {each.asked.kind for each in scored}
    if len(kinds) > 1 or (kinds == {"turing"} and len(scored) > 1):
        raise UserError("Expected comparisons, or one Turing test: they make different tables.")
    definition = load_definition(PUBLISHED[scored[0].asked.kind])
    scored = [_as_published(each, definition) for each in scored]
    if len({each.pair for each in scored}) < len(scored):
        raise UserError(f"A pair stands in two folders: {', '.join(each.pair for each in scored)}.")
    if json:
        text = json_format.dumps([_plain(each) for each in scored], indent=2, ensure_ascii=False) + "\n"
    else:
        text = render(_layout(definition, scored), format=format)
    if output is not None:
        write_atomically(output, text)
    return text


@dataclass(frozen=True)
class _Scored:
    """A questionnaire that was answered, and what the answers say.

    Attributes:
        folder: where it lies.
        asked: the questionnaire.
        answers: to it.
        preferences: by aspect, of a comparison's first system.
        humanness: by system, the share of judgements that it is human; of a Turing test.
        reversed: whether a comparison's systems stand the other way round than they were given.
    """

    folder: Path
    asked: Questionnaire
    answers: RaterAnswers
    preferences: Mapping[str, Preference]
    humanness: Mapping[str, Interval]
    reversed: bool = False

    @property
    def pair(self) -> str:
        """What the paper calls a comparison."""
        return " vs. ".join(self.asked.systems[::-1] if self.reversed else self.asked.systems)


def _scored(folder: Path) -> _Scored:
    asked = read_key(folder / KEY)
    returned = sorted(path for path in (folder / ANSWERS).glob("*") if path.suffix.lower() == ".csv")
    answers = read_answers(asked, returned)
    if asked.kind == "pairwise":
        for name, each in answers.given.items():
            _check_judged(each, f"{folder}: {name}")
        return _Scored(folder, asked, answers, {name: preference(each) for name, each in answers.given.items()}, {})
    humanness = {}
    for system in asked.systems:
        ratings = answers.given["human"][:, [item.systems == (system,) for item in asked.items]]
        _check_judged(ratings, f"{folder}: {system}")
        share = item_shares(ratings, 1.0)
        humanness[system] = Interval(*(each / 100 for each in (share.value, share.low, share.high)))
    return _Scored(folder, asked, answers, {}, humanness)


def _check_judged(ratings: Ratings, what: str) -> None:
    if np.isnan(ratings).all():
        raise UserError(f"{what}: expected at least one answer in `{ANSWERS}/`, found all of them empty.")


def _as_published(scored: _Scored, definition: TableDefinition) -> _Scored:
    """A comparison in the paper's direction, where the paper has it in the other one."""
    turned = replace(scored, reversed=True)
    if scored.asked.kind != "pairwise" or turned.pair not in {row.name for row in definition.rows}:
        return scored
    return replace(turned, preferences={name: preference(-each) for name, each in scored.answers.given.items()})


def _plain(scored: _Scored) -> dict[str, Any]:
    asked, answers = scored.asked, scored.answers
    return {
        "folder": str(scored.folder),
        "questionnaire": asked.name,
        "kind": asked.kind,
        "systems": list(asked.systems[::-1] if scored.reversed else asked.systems),
        "profile": asked.profile,
        "top_p": asked.top_p,
        "items": len(asked.items),
        "raters": list(answers.raters),
        "missing": answers.missing,
        "first_shown_wins": answers.first_shown,
        "left_out": dict(asked.left_out),
        "sources": {name: asdict(source) for name, source in asked.sources.items()},
        "preferences": {name: asdict(each) for name, each in scored.preferences.items()},
        "human": {name: asdict(each) for name, each in scored.humanness.items()},
        "alpha": {name: krippendorff_alpha(each) for name, each in answers.given.items()},
    }


def _layout(definition: TableDefinition, scored: Sequence[_Scored]) -> Layout:
    """The published table with our lines in it; systems and pairs that it lacks follow at its end."""
    numbers: dict[str, dict[str, Cell]] = {}
    for each in scored:
        if each.preferences:
            numbers[each.pair] = _cells(definition, each.preferences)
        for system, share in each.humanness.items():
            numbers[system] = {"human": Cell(share.value, decimals=definition.column("human").decimals)}
    known = {row.name for row in definition.rows}
    rows = (*definition.rows, *(Row(name, in_paper=False) for name in numbers if name not in known))
    lines = tuple(line for row in rows for line in _table_lines(definition, row, numbers.get(row.name)))
    stranger = () if set(numbers) <= known else ("†: not in the paper.",)
    profiles = sorted({each.asked.profile for each in scored if each.asked.profile is not None})
    nuclei = sorted({each.asked.top_p for each in scored if each.asked.top_p is not None})
    ours = f"; ours with p = {', '.join(map(str, nuclei))}" if nuclei else ""
    notes = (*definition.notes, *stranger, *_notes(scored))
    definition = replace(definition, rows=rows, caption=definition.caption + ours)
    return Layout(definition, ", ".join(profiles), lines, notes)


def _cells(definition: TableDefinition, preferences: Mapping[str, Preference]) -> dict[str, Cell]:
    cells = {}
    for aspect, each in preferences.items():
        values = {"win": each.win.value, "lose": each.lose.value, "tie": each.tie.value, "alpha": each.alpha}
        better = "win" if each.win.value > each.lose.value else "lose"
        for name, value in values.items():
            key = f"{aspect}_{name}"
            star = name == better and each.over_items.p_value < LEVEL
            word = "n/c" if value is None else ""
            cells[key] = Cell(value, mark="*" if star else "", word=word, decimals=definition.column(key).decimals)
    return cells


def _table_lines(definition: TableDefinition, row: Row, ours: Mapping[str, Cell] | None) -> Iterator[Line]:
    head: Head | None = Head(row.name, "" if row.in_paper else "†")
    columns = definition.columns
    if row.values:
        cells = tuple(
            Cell(row.values.get(c.key), mark="*" if c.key in row.stars else "", decimals=c.decimals) for c in columns
        )
        yield Line(row, "paper", cells, head=head)
        head = None
    if ours is not None:
        yield Line(row, "local", tuple(ours[c.key] for c in columns), head=head)
        if row.values:
            yield Line(row, "difference", tuple(_difference(row, c.key, ours[c.key]) for c in columns))


def _difference(row: Row, key: str, ours: Cell) -> Cell:
    if ours.value is None or key not in row.values:
        return Cell()
    return Cell(ours.value - row.values[key], signed=True, decimals=ours.decimals)


def _notes(scored: Sequence[_Scored]) -> Iterator[str]:
    if scored[0].asked.kind == "pairwise":
        yield (
            f"A star: p < {LEVEL} in the two-sided Wilcoxon signed-rank test, not corrected for the number of tests. "
            "Ours is over pairs of texts, each with its raters' mean preference, pairs without one left out of the "
            "ranks; the paper does not name its unit. Single judgements, whose p stands beside it, are not independent."
        )
    yield "Ours: every item counts alike; in brackets 95 % bootstrap intervals over items, with the raters as they are."
    for each in scored:
        yield _about(each)
        for aspect, outcome in each.preferences.items():
            shares = {"win": outcome.win, "lose": outcome.lose, "tie": outcome.tie}
            tested = outcome.over_items
            yield (
                f"{each.pair}, {aspect}: "
                + ", ".join(f"{name} {_interval(share, 1)}" for name, share in shares.items())
                + f"; p = {tested.p_value:.2g} over {tested.units} pairs ({tested.zeros} without a preference), "
                f"{outcome.over_judgements.p_value:.2g} over {outcome.over_judgements.units} single judgements."
            )
        if each.humanness:
            shown = ", ".join(f"{name} {_interval(share, 3)}" for name, share in each.humanness.items())
            alpha = krippendorff_alpha(each.answers.given["human"])
            agreement = "not defined, all answers are the same" if alpha is None else f"{alpha:.3f}"
            yield f"Human score: {shown}. Krippendorff's alpha (nominal) of the raters: {agreement}."


def _interval(share: Interval, decimals: int) -> str:
    return f"{share.value:.{decimals}f} [{share.low:.{decimals}f}, {share.high:.{decimals}f}]"


def _about(scored: _Scored) -> str:
    """What was asked, of whom, and what is missing."""
    asked, answers = scored.asked, scored.answers
    name = scored.pair if asked.kind == "pairwise" else "Turing test"
    wanted = len(answers.raters) * len(asked.items) * len(asked.questions)
    absent = [sheet.rater for sheet in asked.sheets if sheet.rater not in answers.raters]
    parts = [f"{name}: {len(asked.items)} items, {len(answers.raters)} of {len(asked.sheets)} raters"]
    parts[0] += f" (none from {', '.join(absent)})" if absent else ""
    parts.append(f"{answers.missing:,} of {wanted:,} answers missing")
    parts.append(f"left out before the draw: {left_out(asked)}")
    if answers.first_shown is not None:
        parts.append(f"the text shown first won {100 * answers.first_shown:.1f} % of the judgements without ties")
    files = ", ".join(f"{system} from {source.file}" for system, source in asked.sources.items())
    return "; ".join(parts) + (f"; texts of {files}." if files else ".")
