"""Refuses an experiment whose corpus is not at hand, before anything heavy is imported."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from depgen.data.corpus import Corpus, Split
from depgen.errors import MissingDataError
from depgen.yaml_files import read_yaml


def check_corpus(experiment: Path) -> None:
    """Reads the first document of what an experiment trains and validates on, if its corpus has a folder or a dataset.

    Of a corpus that reads another one, only the training split of that one is read: it may draw its own splits.
    Settings that are wrong in another way are left to the parser of the command line, which names them.

    Raises:
        MissingDataError: a file is missing.
    """
    try:
        block = read_yaml(experiment)["data"]["init_args"]["corpus"]
        splits: tuple[Split, ...] = ("train",) if "corpus" in (block.get("init_args") or {}) else ("train", "valid")
        while "corpus" in (block.get("init_args") or {}):
            block = block["init_args"]["corpus"]
        corpus = _built(block)
        if isinstance(corpus, Corpus) and (hasattr(corpus, "folder") or hasattr(corpus, "dataset")):
            for split in splits:
                next(corpus.documents(split), None)
    except MissingDataError:
        raise
    except (ValueError, TypeError, AttributeError, LookupError, ImportError):
        return


def _built(block: Mapping[str, Any]) -> object:
    """The corpus of this package that a block names; None for a class from elsewhere, which may import anything."""
    module, _, name = block["class_path"].rpartition(".")
    if not module.startswith(f"{__package__}."):
        return None
    arguments = {
        key: _built(value) if isinstance(value, dict) and "class_path" in value else value
        for key, value in (block.get("init_args") or {}).items()
    }
    made: object = getattr(import_module(module), name)(**arguments)
    return made
