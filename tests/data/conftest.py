"""A cache of its own for every test of data."""

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
