"""Libraries kept quiet, and runs kept apart."""

import pytest

from depgen.training.logs import IGNORED_WARNINGS, quiet_libraries


@pytest.fixture(autouse=True)
def _quiet():
    quiet_libraries()


def pytest_collection_modifyitems(items):
    for item in items:
        for pattern in IGNORED_WARNINGS:
            item.add_marker(pytest.mark.filterwarnings(f"ignore:{pattern}"))
