"""Options of ITEXP, TG and DTG that no experiment set are gone from resolved configurations."""

from typing import Any

GONE = {
    "depgen.models.itexp.ITEXP": ("attention", "written_expansions"),
    "depgen.models.tg.TransformerGrammar": ("only_possible",),
    "depgen.models.dtg.DTG": ("only_possible", "non_projective", "action_dropout", "max_arcs"),
}


def renamed(values: Any) -> Any:
    """Values in the new terms, at every depth."""
    if isinstance(values, list | tuple):
        return [renamed(value) for value in values]
    if not isinstance(values, dict):
        return values
    found = {name: renamed(value) for name, value in values.items()}
    if (gone := GONE.get(str(found.get("class_path")))) and "init_args" in found:
        found["init_args"] = {name: value for name, value in found["init_args"].items() if name not in gone}
    return found
