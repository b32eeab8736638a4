"""From the settings of GiLT with several graphs, and of Pushdown with a number of depths, to those without."""

import copy
from typing import Any

PARAMETERS = ((r"^scorer\.(arc|sum)$", r"scorer.\1.weight"),)
"""Names of weights of today, and those of the oldest tree."""


def renamed(values: dict[str, Any]) -> dict[str, Any]:
    """The resolved configuration (trainer, model, data) of today for one of before."""
    values = copy.deepcopy(values)
    model = values.get("model") or {}
    gone = {"depgen.models.gilt.GiLT": "graphs", "depgen.models.pushdown.Pushdown": "depths"}
    if model.get("class_path") in gone:
        model.get("init_args", {}).pop(gone[model["class_path"]], None)
    return values
