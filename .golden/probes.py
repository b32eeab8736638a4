"""What is asked of a tree from inside its process. A move that renames what is imported here adds its own functions to
another module, and its `Generation` names them.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def digest(value: object) -> str:
    """The beginning of a SHA-256 of bytes, or of a value as JSON."""
    content = value if isinstance(value, bytes) else json.dumps(plain(value), sort_keys=True, default=str).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def plain(value: Any) -> Any:  # noqa: ANN401
    """A value as JSON holds it: of dataclasses the fields that are not None."""
    import numpy as np
    import torch

    if dataclasses.is_dataclass(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {name: plain(each) for name, each in fields.items() if each is not None}
    if isinstance(value, torch.Tensor):
        value = value.numpy()
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    return value


def names_of_tables() -> list[str]:
    """Every table of this tree."""
    try:
        from depgen.reporting.table import table_names
    except ImportError:  # a tree before one module of tables
        from depgen.reporting.experiments import table_names
    return table_names()


def experiments() -> dict[str, Any]:
    """Every experiment at every size, and what makes the rows of all tables, by a label."""
    from depgen.training.experiment import Experiment, sizes_of

    try:
        from depgen.reporting.table import load_definition
    except ImportError:  # a tree before one results frame
        from depgen.reporting.definition import load_definition

    listed = {
        f"{path.stem} {size}": Experiment(path, size)
        for path in sorted(Path("experiments").glob("*.yaml"))
        for size in sizes_of(path)
    }
    for table in names_of_tables():
        definition = load_definition(table)
        for row in definition.rows:
            for size in definition.sizes if row.experiment is not None else ():
                listed[f"{table} {row.name} {size}"] = row.experiment_at(size)
    return listed


def configurations() -> dict[str, Any]:
    """The resolved values of every experiment and row that differ from defaults, and their digest."""
    from depgen.training.configuration_digest import chosen_values, settings_digest

    try:
        from depgen.aliases import settings_today
    except ImportError:
        settings_today = dict
    answer = {}
    for label, experiment in experiments().items():
        settings = experiment.settings
        values = plain(chosen_values(settings_today(settings)))
        answer[label] = {"values": values, "digest": settings_digest(settings, label)}
    return answer


def corpus(settings: Mapping[str, Any]) -> dict[str, str]:
    """The digest of the documents of each split of a corpus, and how many."""
    from jsonargparse import ArgumentParser

    from depgen.data.corpus import Corpus

    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--corpus", type=Corpus)
    read = parser.instantiate(parser.parse_object({"corpus": dict(settings)})).corpus
    if not hasattr(read, "documents"):
        return {}
    answer = {}
    for split in ("train", "valid", "test"):
        documents = list(read.documents(split))
        answer[split] = f"{len(documents)} documents {digest(documents)}"
    return answer


def all_corpora(data_settings: Mapping[str, Any]) -> dict[str, Any]:
    """`corpus` of many, by name; a refusal is an answer too."""
    return {name: _or_refusal(corpus, settings) for name, settings in data_settings.items()}


def _or_refusal(function: Any, *arguments: Any) -> Any:  # noqa: ANN401
    try:
        return function(*arguments)
    except Exception as error:
        return f"refused: {type(error).__name__}: {re.sub(r'/[^ ,;:]+', 'PATH', str(error))[:120]}"


def data_modules(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of many data modules, by name: their vocabulary, annotated rows and encoded rows."""
    return {name: _or_refusal(data_module, each) for name, each in settings.items()}


def data_module(settings: Mapping[str, Any]) -> dict[str, str]:
    """The vocabulary of a data module, its rows with trees, and its batches (of training in the order of epoch 0)."""
    import lightning as L
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(L.LightningDataModule, "data", required=True)
    data = parser.instantiate(parser.parse_object({"data": dict(settings)})).data
    if type(data).__name__ == "LevelData" and getattr(data, "collate", "") is None:
        from depgen.models.itexp import collate_levels  # in the trees of today of the system, not of the data

        data.collate = collate_levels
    vocabulary = data.vocabulary
    content = digest([vocabulary.types, vocabulary.special_ids, vocabulary.tables])
    answer = {"vocabulary": f"{data.vocabulary_size} {content}"}
    for split in ("train", "valid"):
        if hasattr(data, "_table"):
            answer[f"{split} rows"] = digest([data._table(split)[number] for number in range(len(data._table(split)))])
    for name, loader in (("train", data.train_dataloader(0)), ("valid", data.val_dataloader())):
        batches = [plain(batch) for batch in loader]
        answer[f"{name} batches"] = f"{len(batches)} {digest(batches)}"
        for field in batches[0] if batches and isinstance(batches[0], dict) else ():
            answer[f"{name} batches {field}"] = digest([batch.get(field) for batch in batches])
    return answer


def tables(folder: str) -> dict[str, str]:
    """Every table of this tree in every format, from the tracked results alone; and the tracked pages."""
    try:
        from depgen.reporting.render import page_of, render
        from depgen.reporting.results import load_results
        from depgen.reporting.table import load_definition
    except ImportError:  # a tree before one results frame
        from depgen.reporting.definition import load_definition
        from depgen.reporting.layout import lay_out as page_of
        from depgen.reporting.store import read_ours as load_results
        from depgen.reporting.tables import render

    answer = {}
    for name in names_of_tables():
        definition = load_definition(name)
        for size in definition.sizes:
            page = page_of(load_results(definition, size=size, local=False))
            for format in ("markdown", "latex", "csv", "text"):
                answer[f"{name} {size} {format}"] = render(page, format=format)
    for path in sorted(Path("experiments/measured").glob("*.md")):
        answer[f"page {path.name}"] = path.read_text(encoding="utf-8")
    return answer


def data_settings(every: bool = True) -> dict[str, Any]:
    """The settings of every data module that the experiments name, each once, by the first that names it.

    Args:
        every: else one of those that differ in numbers alone, such as sizes of batches and vocabularies.
    """
    answer: dict[str, Any] = {}
    seen = set()
    for label, experiment in sorted(experiments().items(), key=lambda each: "small" not in each[0]):
        data = experiment.settings.get("data")
        key = json.dumps(data if every else without_numbers(data), sort_keys=True)
        if isinstance(data, dict) and "class_path" in data and key not in seen:
            seen.add(key)
            answer[label] = data
    return answer


def without_numbers(value: Any) -> Any:  # noqa: ANN401
    """Settings without numbers, given or by default."""
    if isinstance(value, Mapping):
        values = {name: without_numbers(each) for name, each in value.items()}
        return {name: each for name, each in values.items() if each is not None}
    if isinstance(value, list):
        return [without_numbers(each) for each in value]
    return None if isinstance(value, int | float) and not isinstance(value, bool) else value
