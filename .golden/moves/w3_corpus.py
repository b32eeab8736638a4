"""Settings of datasets of the hub, of formats and of tasks in the new terms, and the new fingerprints of data."""

import json
from pathlib import Path
from typing import Any

MOVED = {
    "depgen.data.hub.HubCorpus": "depgen.data.hub_corpus.HubCorpus",
    "depgen.data.formats.Columns": "depgen.data.formats.SentenceColumns",
}
GONE = {
    "depgen.data.hub_corpus.HubCorpus": ("headings",),
    "depgen.data.formats.Conllu": ("empty_nodes",),
    "depgen.data.tasks.SimilarityTasks": ("name",),
}
KINDS = ("tokens", "sentences", "text", "heads", "relations", "tags", "identifier", "document")


def renamed(values: Any) -> Any:
    """Values in the new terms, at every depth."""
    if isinstance(values, list | tuple):
        return [renamed(value) for value in values]
    if not isinstance(values, dict):
        return MOVED.get(values, values) if isinstance(values, str) else values
    values = {name: renamed(value) for name, value in values.items()}
    arguments = values.get("init_args")
    if isinstance(arguments, dict):
        for name in GONE.get(str(values.get("class_path")), ()):
            arguments.pop(name, None)
        if values.get("class_path") == MOVED["depgen.data.hub.HubCorpus"]:
            named = {kind: arguments.pop(f"{kind}_column", None) for kind in KINDS}
            columns = {kind: name for kind, name in named.items() if name is not None}
            if columns:
                arguments["columns"] = columns
    return values


def fingerprints() -> dict[str, str]:
    """New fingerprints of data, by the former ones: versions count, folders of corpora within steps do not."""
    return dict(json.loads((Path(__file__).parent / "w3_corpus_fingerprints.json").read_text(encoding="utf-8")))
