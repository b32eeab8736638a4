"""Settings of data modules without the options that no experiment sets, from those that have them."""

from typing import Any

GONE = {"vocabulary_splits": ["train"], "valid_columns": 10, "test_columns": 1}
"""Options and their former defaults, which are what happens now."""


def renamed(values: Any) -> Any:
    """Values in the new terms, at every depth."""
    if isinstance(values, list | tuple):
        return [renamed(value) for value in values]
    if not isinstance(values, dict):
        return values
    for name, default in GONE.items():
        value = values.get(name, default)
        assert (list(value) if isinstance(value, list | tuple) else value) == default, f"{name}: {value}"
    return {name: renamed(value) for name, value in values.items() if name not in GONE}
