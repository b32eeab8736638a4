"""A parser's treebank is a corpus; what is done to its words stands beside it; SuPar's parsers in one file."""

from typing import Any

ROOM = "depgen.annotation."
gone = ("parser_", "union_rocstories", "scoring_brown", "coherence_brown", "coherence_insertion_brown", "correlations_ewt",
        "demo Transformer, 4 epochs")
"""Compared by hand: parsers and UNION are configured anew, and three sizes were there by the accident of a name."""


def renamed(values: Any) -> Any:
    """Values in the new terms, at every depth."""
    if isinstance(values, list | tuple):
        return [renamed(value) for value in values]
    if isinstance(values, str):
        values = values.replace(f"{ROOM}supar_training.", f"{ROOM}supar.")
        for kind in ("trees", "graphs"):
            values = values.replace(f"depgen.evaluation.trees.induced_{kind}.", "depgen.evaluation.induced.")
        return values
    if not isinstance(values, dict):
        return values
    values = {name: renamed(value) for name, value in values.items()}
    treebank = values.pop("treebank", None) if "parser" in values else None
    if isinstance(treebank, dict) and str(treebank.get("class_path")).endswith(".CorpusTreebank"):
        values["corpus"] = treebank["init_args"]["corpus"]
    elif isinstance(treebank, dict):
        changes = {name: treebank[name] for name in ("lowercase", "replace_names") if name in treebank}
        files = {name: value for name, value in treebank.items() if name in ("name", "train", "valid", "test")}
        values |= changes
        values["corpus"] = {
            "class_path": "depgen.data.corpora.ConlluTreebank", "init_args": {"folder": ".", **files},
        }  # fmt: skip
    return values
