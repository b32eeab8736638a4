"""Refuses an experiment whose corpus is not at hand, before anything heavy is imported."""

import logging
from collections.abc import Mapping, Sequence
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

from depgen.data.corpus import Corpus, Split
from depgen.errors import MissingDataError
from depgen.yaml_files import read_yaml, yaml_value

logger = logging.getLogger(__name__)


def check_corpus(experiments: Sequence[Path], options: Mapping[str, str] | None = None) -> None:
    """Reads the first document of what an experiment trains and validates on, if its corpus has a folder or a dataset.

    Of a corpus that reads another one, only the training split of that one is read: it may draw its own splits.
    Settings that are wrong in another way are left to the parser of the command line, which names them, and so are
    those that change a class. A missing test split is said in the log, since training needs none.

    Args:
        experiments: YAML files; a later one changes values of those before it.
        options: values of the command line by their dotted names, such as `data.init_args.corpus.init_args.folder`.

    Raises:
        MissingDataError: a file is missing.
    """
    try:
        settings = reduce(_changed, map(read_yaml, experiments))
        for name, value in (options or {}).items():
            _set(settings, name.split("."), yaml_value(value, name))
    except (ValueError, TypeError, AttributeError, LookupError, ImportError):
        return
    check_settings(settings)
    try:
        check_settings(settings, ("test",))
    except MissingDataError as error:
        logger.warning("The test split is missing. Training needs none, but `depgen test` will fail: %s", error)


def check_settings(settings: Any, splits: Sequence[Split] = ("train", "valid")) -> None:  # noqa: ANN401 - of a file
    """Reads the first document of each split of the corpus in `data`, or in `corpus` itself; see `check_corpus`.

    Args:
        settings: of an experiment, or of a treebank that judges trees.
        splits: those that are needed.

    Raises:
        MissingDataError: a file is missing.
    """
    try:
        block = settings["corpus"] if "corpus" in settings else settings["data"]["init_args"]["corpus"]
        splits = ("train",) if "corpus" in (block.get("init_args") or {}) else splits
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


def _changed(settings: Any, changes: Any) -> Any:  # noqa: ANN401 - values of YAML
    """Settings with other values; raises LookupError where a class is another one."""
    if not isinstance(settings, dict) or not isinstance(changes, dict):
        return changes
    if "class_path" in settings and changes.get("class_path", settings["class_path"]) != settings["class_path"]:
        raise LookupError(changes["class_path"])
    return settings | {name: _changed(settings.get(name), value) for name, value in changes.items()}


def _set(block: Any, names: Sequence[str], value: object) -> None:  # noqa: ANN401 - a value of YAML
    """Set one value; `init_args` may be left out of its name, as on the command line."""
    first, *others = names
    if first == "class_path":
        raise LookupError(value)
    if "init_args" in block and first != "init_args":
        block = block["init_args"]
    if others:
        _set(block[first], others, value)
    else:
        block[first] = value


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
