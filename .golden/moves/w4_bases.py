"""Settings without the options of backbones, DMLM and document-context networks that no experiment set."""

from typing import Any

GONE = {
    "depgen.backbones.pretrained.PretrainedTransformer": ("settings", "tied"),
    "depgen.models.dmlm.DMLM": ("duplicates", "eos_target", "root_target"),
    **{
        f"depgen.models.dclm.{context}": ("layers",)
        for context in (
            "NoContext", "CarriedState", "ContextToContext", "ContextToOutput", "AttentionContext", "HierarchicalContext",
        )
    },
}


def renamed(values: Any) -> Any:
    """Values in the new terms, at every depth."""
    if isinstance(values, list | tuple):
        return [renamed(value) for value in values]
    if not isinstance(values, dict):
        return values
    values = {name: renamed(value) for name, value in values.items()}
    gone = GONE.get(values.get("class_path"), ())
    if gone and isinstance(values.get("init_args"), dict):
        values["init_args"] = {name: value for name, value in values["init_args"].items() if name not in gone}
    return values
