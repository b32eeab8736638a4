"""From the settings of a configuration before phases had shares to those after."""

import copy
import math
from typing import Any

MODELS = {
    "depgen.models.dmlm.DMLM": ("dependency_modeling", 30),
    "depgen.models.gilt.GiLT": ("language_modeling", 0),
}
"""Systems of two phases: the name of the first one, and its former default of epochs."""
TWO_LENGTHS = {"depgen.models.dmlm.DMLM": 30}
"""Systems that had a length of the second phase too, and its former default."""


def renamed(values: dict[str, Any]) -> dict[str, Any]:
    """The resolved configuration (trainer, model, data) of today for one of before; phases get as many epochs."""
    values = copy.deepcopy(values)
    model, trainer = values.get("model") or {}, values.get("trainer") or {}
    path, arguments = model.get("class_path"), model.get("init_args", {})
    if path not in MODELS:
        return values
    name, default = MODELS[path]
    first = arguments.pop(f"{name}_epochs", default)
    if path in TWO_LENGTHS:
        second = arguments.pop("language_modeling_epochs", TWO_LENGTHS[path])
        total = trainer.get("max_epochs") or first + second
        if first and total != first + second:  # the phases were scaled to max_epochs
            first = max(1, min(total - 1, math.ceil(total * first / (first + second) - 0.5)))
        trainer["max_epochs"] = total
        values["trainer"] = trainer
    else:
        total = trainer.get("max_epochs") or 0
    share = first / total if first else 0.0
    arguments[f"{name}_share"] = round(share, 4)
    assert not first or math.ceil(arguments[f"{name}_share"] * total - 0.5) == first, (path, first, total)
    return values
