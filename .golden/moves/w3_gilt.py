"""From the settings of GiLT and Pushdown with options that no experiment set to those without."""

import copy
from typing import Any

GONE = {
    "depgen.models.gilt.GiLT": (
        "tape_through", "distance_codes", "middle_layer", "bilinear", "self_loops", "count_scale", "normalization",
        "token_weight",
    ),
    "depgen.models.pushdown.Pushdown": ("attachment_weight", "depth_in", "only_open", "validation_beam_size"),
}  # fmt: skip
PARAMETERS = (
    (r"^scorers\.0\.", "scorer."), (r"^scorers\.1\.", "further_scorers.0."),
    (r"^(scorer\.|further_scorers\.0\.)(arc|sum)$", r"\1\2.weight"),
)  # fmt: skip
"""Names of weights of today, and the former ones."""


def renamed(values: dict[str, Any]) -> dict[str, Any]:
    """The resolved configuration (trainer, model, data) of today for one of before."""
    values = copy.deepcopy(values)
    model = values.get("model") or {}
    for name in GONE.get(model.get("class_path"), ()):
        model.get("init_args", {}).pop(name, None)
    return values
