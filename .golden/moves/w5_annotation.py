"""Annotators by their new class paths: controls, spaCy's and SuPar's in one file each; one training of SuPar's parsers."""

from typing import Any

ROOM = "depgen.annotation."
FILES = {
    "trivial": "controls", "shapes": "controls", "known_trees": "controls", "other_graphs": "controls",
    "spacy_parser": "spacy", "spacy_training": "spacy", "supar_parser": "supar", "supar_structures": "supar",
    "supar_network": "supar_training", "supar_graph_training": "supar_training",
    "supar_constituency_training": "supar_training",
}  # fmt: skip
CLASSES = {
    "tagger.SpacyTagger": "spacy.SpacyTagger",
    "supar_graph_training.SuparGraphTraining": "supar_training.SuparTraining",
    "supar_constituency_training.SuparConstituencyTraining": "supar_training.SuparTraining",
}
STRUCTURES = {"SuparGraphTraining": "graph", "SuparConstituencyTraining": "constituency"}


def renamed(values: Any) -> Any:
    """Values in the new terms, at every depth."""
    if isinstance(values, list | tuple):
        return [renamed(value) for value in values]
    if isinstance(values, str):
        return _renamed_path(values)
    if not isinstance(values, dict):
        return values
    structure = STRUCTURES.get(str(values.get("class_path")).rpartition(".")[2])
    values = {name: renamed(value) for name, value in values.items() if name != "formalism"}
    if structure:
        values["init_args"] = {"structure": structure, **(values.get("init_args") or {})}
    return values


def _renamed_path(path: str) -> str:
    if not path.startswith(ROOM):
        return path
    rest = path.removeprefix(ROOM)
    if rest in CLASSES:
        return ROOM + CLASSES[rest]
    file, dot, name = rest.partition(".")
    return f"{ROOM}{FILES.get(file, file)}{dot}{name}"
