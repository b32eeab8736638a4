"""The answers that come back, checked against the key."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from depgen.errors import UserError
from depgen.evaluation.human.forms import IDENTITY
from depgen.evaluation.human.questionnaire import Question, Questionnaire, Sheet

Ratings = Float[np.ndarray, "raters items"]


@dataclass(frozen=True)
class RaterAnswers:
    """What the raters who answered said, with sides undone.

    Attributes:
        raters: those of whom there is a file, in the key's order.
        given: by question, a row a rater and a column an item in the key's order; NaN where nothing was answered. A
            comparison is 1 for the first system, -1 for the second, 0 for a tie; a Turing test 1 for human, 0 for not;
            a rating the number.
        missing: how many answers these raters left out, over all questions.
        first_shown: share of the comparisons without ties, over all questions, that the text shown first won; None
            where there are none.
    """

    raters: tuple[str, ...]
    given: Mapping[str, Ratings]
    missing: int
    first_shown: float | None


def read_answers(questionnaire: Questionnaire, paths: Sequence[Path]) -> RaterAnswers:
    """The answers in raters' files, as the form hands them over or a sheet was filled in.

    Columns that hold no answer are ignored; empty answers are missing ones.

    Raises:
        UserError: no file; one of another questionnaire; a rater or an item that is unknown or occurs twice; an answer
            that is none of the choices.
    """
    if not paths:
        raise UserError("No answers: put the raters' CSV files into `answers/` next to the key.")
    sheets = {sheet.rater: sheet for sheet in questionnaire.sheets}
    found: dict[str, Path] = {}
    values: dict[str, dict[str, dict[str, float]]] = {}
    firsts: list[bool] = []
    for path in paths:
        for where, row in _rows(path, questionnaire):
            rater = row["rater"]
            if rater not in sheets:
                raise UserError(f"{where}: rater {rater!r} is none of {', '.join(sheets)}.")
            if found.setdefault(rater, path) != path:
                raise UserError(f"{where}: {rater} answered in {found[rater]} too. Keep one of the two files.")
            item = row["item"]
            if item not in sheets[rater].items:
                raise UserError(f"{where}: there is no {item!r} in the questionnaire of {rater}.")
            if item in values.setdefault(rater, {}):
                raise UserError(f"{where}: {item} occurs twice in this file. Keep one of the lines.")
            given = values[rater][item] = {}
            for question in questionnaire.questions:
                answer = _answer(question, row, where)
                if answer:
                    if questionnaire.kind == "rating":
                        given[question.name] = float(answer)
                        continue
                    given[question.name] = _value(answer, sheets[rater], item)
                    firsts += [answer == "1"] if answer in ("1", "2") else []
    raters = tuple(rater for rater in sheets if rater in found)
    ratings = {question.name: _ratings(questionnaire, raters, values, question) for question in questionnaire.questions}
    asked = sum(len(sheets[rater].items) for rater in raters) * len(questionnaire.questions)
    missing = asked - sum(int((~np.isnan(each)).sum()) for each in ratings.values())
    return RaterAnswers(raters, ratings, missing, sum(firsts) / len(firsts) if firsts else None)


def _rows(path: Path, questionnaire: Questionnaire) -> Iterator[tuple[str, dict[str, str]]]:
    """Each line that holds something, with the words for its place."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: expected a rater's CSV file ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: expected UTF-8, found {error}. Save the sheet as `CSV UTF-8`.") from error
    head = text.partition("\n")[0]
    delimiter = ";" if head.count(";") > head.count(",") else ","
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    wanted = [*IDENTITY, *(question.name for question in questionnaire.questions)]
    if lacking := [name for name in wanted if name not in (rows.fieldnames or ())]:
        raise UserError(f"{path}:1: expected the columns {', '.join(wanted)}; {', '.join(lacking)} are not there.")
    filled = 0
    for row in rows:
        where, cells = f"{path}:{rows.line_num}", {name: (row[name] or "").strip() for name in wanted}
        if not any(cells.values()):
            continue
        if cells["questionnaire"] != questionnaire.name:
            raise UserError(
                f"{where}: this answers questionnaire {cells['questionnaire']!r}, the key is of {questionnaire.name}."
            )
        filled += 1
        yield where, cells
    if not filled:
        raise UserError(f"{path}: expected answers below the header, found none.")


def _answer(question: Question, row: Mapping[str, str], where: str) -> str:
    answer = row[question.name].lower()
    if answer and answer not in question.choices:
        raise UserError(
            f"{where}: {question.name} is {row[question.name]!r}; expected one of {', '.join(question.choices)}, or "
            "nothing."
        )
    return answer


def _value(answer: str, sheet: Sheet, item: str) -> float:
    side = -1.0 if item in sheet.swapped else 1.0
    return {"1": side, "2": -side, "tie": 0.0, "yes": 1.0, "no": 0.0}[answer]


def _ratings(
    questionnaire: Questionnaire,
    raters: Sequence[str],
    values: Mapping[str, Mapping[str, Mapping[str, float]]],
    question: Question,
) -> Ratings:
    return np.array(
        [
            [values[rater].get(item.name, {}).get(question.name, np.nan) for item in questionnaire.items]
            for rater in raters
        ]
    )
