"""All moves of corpora, tables, tasks, ITEXP's options and phases, one after the other."""

import json
from pathlib import Path
from typing import Any

import corpus
import finetuned
import itexp
import phases
import table

DEFAULTS = {"dependency_modeling_share": 0.5, "language_modeling_share": 0.0}
STORIES = "depgen.data.generated.GeneratedStories"


def renamed(values: dict[str, Any]) -> dict[str, Any]:
    """The resolved configuration of today for one of before."""
    for move in (corpus, table, finetuned):
        values = move.renamed(values)
    values = phases.renamed(itexp.renamed(values))
    model = values.get("model") or {}
    if (model.get("init_args") or {}).get("dependency_modeling_share") == 1.0:
        model["init_args"]["dependency_modeling_share"] = 0.3333  # one row, refused before: one epoch for two phases
    for name, default in DEFAULTS.items():
        if (model.get("init_args") or {}).get(name) == default:
            del model["init_args"][name]
    generated = (values.get("data") or {}).get("init_args", {}).get("corpus")
    if isinstance(generated, dict) and generated["class_path"] == STORIES:  # the demo's text is another one
        generated["class_path"] = "depgen.data.generated.GeneratedLanguage"
        generated["init_args"]["sentences"] = [5, 5]
    return values


def fingerprints() -> dict[str, str]:
    """New fingerprints of data, by the former ones."""
    text = (Path(__file__).parent / "corpus_fingerprints.json").read_text(encoding="utf-8")
    return dict(json.loads(text))
