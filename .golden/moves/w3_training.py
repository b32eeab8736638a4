"""Settings without `min_delta` of `PhaseEarlyStopping`, which was 0 everywhere, and with `wandb` as a mode of wandb's."""

from typing import Any

EARLY_STOPPING = "depgen.training.phases.PhaseEarlyStopping"


def renamed(values: Any) -> Any:
    """Values in the new terms, at every depth."""
    if isinstance(values, list | tuple):
        return [renamed(value) for value in values]
    if not isinstance(values, dict):
        return values
    values = {name: renamed(value) for name, value in values.items()}
    if values.get("class_path") == EARLY_STOPPING:
        values["init_args"] = {name: value for name, value in values["init_args"].items() if name != "min_delta"}
    if values.get("wandb") == "auto":
        values["wandb"] = "online"
    return values
