"""The page of everything: it stands alone, parses, escapes, holds every number at hand and names what is missing."""

import base64
import re
from html.parser import HTMLParser

import pytest
import yaml

from depgen.cli import main
from depgen.reporting.experiments import note_own_table
from depgen.reporting.plots import figure, save
from depgen.reporting.report import report
from depgen.reporting.results import result_path, write_result
from tests.reporting.conftest import make_result

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
    (folder / "curves.png").write_bytes(b"drawn anew by the page")
    (project / "results" / "trees").mkdir()
    (project / "results" / "trees" / "some.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (folder / "case.html").write_text(f"<!DOCTYPE html><p>{NASTY}</p>")
    return folder


def test_every_number_at_hand_stands_there_and_nothing_is_fetched(project, store, drawn):
    store("Base", 1, {"bleu1": 21.125, "perplexity": 45.5}, {"bleu1": [20.0, 22.25]})
    store("DM-Base", 1, {"bleu1": 23.375, "perplexity": 44.25})
    (drawn / "curves-small-steps.png").write_bytes(b"of another cost")
    output = project / "out" / "page.html"
    said = report(output=output)
    text, found = read(output)
    assert said.startswith(f"{output}: 1 tables, 5 pictures; ")
    assert base64.b64encode(b"of another cost").decode() in text
    for reference in found.references:
        assert re.fullmatch(r"#[\w.-]+|data:image/(png|svg\+xml);base64,[\w+/=]+", reference), reference[:80]
        assert not reference.startswith("#") or reference[1:] in found.identifiers
    assert not re.search(r"@import|url\(", text)
    assert len(found.identifiers) == len(set(found.identifiers))
    shown = found.texts
    for number in ("21.12", "23.38", "45.50", "44.25"):
        assert any(each.startswith(number) for each in shown), number
    heat_map = base64.b64encode((drawn / "heat-map.png").read_bytes()).decode()
    assert f"data:image/png;base64,{heat_map}" in found.references
    assert base64.b64encode(b"drawn anew by the page").decode() not in text
    assert "Training: validation perplexity against training tokens seen; the best point of each run marked." in shown
    assert found.pages == [(drawn / "case.html").read_text()]
    assert "trees: some" in shown


def test_the_page_opens_with_what_was_found(project, store):
    for seed, (mine, other) in enumerate([(50.0, 44.0), (50.5, 44.5)], start=1):
        store("DM-Base", seed, {"bleu1": mine, "perplexity": 9.0}, {"bleu1": [mine - 1, mine, mine + 1.5]})
        store("Base", seed, {"bleu1": other, "perplexity": 9.0}, {"bleu1": [other - 1, other, other + 1]})
    report(output=project / "page.html")
    _, found = read(project / "page.html")
    shown = [each for each in found.texts[: found.texts.index("Differences over items only")] if each]
    line = shown.index("DM-Base")
    assert shown[line : line + 6] == ["DM-Base", "Base", "B-1", "+6.00", "0.0035", "0.00073"]
    assert "wins" in shown
    assert "PPL" not in shown
    assert "50.25 ± 0.35*" in found.texts


def test_your_own_tables_come_first_and_show_all_their_comparisons(project, store, change):
    content = yaml.safe_load((project / "experiments/tables/toy.yaml").read_text())
    for name, path in (("mine", "mine.yaml"), ("dmlm_x", "experiments/tables/dmlm_x.yaml")):
        (project / path).write_text(yaml.safe_dump({**content, "table": name}))
    for name in ("toy", "mine", "dmlm_x"):
        for row in ("Base", "DM-Base"):
            write_result(make_result(row, 1, {"bleu1": 9.0}, table=name), result_path(name, row, size="small", seed=1))
    note_own_table(project / "mine.yaml", project / "results/mine")
    report(output=project / "page.html")
    text, found = read(project / "page.html")
    titles = ["Your own tables", "DMLM (Yang & Wan, 2022)", "Beyond the papers"]
    assert [each for each in found.texts if each in titles] == titles * 2, "contents and page"
    assert found.texts[: found.texts.index("Differences over items only")].count("undecided") == 1
    assert re.findall(r'<section id="([^"]*)"', text) == [
        "found", "mine-small", "dmlm_x-small", "toy-small", "missing",
    ]  # fmt: skip


def test_a_page_of_some_tables_holds_no_others(project, store, drawn):
    store("Base", 1, {"bleu1": 1.0})
    path = project / "experiments/tables/toy.yaml"
    (project / "experiments/tables/other.yaml").write_text(path.read_text().replace("table: toy", "table: other"))
    assert main(["report", "--tables", "toy", "--output", str(project / "page.html")]) == 0
    text, found = read(project / "page.html")
    assert re.findall(r'<section id="([^"]*)"', text) == ["found", "toy-small", "missing"]
    assert found.pages == [(drawn / "case.html").read_text()]
    assert "depgen reproduce other" not in found.texts
    assert main(["report", "--tables", "toys"]) == 0
    _, found = read(project / "results/report.html")
    assert any("No table 'toys'" in each for each in found.texts)


def test_text_is_never_markup(project, store):
    path = project / "experiments" / "tables" / "toy.yaml"
    content = yaml.safe_load(path.read_text())
    content["caption"] = content["columns"][0]["header"] = NASTY
    content["notes"] = [NASTY]
    path.write_text(yaml.safe_dump(content))
    store("Base", 1, {"bleu1": 1.0, "perplexity": 2.0}, hardware=NASTY)
    report(output=project / "page.html")
    text, found = read(project / "page.html")
    assert NASTY not in text
    assert sum(NASTY in each for each in found.texts) >= 4, "caption, column, note and machine"
    assert "49" not in found.texts


def test_what_is_missing_or_does_not_read_is_named_and_the_rest_is_shown(project, store):
    store("Base", 1, {"bleu1": 1.5}, not_computed={"perplexity": "nobody came"})
    published = project / "experiments/tables"
    for name in ("other", "unread"):
        text = (published / "toy.yaml").read_text().replace("table: toy", f"table: {name}")
        (published / f"{name}.yaml").write_text(text)
    (published / "slip.yaml").write_text("captoin: x")
    bad = project / "results/unread/Base/small-seed1.json"
    bad.parent.mkdir(parents=True)
    bad.write_text('{"table": ')
    assert "1 tables" in report(output=project / "page.html")
    text, found = read(project / "page.html")
    assert "1.50" in found.texts
    missing = found.texts[found.texts.index("What is missing", found.texts.index("What is missing") + 1) :]
    assert {"depgen reproduce other", "DM-Base (not run yet)"} <= {*missing}
    for words in ("nobody came", "small-seed1.json: expected JSON", "slip.yaml: "):
        assert any(words in each for each in missing), words
    assert 'href="#"' not in text
