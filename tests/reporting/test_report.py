"""The page of everything: it stands alone, parses, escapes, holds every number at hand and names what is missing."""

import base64
import re
from html.parser import HTMLParser

import pytest
import yaml

from depgen.cli import main
from depgen.reporting.pages import record_table, write_report
from depgen.reporting.plots import figure, save
from depgen.reporting.table import load_definition

VOID = {"meta", "img", "br", "link", "input", "hr"}
NASTY = "a <b>&\"'{{ 7 * 7 }}</script>"


class Page(HTMLParser):
    """Elements in order, with what names other places; every tag must be closed where it was opened."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.references, self.texts, self.pages, self.identifiers = [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.references += [named[name] for name in ("src", "href", "srcset", "data", "action") if name in named]
        self.identifiers += [named["id"]] if "id" in named else []
        self.pages += [named["srcdoc"]] if "srcdoc" in named else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.texts.append(data.strip())


def read(path):
    text = path.read_text(encoding="utf-8")
    return text, Page(text)


@pytest.fixture
def drawn(project):
    """A picture and a page in the toy table's folder, and a drawing of trees in one of its own."""
    folder = project / "results" / "toy"
    save(figure(1.0, 1.0), folder / "heat-map.png")
    (folder / "curves-small.png").write_bytes(b"drawn anew by the page")
    (project / "results" / "trees").mkdir()
    (project / "results" / "trees" / "some.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (folder / "case.html").write_text(f"<!DOCTYPE html><p>{NASTY}</p>")
    return folder


def test_every_number_at_hand_stands_there_and_nothing_is_fetched(project, store, drawn):
    store("Base", 1, {"bleu1": 21.125, "perplexity": 45.5}, {"bleu1": [20.0, 22.25]}, not_computed={"selfbleu2": "no"})
    store("DM-Base", 1, {"bleu1": 23.375, "perplexity": 44.25})
    (drawn / "curves-small-steps.png").write_bytes(b"of another cost")
    output = project / "out" / "page.html"
    assert write_report(None, output) == f"{output}: 1 tables; 0 others have no local results."
    text, found = read(output)
    assert base64.b64encode(b"of another cost").decode() in text
    for reference in found.references:
        assert re.fullmatch(r"#[\w.-]+|data:image/(png|svg\+xml);base64,[\w+/=]+", reference), reference[:80]
        assert not reference.startswith("#") or reference[1:] in found.identifiers
    assert not re.search(r"@import|url\(", text)
    assert len(found.identifiers) == len(set(found.identifiers))
    for shown in ("21.12", "23.38", "45.50", "44.25", "undecided", "Not computed: SB-2 (Base): no"):
        assert any(each.startswith(shown) for each in found.texts), shown
    heat_map = base64.b64encode((drawn / "heat-map.png").read_bytes()).decode()
    assert f"data:image/png;base64,{heat_map}" in found.references
    assert base64.b64encode(b"drawn anew by the page").decode() not in text
    assert "curves-small" in found.texts
    assert found.pages == [(drawn / "case.html").read_text()]
    assert "some" in found.texts


def test_a_page_of_one_table_holds_no_others(project, store, drawn):
    path = project / "experiments/tables/toy.yaml"
    (project / "experiments/tables/other.yaml").write_text(path.read_text().replace("table: toy", "table: other"))
    store("Base", 1, {"bleu1": 1.0})
    assert [*record_table(load_definition("toy"), "small")]
    own = project / "results" / "toy" / "Base"
    for arguments, sections in (
        ([], ["toy-small", "pictures-toy", "pictures-trees"]),
        (["toy"], ["toy-small", "pictures-toy"]),
        (["toy"], ["toy-small", "pictures-toy"]),  # tracked
        ([], ["toy-small", "pictures-toy", "pictures-trees", "missing"]),
    ):
        assert main(["table", *arguments, "--report", "--output", str(project / "page.html")]) == 0
        text, found = read(project / "page.html")
        assert re.findall(r'<section id="([^"]*)"', text) == sections
        assert found.pages == [(drawn / "case.html").read_text()]
        assert ("depgen reproduce other" in found.texts) == ("missing" in sections)
        if arguments and own.is_dir():
            own.rename(project / "elsewhere")


def test_text_is_never_markup(project, store):
    path = project / "experiments" / "tables" / "toy.yaml"
    content = yaml.safe_load(path.read_text())
    content["caption"] = content["columns"][0]["header"] = NASTY
    content["notes"] = [NASTY]
    path.write_text(yaml.safe_dump(content))
    store("Base", 1, {"bleu1": 1.0, "perplexity": 2.0}, hardware=NASTY)
    write_report(None, project / "page.html")
    text, found = read(project / "page.html")
    assert NASTY not in text
    assert sum(NASTY in each for each in found.texts) >= 4, "caption, column, note and machine"
    assert "49" not in found.texts
