"""Every tracked result: its table's page shows it, as `depgen record` writes that."""

from pathlib import Path

import pytest

from depgen.reporting.definition import load_definition
from depgen.reporting.store import measured_page, read_tracked
from depgen.reporting.tables import tracked_page

TABLES = sorted(path.stem for path in Path("experiments/measured").glob("*.jsonl"))


@pytest.mark.parametrize("table", TABLES)
def test_the_page_of_a_table_shows_its_tracked_results(table):
    definition = load_definition(table)
    tracked = [size for size in definition.sizes if read_tracked(definition, size=size)[0]]
    assert tracked
    for size in tracked:
        page = measured_page(table, size).read_text(encoding="utf-8")
        assert page == tracked_page(definition, size), f"depgen record {table} --size {size} writes it anew"
