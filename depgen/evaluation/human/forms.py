"""What a rater is given: a CSV sheet to fill in, or the same as an HTML form that needs no network."""

import csv
import html
import io
import re
from importlib.resources import files

from depgen.evaluation.human.questionnaire import Item, Questionnaire, Sheet

IDENTITY = ("questionnaire", "rater", "item")
"""The first columns of every sheet; answers are found by them."""
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
"""What a spreadsheet may take for a formula: one of these signs, full-width ones too, after blanks; a tab or a line end
that begins a cell."""


def sheet_csv(questionnaire: Questionnaire, sheet: Sheet) -> str:
    """A rater's sheet with an empty column for each answer.

    A text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    pair = questionnaire.kind == "pairwise"
    shown = ("context", "text_1", "text_2") if pair else ("text",)
    questions = questionnaire.questions
    writer.writerow([*IDENTITY, *shown, *(question.name for question in questions)])
    for name in sheet.items:
        item = questionnaire.by_name[name]
        texts = questionnaire.shown(sheet, item)
        cells = [no_formula(text) for text in ((item.context, *texts) if pair else texts)]
        writer.writerow([questionnaire.name, sheet.rater, name, *cells, *("" for _ in questions)])
    return stream.getvalue()


def no_formula(text: str) -> str:
    """The text, with an apostrophe in front if a spreadsheet might take it for a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def sheet_html(questionnaire: Questionnaire, sheet: Sheet) -> str:
    """A rater's form: one file, which keeps answers in the browser and hands them over as a CSV file."""
    template = (files("depgen.evaluation.human") / "form.html").read_text(encoding="utf-8")
    paragraphs = questionnaire.instructions.strip().split("\n\n")
    content = {
        "questionnaire": html.escape(questionnaire.name),
        "rater": html.escape(sheet.rater),
        "instructions": "\n".join(f"<p>{html.escape(paragraph)}</p>" for paragraph in paragraphs),
        "items": "\n".join(
            _item(questionnaire, sheet, questionnaire.by_name[name], f"{number} of {len(sheet.items)}")
            for number, name in enumerate(sheet.items, start=1)
        ),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: content[found[1]], template)  # once: texts may hold braces


def _item(questionnaire: Questionnaire, sheet: Sheet, item: Item, place: str) -> str:
    texts = questionnaire.shown(sheet, item)
    lines = [f'<section data-item="{html.escape(item.name)}">', f"<h2>{place}</h2>"]
    if item.context:
        lines.append(f'<p class="context">{html.escape(item.context)}</p>')
    for number, text in enumerate(texts, start=1):
        label = f"<b>{number}</b> " if len(texts) > 1 else ""
        lines.append(f'<p class="text">{label}<span>{html.escape(text)}</span></p>')
    for question in questionnaire.questions:
        lines.append(f'<fieldset data-question="{question.name}"><legend>{html.escape(question.text)}</legend>')
        for key, (value, words) in enumerate(question.choices.items(), start=1):
            lines.append(
                f'<label><input type="radio" name="{html.escape(item.name)}.{question.name}" value="{value}"> '
                f"<kbd>{key}</kbd> {html.escape(words)}</label>"
            )
        lines.append("</fieldset>")
    return "\n".join([*lines, "</section>"])
