"""Settings without options that no experiment sets."""

from typing import Any

GONE = {"depgen.evaluation.induced.InducedTrees": ("decoding", "likely_heads")}


def renamed(values: Any) -> Any:
    """Values in the new terms, at every depth."""
    if isinstance(values, list | tuple):
        return [renamed(value) for value in values]
    if not isinstance(values, dict):
        return values
    new = {name: renamed(value) for name, value in values.items()}
    if (gone := GONE.get(new.get("class_path"))) and isinstance(new.get("init_args"), dict):
        new["init_args"] = {name: value for name, value in new["init_args"].items() if name not in gone}
    return new
