"""Tracked results: what is recorded reads back, and what items gave stays when they are gone."""

import base64
import json
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest
import yaml

from depgen.cli import main
from depgen.reporting.compare import compare
from depgen.reporting.pages import record_table, table, thin, tracked_page, write_report
from depgen.reporting.plots import figure, save
from depgen.reporting.results import measured_page, measured_path, tracked_results
from depgen.reporting.table import load_definition
from tests.reporting.conftest import toy_results


def lines(*kinds):
    """The tracked lines, of these kinds alone if any are named."""
    read = [json.loads(line) for line in measured_path("toy").read_text().splitlines()]
    return [line for line in read if not kinds or line["kind"] in kinds]


def tracked():
    return tracked_results(load_definition("toy"), size="small")


def record():
    """Which files were written."""
    return [*record_table(load_definition("toy"), "small")]


def page():
    return measured_page("toy", "small").read_text()


def two_systems(store):
    """One seed each of two systems that differ by one in each of 50 items, but for noise."""
    generator = np.random.default_rng(1)
    base = generator.normal(10, 1, 50)
    for row, scores in (("Base", base), ("DM-Base", base + 1 + generator.normal(0, 0.1, 50))):
        store(row, 1, {"bleu1": float(scores.mean())}, {"bleu1": scores})


def test_what_is_recorded_reads_back(store, project):
    curve = tuple((float(x), 90.0 - x) for x in range(100))
    stored = [
        store("Base", 1, {"bleu1": 10.123456789}, {"bleu1": [9.0, 11.0]}, settings={"bleu1": "scorer a"}),
        store("Base", 2, {"bleu1": 11.0}, curve=curve, clock=tuple((10 * x, 2.5 * x) for x, _ in curve)),
        store("Base", 3, {"bleu1": 11.0}, curve=(), clock=tuple((10.0 * x, 2.5 * x) for x in range(100))),
    ]
    record()
    shutil.rmtree(project / "results")
    first, second, third = tracked()
    assert first.metrics == {"bleu1": 10.1235}
    assert (first.data, first.budget, first.curve, first.settings) == (
        stored[0].data, stored[0].budget, stored[0].curve, stored[0].settings,
    )  # fmt: skip
    assert not first.items
    assert len(second.curve) == len(second.clock) <= 40
    assert all(c == (10 * tokens, 2.5 * tokens) for (tokens, _), c in zip(second.curve, second.clock, strict=True))
    assert (third.curve, third.clock[-1]) == ((), (990.0, 247.5))


def test_what_items_gave_is_kept(store, project):
    two_systems(store)
    before = tracked_page(load_definition("toy"), "small")
    compared = {item.row: item for item in compare(toy_results())}
    intervals = toy_results().intervals
    record()
    (line,) = lines("comparison")
    assert {line["row"], line["against"]} == {"Base", "DM-Base"}
    assert (line["test"], line["items"], line["seeds"], line["other_seeds"]) == ("paired_t", 50, [1], [1])
    shutil.rmtree(project / "results")
    assert {place: pytest.approx(ends) for place, ends in intervals.items()} == toy_results().intervals
    for item in compare(toy_results()):
        former = compared[item.row]
        assert item.gain == pytest.approx(former.gain, rel=1e-3), "of metrics to six digits"
        assert (item.p_items, item.items, item.verdict) == (pytest.approx(former.p_items), 50, former.verdict)
        assert item.interval == pytest.approx(former.interval)
    assert before != page()


def test_a_new_seed_adds_lines_and_ends_the_test_and_the_interval_of_the_others(store, project):
    two_systems(store)
    record()
    former = lines()
    shutil.rmtree(project / "results")
    store("DM-Base", 2, {"bleu1": 26.0})
    record()
    assert lines()[: len(former)] == former
    assert [(line["row"], line["seed"]) for line in lines("result")] == [("Base", 1), ("DM-Base", 1), ("DM-Base", 2)]
    assert {*toy_results(local=False).intervals} == {("Base", "bleu1")}
    shutil.rmtree(project / "results")
    assert {item.p_items for item in compare(toy_results())} == {None}


def test_a_seed_that_is_made_again_replaces_its_lines_and_what_it_gave(store, project):
    two_systems(store)
    record()
    shutil.rmtree(project / "results")
    store("DM-Base", 1, {"bleu1": 26.0}, config_sha256="new")
    record()
    assert [(run.row, run.config_sha256) for run in tracked()] == [("Base", "c0ffee"), ("DM-Base", "new")]
    assert lines("comparison") == []
    assert [line["row"] for line in lines("intervals")] == ["Base"]
    before = measured_path("toy").read_text()
    record()
    assert measured_path("toy").read_text() == before


def test_lines_of_the_other_size_and_of_rows_that_are_gone_stay(store):
    path = measured_path("toy")
    path.parent.mkdir(parents=True)
    others = [
        {"kind": "result", "row": row, "size": size, "seed": 1} for row, size in (("Base", "paper"), ("Gone", "small"))
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in others))
    store("Base", 1, {"bleu1": 10.0})
    record()
    assert lines()[:2] == others


def test_the_page_shows_what_is_tracked_and_follows_its_tables_definition(store, project, change):
    store("Base", 1, {"bleu1": 11.0})
    assert table("toy", size="small", record=True).splitlines() == [
        "experiments/measured/toy.jsonl: size small, Base",
        "experiments/measured/toy-small.md: the tracked results, size small",
    ]
    assert "|  | measured | 11.00 |" in page()
    store("Base", 1, {"bleu1": 12.0})
    assert tracked_page(load_definition("toy"), "small") == page(), "whatever lies here"
    shutil.rmtree(project / "results")
    assert record() == []
    change("seeds: [1, 2]", "seeds: [1, 2]\nnotes: [Another word]")
    assert record() == ["experiments/measured/toy-small.md: the tracked results, size small"]
    assert "Another word." in page()


@pytest.mark.parametrize("length", [1, 5, 40, 41, 100, 1000])
def test_a_thinned_curve_keeps_its_ends_and_its_lowest_point(length):
    curve = [(float(x), abs(x - length * 0.37)) for x in range(length)]
    kept = [curve[index] for index in thin(curve, 40)]
    assert len(kept) <= 40
    assert (kept[0], kept[-1]) == (curve[0], curve[-1])
    assert min(curve, key=lambda point: point[1]) in kept
    assert kept == sorted(kept)


# -- a page of HTML ---------------------------------------------------------------------------------------------------

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
