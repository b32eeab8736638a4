"""Libraries kept quiet, and runs kept apart."""

from pathlib import Path

import pytest

from depgen.training.logs import IGNORED_WARNINGS, quiet_libraries


@pytest.fixture(autouse=True)
def _quiet():
    quiet_libraries()


def pytest_collection_modifyitems(items):
    for item in (each for each in items if Path(__file__).parent in each.path.parents):
        for pattern in IGNORED_WARNINGS:
            item.add_marker(pytest.mark.filterwarnings(f"ignore:{pattern}"))
