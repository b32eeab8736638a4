"""What ITEXP's move changes in a resolved configuration: options that no experiment set are gone."""

from typing import Any


def renamed(values: dict[str, Any]) -> dict[str, Any]:
    """A resolved configuration of before, as it is now."""
    data = values.get("data")
    if not isinstance(data, dict) or data.get("class_path") != "depgen.data.levels.LevelData":
        return values
    arguments = {name: value for name, value in data["init_args"].items() if name != "loss_per"}
    vocabulary = arguments.get("vocabulary")
    if isinstance(vocabulary, dict) and "init_args" in vocabulary:
        gone = ("lossless", "irregular", "max_expansions")
        kept = {name: value for name, value in vocabulary["init_args"].items() if name not in gone}
        arguments["vocabulary"] = {**vocabulary, "init_args": kept}
    return {**values, "data": {**data, "init_args": arguments}}
