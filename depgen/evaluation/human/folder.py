"""The folder of a questionnaire: the raters' sheets, the key, and the answers that come back."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from depgen.errors import UserError
from depgen.evaluation.human.answers import RaterAnswers, read_answers
from depgen.evaluation.human.forms import sheet_csv, sheet_html
from depgen.evaluation.human.questionnaire import Questionnaire, Source, read_key
from depgen.locations import file_sha256, write_atomically

KEY, ANSWERS, RATERS = "key.json", "answers", "raters"
"""What a questionnaire's folder holds: who wrote what, what came back, what is sent."""


def source_of(path: Path, texts: Sequence[str]) -> Source:
    """Where a system's texts are from."""
    return Source(str(path), file_sha256(path), len(texts), sum(not text.strip() for text in texts))


def write_folder(questionnaire: Questionnaire, output: Path) -> str:
    """What was written and what to do with it; the key first, so that no rater's file lies without it.

    Raises:
        UserError: another questionnaire lies in the folder.
    """
    key, content = output / KEY, questionnaire.to_json()
    if key.is_file() and key.read_text(encoding="utf-8") != content:
        raise UserError(f"{key} belongs to another questionnaire, whose answers need it. Choose another --output.")
    write_atomically(key, content)
    (output / ANSWERS).mkdir(exist_ok=True)
    folder = output / RATERS
    write_atomically(folder / "instructions.txt", questionnaire.instructions)
    for sheet in questionnaire.sheets:
        # The mark lets spreadsheets read UTF-8.
        write_atomically(folder / f"{sheet.rater}.csv", f"\ufeff{sheet_csv(questionnaire, sheet)}")
        write_atomically(folder / f"{sheet.rater}.html", sheet_html(questionnaire, sheet))
    return "\n".join(_said(questionnaire, output))


def _said(questionnaire: Questionnaire, output: Path) -> Iterator[str]:
    pairs = f"pairs of {' and '.join(questionnaire.systems)}"
    what = pairs if questionnaire.kind == "pairwise" else "sentences"
    yield f"{len(questionnaire.items)} {what} for {len(questionnaire.sheets)} raters in {output}."
    yield f"Left out before the draw: {left_out(questionnaire)}."
    yield f"Send {output / RATERS}/rater-N.html (or .csv with instructions.txt) to rater N, and nothing else."
    yield f"Put the CSV files that come back into {output / ANSWERS}, then: depgen human-eval score {output}"


def left_out(questionnaire: Questionnaire) -> str:
    """How many candidates could not be judged, and whose texts are empty."""
    sources = questionnaire.sources.items()
    empty = ", ".join(f"{name} {source.empty:,} of {source.texts:,}" for name, source in sources)
    if questionnaire.kind != "pairwise":
        return f"empty texts ({empty})"
    return (
        f"{', '.join(f'{count:,} {reason}' for reason, count in questionnaire.left_out.items())} (empty texts: {empty})"
    )


def read_folder(folder: Path) -> tuple[Questionnaire, RaterAnswers]:
    """The questionnaire, and the answers that came back.

    Raises:
        UserError: there is no key, or no answers that fit it.
    """
    questionnaire = read_key(folder / KEY)
    returned = sorted(path for path in (folder / ANSWERS).glob("*") if path.suffix.lower() == ".csv")
    return questionnaire, read_answers(questionnaire, returned)
