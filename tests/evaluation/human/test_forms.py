import csv
import io
import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from depgen.evaluation.human.answers import read_answers
from depgen.evaluation.human.forms import no_formula, sheet_csv, sheet_html
from depgen.evaluation.human.questionnaire import pairwise
from tests.evaluation.human.raters import compared, mixed

VOID = {"meta", "input", "br", "link", "img"}
NASTY = [
    "<script>alert(1)</script>",
    "\"quoted\" & 'single' {{items}}",
    "</form><b>bold",
    "a , b ; c\td",
    "=1+1",
    "é — 漢",
]


class Tree(HTMLParser):
    """The document as nested dicts; complains where tags do not match."""

    def __init__(self, text):
        super().__init__()
        self.root = {"tag": "#root", "attrs": {}, "children": [], "text": ""}
        self.open = [self.root]
        self.feed(text)
        self.close()
        assert self.open == [self.root]

    def handle_starttag(self, tag, attrs):
        node = {"tag": tag, "attrs": {name: value or "" for name, value in attrs}, "children": [], "text": ""}
        self.open[-1]["children"].append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag):
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        for node in self.open:
            node["text"] += data

    def all(self, tag, node=None):
        for child in (node or self.root)["children"]:
            if child["tag"] == tag:
                yield child
            yield from self.all(tag, child)


def nasty(**options):
    turned = NASTY[1:] + NASTY[:1]
    contexts = NASTY[2:] + NASTY[:2]
    return pairwise(("A", NASTY), ("B", turned), contexts, number=len(NASTY), raters=2, **options)


@pytest.mark.parametrize("ask", [compared, mixed])
@pytest.mark.parametrize("form", [sheet_csv, sheet_html])
def test_no_rater_is_told_who_wrote_what(ask, form):
    asked = ask(number=6)
    for sheet in asked.sheets:
        shown = form(asked, sheet)
        assert not any(name in shown for name in ("DM-Net", "Net", "Web", "Real data"))
        assert "swapped" not in shown
        other = next(each for each in asked.sheets if each != sheet)
        assert other.rater not in shown


@pytest.mark.parametrize("ask", [compared, mixed])
def test_a_sheet_shows_the_items_in_the_raters_order(ask):
    asked = ask(number=6)
    sheet = asked.sheets[1]
    rows = list(csv.DictReader(io.StringIO(sheet_csv(asked, sheet))))
    assert tuple(row["item"] for row in rows) == sheet.items
    assert {(row["questionnaire"], row["rater"]) for row in rows} == {(asked.name, "rater-2")}
    columns = ("text_1", "text_2") if ask is compared else ("text",)
    for row in rows:
        assert tuple(row[name] for name in columns) == asked.shown(sheet, asked.by_name[row["item"]])
        assert all(row[question.name] == "" for question in asked.questions)


def test_a_sheet_holds_texts_as_they_are_but_for_formulas():
    asked = nasty()
    rows = {row["item"]: row for row in csv.DictReader(io.StringIO(sheet_csv(asked, asked.sheets[0])))}
    for item in asked.items:
        shown = ["'=1+1" if text == "=1+1" else text for text in asked.shown(asked.sheets[0], item)]
        assert [rows[item.name]["text_1"], rows[item.name]["text_2"]] == shown


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@a", " =1", "\t=1", "\ta", "\n=1", "＝1", " ＋1", "－1", "＠a"])
def test_what_a_spreadsheet_may_take_for_a_formula_gets_an_apostrophe(text):
    assert no_formula(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "a = b", "1+1", "a\t=1", " a", "'=1"])
def test_other_texts_stay_as_they_are(text):
    assert no_formula(text) == text


def test_the_form_holds_every_text_escaped():
    asked = nasty()
    for sheet in asked.sheets:
        tree = Tree(sheet_html(asked, sheet))
        sections = list(tree.all("section"))
        assert tuple(section["attrs"]["data-item"] for section in sections) == sheet.items
        for section in sections:
            item = asked.by_name[section["attrs"]["data-item"]]
            paragraphs = [node["text"] for node in tree.all("p", section)]
            assert paragraphs[0] == item.context
            assert [each["text"] for each in tree.all("span", section)] == list(asked.shown(sheet, item))
            radios = [node["attrs"] for node in tree.all("input", section)]
            assert [radio["value"] for radio in radios] == ["1", "2", "tie"] * 2
            assert {radio["name"] for radio in radios} == {f"{item.name}.grammaticality", f"{item.name}.logicality"}
        assert len(list(tree.all("script"))) == 1
        names = [each["attrs"]["data-question"] for each in tree.all("fieldset")]
        assert len(names) == 2 * len(NASTY)


def test_the_form_has_the_instructions_and_no_address():
    asked = mixed(number=4)
    text = sheet_html(asked, asked.sheets[0])
    body = " ".join(Tree(text).root["text"].split())
    assert " ".join(asked.instructions.split()) in body
    assert not any(mark in text for mark in ("http:", "https:", "src=", "@import", "url(", "<link"))
    assert "default-src 'none'" in text
    assert "{{" not in text


@pytest.mark.skipif(shutil.which("node") is None, reason="the form's script runs under node")
@pytest.mark.parametrize("ask", [compared, mixed])
def test_the_forms_script_keeps_answers_and_hands_them_over(ask, tmp_path):
    asked = ask(number=3 if ask is compared else 1, raters=1)
    sheet = asked.sheets[0]
    tree = Tree(sheet_html(asked, sheet))
    script = next(tree.all("script"))["text"]
    (tmp_path / "page.json").write_text(json.dumps({"root": tree.root, "script": script}))
    # The second visit begins at the first question without an answer.
    visits = [["2", "1", "Enter", "x"], ["3", "Enter", "Backspace", "2"]]
    command = ["node", str(Path(__file__).with_name("page.js")), str(tmp_path / "page.json"), json.dumps(visits)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    names = [question.name for question in asked.questions]
    rows = {row["item"]: [row[name] for name in names] for row in csv.DictReader(io.StringIO(outcome["csv"]))}
    assert tuple(rows) == sheet.items
    if ask is compared:  # 2, 1 | third choice, on and back, 2
        assert list(rows.values()) == [["2", "1"], ["tie", "2"], ["", ""]]
    else:  # no, yes | no third choice, Enter stays at the only question left, back, no instead of yes
        assert list(rows.values()) == [["no"], ["no"], [""]]
    (tmp_path / "a.csv").write_text(outcome["csv"])
    missing = read_answers(asked, [tmp_path / "a.csv"]).missing
    assert outcome["progress"] == f"{3 * len(names) - missing} of {3 * len(names)} questions answered."
    assert outcome["name"] == f"{asked.name}-{sheet.rater}.csv"
    assert outcome["stored"] == [f"depgen {asked.name} {sheet.rater}"]
