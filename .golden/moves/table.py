"""Settings of data in terms of the classes that stand in their system's file, from those in `depgen.data`."""

from typing import Any

MOVED = {"depgen.data.constituent_labels.ConstituentLabels": "depgen.models.tg.ConstituentLabels"}


def renamed(values: Any) -> Any:
    """Values in the new terms, at every depth."""
    if isinstance(values, list | tuple):
        return [renamed(value) for value in values]
    if isinstance(values, dict):
        return {name: renamed(value) for name, value in values.items()}
    return MOVED.get(values, values) if isinstance(values, str) else values
