"""Settings of corpora in the new terms, and the new fingerprints of data."""

import json
from pathlib import Path
from typing import Any

STEPS = "depgen.data.steps."
SINGLE = {"class_path": STEPS + "SingleSentences", "init_args": {}}
DRAW = {"valid": "drawn_valid", "test": "drawn_test"}
GONE = {
    "depgen.data.formats.WikiText": ("headings",),
    "depgen.data.formats.Sdp": ("documents_by",),
    STEPS + "BareWords": ("orphans", "lowercase"),
    "depgen.data.hub_corpus.HubCorpus": ("root",),
}


def renamed(values: Any) -> Any:
    """Values in the new terms, at every depth."""
    if isinstance(values, list | tuple):
        return [renamed(value) for value in values]
    if not isinstance(values, dict):
        return values
    values = {name: renamed(value) for name, value in values.items()}
    kind, arguments = str(values.get("class_path")), values.get("init_args")
    if not isinstance(arguments, dict):
        return values
    for name in GONE.get(kind, ()):
        arguments.pop(name, None)
    if kind == STEPS + "WithoutSentences":
        other = arguments.pop("excluded")
        options = dict(other.get("init_args") or {})
        options["steps"] = [*(options.get("steps") or ()), SINGLE]
        held_out = {"splits": ["train", "valid"], **arguments, "of": {**other, "init_args": options}}
        return {"class_path": STEPS + "WithoutHeldOut", "init_args": held_out}
    if kind == "depgen.data.formats.JsonLines":
        text, sentences = arguments.pop("text", None), arguments.pop("sentences", None)
        columns = {"sentences": sentences} if sentences else {"text": text}
        columns["identifier"] = arguments.pop("identifier", None)
        if columns := {name: column for name, column in columns.items() if column}:
            arguments["columns"] = columns
    if drawn := arguments.pop("drawn", None):
        arguments["train"] = drawn
    draw = {name: arguments.pop(old) for name, old in DRAW.items() if old in arguments}
    steps = arguments.get("steps")
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, dict) and step.get("class_path") == STEPS + "SeededSplits":
            draw = {name: value for name, value in (step.get("init_args") or {}).items() if name != "of"}
            arguments["steps"] = [other for other in steps if other is not step]
            arguments["draw"] = draw
    if draw:
        arguments["draw"] = draw
    return values


def fingerprints() -> dict[str, str]:
    """New fingerprints of data, by the former ones: classes, options and draws count in other ways."""
    return dict(json.loads((Path(__file__).parent / "w4_sources_fingerprints.json").read_text(encoding="utf-8")))
