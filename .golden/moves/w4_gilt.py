"""From the settings of GiLT with several graphs to those with one."""

import copy
from typing import Any

PARAMETERS = ((r"^scorer\.(arc|sum)$", r"scorer.\1.weight"),)
"""Names of weights of today, and those of the oldest tree."""


def renamed(values: dict[str, Any]) -> dict[str, Any]:
    """The resolved configuration (trainer, model, data) of today for one of before."""
    values = copy.deepcopy(values)
    model = values.get("model") or {}
    if model.get("class_path") == "depgen.models.gilt.GiLT":
        model.get("init_args", {}).pop("graphs", None)
    return values
