"""The digest of an experiment's configuration: the same as long as no value changes that can change a number."""

import hashlib
import importlib
import json
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from jsonargparse import ArgumentError, ArgumentParser

from depgen.errors import UserError
from depgen.training.class_paths import class_in_run, run_being_read

INITIAL_WEIGHTS: Mapping[str, int] = {"depgen.models.gilt.GiLT": 1, "depgen.models.itexp.ITEXP": 2}
"""The version of a class's initial weights, by class path; to be raised when they change and no argument does."""
TRAINER = "lightning.pytorch.trainer.trainer.Trainer"
_SECTIONS: dict[str, Any] = {}
"""Sections of `chosen_values` that were computed before, by name and settings."""
LINKED = "vocabulary_size"
"""The argument that the command line fills in from the data."""
WITHOUT_EFFECT = frozenset({
    "trainer.accelerator", "trainer.barebones", "trainer.default_root_dir", "trainer.detect_anomaly",
    "trainer.devices", "trainer.enable_autolog_hparams", "trainer.enable_checkpointing",
    "trainer.enable_model_summary", "trainer.enable_progress_bar", "trainer.log_every_n_steps", "trainer.logger",
    "trainer.model_registry", "trainer.num_nodes", "trainer.profiler", "trainer.reload_dataloaders_every_n_epochs",
    "trainer.strategy", "trainer.use_distributed_sampler", "data.workers", "data.eval_tokens_per_batch",
    "seed_everything", "resume_every_n_steps", "wandb",
})  # fmt: skip
"""Keys that make no other experiment, and the seed, which a result names by itself."""


def settings_digest(content: Mapping[str, Any], where: str) -> str:
    """The sha256, hex, of what the settings of an experiment ask for.

    It covers the resolved configuration: class paths, arguments, values as their types read them. Comments,
    names of files, the order of keys, values equal to their defaults, seeds, and keys that change no number do not
    enter it.

    Raises:
        UserError: a value is refused; `where` says whose.
    """
    try:
        chosen = chosen_values(content)
    except (ImportError, AttributeError, TypeError, ValueError, ArgumentError) as error:
        raise UserError(f"{where}: {error}") from error
    return hashlib.sha256(json.dumps(chosen, sort_keys=True, default=str).encode()).hexdigest()


def chosen_values(content: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a configuration that differ from their defaults and that can change a number, resolved."""
    sections = {name: _chosen_section(name, value) for name, value in content.items() if name not in WITHOUT_EFFECT}
    return {name: section for name, section in sections.items() if section != {}}


def _chosen_section(name: str, value: Any) -> Any:  # noqa: ANN401
    """One section of `chosen_values`, which many experiments share."""
    known = repr((name, value))
    if known in _SECTIONS:
        return _SECTIONS[known]
    section = value
    if name == "trainer":
        section = _chosen_arguments(TRAINER, _resolved(TRAINER, value or {}), name)
    elif isinstance(value, Mapping) and "class_path" in value:
        path = _name(value["class_path"])
        arguments = _resolved(path, value.get("init_args") or {})
        section = {"class_path": path, "init_args": _chosen_arguments(path, arguments, name)}
    _SECTIONS[known] = section
    return section


def _resolved(class_path: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments of a class, each as its type reads it; nested classes have theirs too."""
    # whoever builds the class refuses what is missing
    parsed = _parser(class_path).parse_object({"value": deepcopy(dict(arguments))}, _skip_required=True).as_dict()
    values: dict[str, Any] = parsed.get("value") or {}
    return values


def _chosen_arguments(class_path: str, resolved: Mapping[str, Any], section: str = "") -> dict[str, Any]:
    """The resolved arguments of a class that differ from their defaults, and the version of its initial weights."""
    defaults = _defaults(class_path)
    values = {name: _chosen(each) for name, each in resolved.items() if f"{section}.{name}" not in WITHOUT_EFFECT}
    chosen = {name: each for name, each in values.items() if name not in defaults or each != defaults[name]}
    if version := INITIAL_WEIGHTS.get(class_path):
        chosen["initial weights"] = f"version {version}"
    return chosen


def _chosen(value: Any) -> Any:  # noqa: ANN401
    """A resolved value, with the chosen arguments of every class in it."""
    if isinstance(value, Mapping):
        if "class_path" not in value:
            return {name: _chosen(part) for name, part in value.items()}
        path = _name(value["class_path"])
        others = {**(value.get("init_args") or {}), **(value.get("dict_kwargs") or {})}
        return {"class_path": path, "init_args": _chosen_arguments(path, others)}
    if isinstance(value, (list, tuple)):
        return [_chosen(part) for part in value]
    return value


@cache
def _parser(class_path: str) -> ArgumentParser:
    """What reads the arguments of a class."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(_class(class_path), "value", skip={LINKED}, fail_untyped=False, sub_configs=True)
    return parser


@cache
def _defaults(class_path: str) -> dict[str, Any]:
    """The defaults of a class's arguments, as `_chosen` has them."""
    defaults: dict[str, Any] = _parser(class_path).get_defaults().as_dict().get("value") or {}
    return {name: _chosen(value) for name, value in defaults.items()}


@cache
def _name(class_path: str) -> str:
    """The module and name of a class, whatever path it was named by."""
    named = _class(class_path)
    return f"{named.__module__}.{named.__qualname__}"


def _class(class_path: str) -> Any:  # noqa: ANN401
    """The class that a path names; a run, while it is read, may name only those that `class_paths` allows."""
    run = run_being_read.get()
    if run is not None:
        return class_in_run(class_path, run)
    module, _, name = class_path.rpartition(".")
    return getattr(importlib.import_module(module), name)
