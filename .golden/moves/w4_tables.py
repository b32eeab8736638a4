"""Settings in which a saved vocabulary is named by its file, and without options that no experiment varied."""

from typing import Any


def renamed(values: Any) -> Any:
    """Values in the new terms, at every depth."""
    if isinstance(values, list | tuple):
        return [renamed(value) for value in values]
    if not isinstance(values, dict):
        return values
    values = {name: renamed(value) for name, value in values.items()}
    if values.get("class_path") == "depgen.data.vocabulary.ReadyVocabulary" and "folder" in values["init_args"]:
        values["init_args"] = {"file": f"{values['init_args']['folder']}.json"}
    if values.get("class_path") == "depgen.data.tasks.SimilarityTasks":
        arguments = {name: value for name, value in values.get("init_args", {}).items() if name != "numbers"}
        values["init_args"] = arguments
    return values
