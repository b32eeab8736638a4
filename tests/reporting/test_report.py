"""The page of everything: it stands alone, parses, escapes, holds every number at hand and names what is missing."""

import base64
import re
import shutil
from html.parser import HTMLParser

import pytest
import yaml

from depgen.cli import main
from depgen.reporting.experiments import note_own_table
from depgen.reporting.pictures.plotting import figure, save
from depgen.reporting.record import record
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
        assert number in shown, number
    heat_map = base64.b64encode((drawn / "heat-map.png").read_bytes()).decode()
    assert f"data:image/png;base64,{heat_map}" in found.references
    assert base64.b64encode(b"drawn anew by the page").decode() not in text
    assert "Training: validation perplexity against training tokens seen; the best point of each run marked." in shown
    assert found.pages == [(drawn / "case.html").read_text()]
    assert "trees: some" in shown
    provenance = ["data: Stories (reduced), 1,000 training documents", "seeds: 1", "2026-01-02"]
    assert all(any(part in each for each in shown) for part in provenance)


def test_the_page_opens_with_what_was_found(project, store):
    for seed, (mine, other) in enumerate([(50.0, 44.0), (50.5, 44.5)], start=1):
        store("DM-Base", seed, {"bleu1": mine, "perplexity": 9.0}, {"bleu1": [mine - 1, mine, mine + 1.5]})
        store("Base", seed, {"bleu1": other, "perplexity": 9.0}, {"bleu1": [other - 1, other, other + 1]})
    report(output=project / "page.html")
    _, found = read(project / "page.html")
    shown = found.texts[: found.texts.index("System")]
    assert any(each.startswith("Comparisons that the tables name: 1 better, 1 undecided. ") for each in shown)
    claim = shown.index("B-1: DM-Base better than Base")
    assert [each for each in shown[claim:] if each][1:4] == [
        "50.25 ± 0.35 against 44.25 ± 0.35", "seeds p 0.0035, items p 0.00073", "wins",
    ]  # fmt: skip
    assert not any("PPL: DM-Base" in each for each in shown)
    assert found.texts[found.texts.index("50.25*") + 1] == "± 0.35"


def test_numbers_of_the_page_have_their_marks(project, store):
    store("Base", 1, {"bleu1": 10.0, "perplexity": 50.0})
    store("Base", 2, {"bleu1": 11.0})
    report(output=project / "page.html")
    assert "50.00‡" in read(project / "page.html")[1].texts


def test_your_own_tables_come_first_and_show_all_their_comparisons(project, store):
    store("Base", 1, {"bleu1": 1.0})
    content = yaml.safe_load((project / "experiments/tables/toy.yaml").read_text())
    (project / "mine.yaml").write_text(yaml.safe_dump({**content, "table": "mine", "caption": "My systems"}))
    shutil.copytree(project / "results/toy", project / "results/mine")
    for row, value in (("Base", 9.0), ("DM-Base", 8.0)):
        result = make_result(row, 1, {"bleu1": value}, table="mine")
        write_result(result, result_path("mine", row, size="small", seed=1))
    note_own_table(project / "mine.yaml", project / "results/mine")
    (project / "experiments/tables/dmlm_x.yaml").write_text(yaml.safe_dump({**content, "table": "dmlm_x"}))
    shutil.copytree(project / "results/toy", project / "results/dmlm_x")
    (project / "results/dmlm_x/Base/small-seed1.json").unlink()
    write_result(
        make_result("Base", 1, {"bleu1": 3.0}, table="dmlm_x"), result_path("dmlm_x", "Base", size="small", seed=1)
    )
    report(output=project / "page.html")
    text, found = read(project / "page.html")
    titles = ["Your own tables", "DMLM (Yang & Wan, 2022)", "Beyond the papers"]
    assert [each for each in found.texts if each in titles] == titles * 2, "contents and page"
    assert "B-1: DM-Base not surely different from Base" in found.texts
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


def test_a_table_is_drawn_by_its_own_measures(project, store):
    path = project / "experiments" / "tables" / "toy.yaml"
    content = yaml.safe_load(path.read_text())
    content["columns"] = [each for each in content["columns"] if each["key"] != "perplexity"]
    content["columns"].append({"key": "parameters", "header": "Size", "higher_better": None})
    path.write_text(yaml.safe_dump(content))
    store("Base", 1, {"bleu1": 11.0, "selfbleu2": 1.0, "parameters": 1.0})
    store("DM-Base", 1, {"bleu1": 13.0, "parameters": 2.0}, {"bleu1": [12.0, 14.0]})
    said = report(output=project / "page.html")
    assert "1 tables, 0 pictures" in said, "no curve of perplexity next to other measures"


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


