"""Every tracked result is on its table's page, as `depgen table --record` writes it; the overview quotes them."""

import re
from pathlib import Path

import pytest

from depgen.reporting.pages import tracked_page
from depgen.reporting.results import measured_page, tracked_results
from depgen.reporting.table import load_definition

FOLDER = Path("experiments/measured")
TABLES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_the_page_of_a_table_shows_its_tracked_results(table):
    definition = load_definition(table)
    tracked = [size for size in definition.sizes if tracked_results(definition, size=size)]
    assert tracked
    for size in tracked:
        page = measured_page(table, size).read_text(encoding="utf-8")
        assert page == tracked_page(definition, size), f"depgen table {table} --size {size} --record writes it anew"


OVERVIEW = (FOLDER / "README.md").read_text(encoding="utf-8").split("\n## ")[1:]
NUMBER = re.compile(r"\d+(?:,\d{3})+|\d*\.\d+(?:e-\d+)?|\d+e-\d+")


@pytest.mark.parametrize("section", OVERVIEW, ids=lambda section: section.splitlines()[0])
def test_numbers_of_the_overview_are_those_of_the_pages_that_it_links(section):
    pages = " ".join((FOLDER / name).read_text(encoding="utf-8") for name in re.findall(r"\]\(([\w-]+\.md)\)", section))
    quoted = NUMBER.findall(re.sub(r"`[^`]*`|\]\([^)]*\)", "", section))
    assert len(quoted) > 5
    assert not set(quoted) - set(NUMBER.findall(pages))


def test_the_overview_links_every_page():
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", " ".join(OVERVIEW)))
    assert {path.name for path in FOLDER.glob("*-*.md")} <= linked
