"""An example of a move: GoldTrees is called CorpusTrees."""

from commands import renamed_classes

CLASS_PATHS = {"depgen.annotation.trivial.GoldTrees": "depgen.annotation.trivial.CorpusTrees"}
"""New import paths by former ones."""
ARGUMENTS: dict[str, str] = {}
"""New names by `former.class.Path.former_name`."""


def renamed(values: dict) -> dict:
    """Resolved values, or the settings of an experiment, in the terms of the new tree.

    Beyond names, such as two lengths of phases that become a share:

        model = values.get("model") or {}
        if model.get("class_path") == "depgen.models.dmlm.DMLM":
            first, second = (model["init_args"].pop(f"{each}_modeling_epochs") for each in ("dependency", "language"))
            if first != second:  # one half is the default, and values that equal their default are not among these
                model["init_args"]["dependency_modeling_share"] = first / (first + second)
    """
    return renamed_classes(values, CLASS_PATHS, ARGUMENTS)