def test_what_is_missing_is_named(project, store):
    store("Base", 1, {"bleu1": 1.0}, not_computed={"perplexity": "nobody came"})
    path = project / "experiments" / "tables" / "other.yaml"
    path.write_text((project / "experiments" / "tables" / "toy.yaml").read_text().replace("table: toy", "table: other"))
    report(output=project / "page.html")
    _, found = read(project / "page.html")
    missing = found.texts[found.texts.index("What is missing", found.texts.index("What is missing") + 1) :]
    assert "depgen reproduce other" in missing
    assert any(each.startswith("Not computed: ") and "nobody came" in each for each in missing)
    assert any(each.startswith("not run yet: ") and "DM-Base" in each for each in missing)


def test_a_local_number_replaces_the_tracked_one(project, store):
    store("Base", 1, {"bleu1": 1.0, "perplexity": 41.123456789})
    record("toy", size="small")
    report(output=project / "page.html")
    _, found = read(project / "page.html")
    assert found.texts.count("41.12") == 1
    store("Base", 1, {"bleu1": 1.0, "perplexity": 42.5})
    report(output=project / "page.html")
    _, found = read(project / "page.html")
    assert (found.texts.count("41.12"), found.texts.count("42.50")) == (0, 1)


def test_columns_are_sorted_by_our_numbers_alone(project, store):
    store("Base", 1, {"bleu1": 1.5, "perplexity": 41.25})
    report(output=project / "page.html")
    text, _ = read(project / "page.html")
    values = [[part.strip() for part in each.split("|")] for each in re.findall(r'data-values="([^"]*)"', text)]
    assert values == [["", "", ""], ["1.5", "", "41.25"], ["", "", ""], ["", "", ""], ["", "", ""]]


def test_without_results_the_page_says_so(project, capsys):
    assert main(["report", "--output", str(project / "empty.html")]) == 0
    assert "0 tables, 0 pictures" in capsys.readouterr().out
    _, found = read(project / "empty.html")
    assert "Tables without any result" in found.texts
    assert main(["report"]) == 0
    assert (project / "results" / "report.html").is_file()


def test_what_does_not_read_is_named_and_the_rest_is_shown(project, store):
    store("Base", 1, {"bleu1": 1.5})
    published = project / "experiments" / "tables"
    (published / "other.yaml").write_text((published / "toy.yaml").read_text().replace("table: toy", "table: other"))
    bad = project / "results" / "other" / "Base" / "small-seed1.json"
    bad.parent.mkdir(parents=True)
    bad.write_text('{"table": ')
    (published / "slip.yaml").write_text("captoin: x")
    said = report(output=project / "page.html")
    text, found = read(project / "page.html")
    assert "1 tables" in said
    assert "1.50" in found.texts
    missing = found.texts[found.texts.index("What is missing", found.texts.index("What is missing") + 1) :]
    assert any("small-seed1.json: expected JSON" in each for each in missing)
    assert any("slip.yaml: " in each for each in missing)
    assert 'href="#"' not in text


def test_a_folders_pictures_stand_once(project, store, drawn):
    store("Base", 1, {"bleu1": 1.0})
    record("toy", size="small")
    shutil.rmtree(project / "results" / "toy" / "Base")
    store("Base", 1, {"bleu1": 1.0}, size="paper")
    path = project / "results" / "toy" / "Base"
    (path / "small-seed1.json").rename(path / "paper-seed1.json")
    assert report(output=project / "page.html").startswith(f"{project / 'page.html'}: 2 tables")
    text, found = read(project / "page.html")
    assert len(found.pages) == 1
    assert text.count(base64.b64encode((drawn / "heat-map.png").read_bytes()).decode()) == 1


def test_a_page_is_called_by_its_title(drawn, project):
    (drawn / "case.html").write_text("<title>Endings &amp; more</title>")
    report(output=project / "page.html")
    assert f"<summary>{drawn.name}: Endings &amp; more</summary>" in (project / "page.html").read_text()
