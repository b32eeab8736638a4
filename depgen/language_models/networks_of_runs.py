"""The network of a trained system, for another one that is built on it and fine-tunes it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from depgen.errors import UserError
from depgen.language_models.base import LanguageModel
from depgen.training.class_paths import class_in_run, known_classes_alone

_Kind = TypeVar("_Kind", bound=LanguageModel)
_NOT_BUILT_BY = ("optimizer", "scheduler", "_instantiator")


def architecture_of(content: Mapping[str, Any], kind: type[LanguageModel], *, origin: Path, expected: str) -> str:
    """The class and the settings that a system's network is built from, as JSON.

    Args:
        content: of a checkpoint.
        kind: what the system has to be.
        origin: the checkpoint's file, for messages.
        expected: the kind in words, with its article.

    Raises:
        UserError: the checkpoint is of another kind of system.
    """
    settings: dict[str, Any] = content.get("hyper_parameters") or {}
    kept = {name: value for name, value in settings.items() if not name.endswith(_NOT_BUILT_BY)}
    if _class_of(kept, kind) is None:
        raise UserError(
            f"{origin}: expected {expected}, found {kept.get('_class_path', 'another')}."
            " Name a run of one by data.init_args.encoder."
        )
    return json.dumps(kept, sort_keys=True)


def built(architecture: str, kind: type[_Kind]) -> _Kind:
    """The network of an architecture, with random weights."""
    from lightning.pytorch.cli import instantiate_module

    settings = json.loads(architecture)
    found = _class_of(settings, kind)
    if found is None:
        raise UserError(f"There is no {kind.__name__} {settings.get('_class_path')}: import it first.")
    network: _Kind = instantiate_module(
        found, {name: value for name, value in settings.items() if name != "_class_path"}
    )
    return network


def trained_encoder(content: Mapping[str, Any], kind: type[_Kind], *, origin: Path, expected: str) -> tuple[str, _Kind]:
    """The architecture of the system that a checkpoint holds, and the system with its weights.

    Args:
        content: of the checkpoint.
        kind: see `architecture_of`.
        origin: the checkpoint's file.
        expected: see `architecture_of`.

    Raises:
        UserError: the checkpoint is of another kind of system, or names classes that no run may name.
    """
    architecture = architecture_of(content, kind, origin=origin, expected=expected)
    with known_classes_alone(origin):
        encoder = built(architecture, kind)
    encoder.load_state_dict(content["state_dict"])
    return architecture, encoder


def _class_of(settings: Mapping[str, Any], kind: type[_Kind]) -> type[_Kind] | None:
    """The class that settings name, if it is of the kind and a run may name it."""
    try:
        named = class_in_run(str(settings.get("_class_path")), Path("checkpoint"))
    except UserError:
        return None
    return named if issubclass(named, kind) else None
