"""Import paths and arguments of earlier versions, which run folders, checkpoints and YAML files still name."""

import importlib
import sys
from collections.abc import Mapping
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NamedTuple

MOVED = {
    "depgen.document_language_model.DocumentLanguageModel": "depgen.language_models.document.DocumentLanguageModel",
    "depgen.evaluation.induced_trees.InducedTrees": "depgen.evaluation.trees.induced_trees.InducedTrees",
    "depgen.language_model.LanguageModel": "depgen.language_models.base.LanguageModel",
    "depgen.left_to_right.LeftToRight": "depgen.language_models.left_to_right.LeftToRight",
    "depgen.masked_language_model.MaskedLanguageModel": "depgen.language_models.masked.MaskedLanguageModel",
    "depgen.nn.mixture_attention.QueryKeyAttention": "depgen.models.dmlm.QueryKeyAttention",
}
"""From the import path of a class in earlier versions to its import path today."""


class Successor(NamedTuple):
    """What has taken the place of a plain value: an object by class path.

    Attributes:
        name: of the argument that takes the object.
        class_path: of the object.
        argument: of that class, which the former value becomes; None: the former value said whether there is one.
    """

    name: str
    class_path: str
    argument: str | None


FORMER_ARGUMENTS: Mapping[str, Mapping[str, Successor]] = {
    "depgen.backbones.transformer.Transformer": {
        "initial_std": Successor("init", "depgen.backbones.transformer.NormalInit", "std"),
        "initial_range": Successor("init", "depgen.backbones.transformer.StructFormerInit", "bound"),
    },
    "depgen.models.dmlm.DMLM": {
        "carry_window": Successor("carry_window", "depgen.nn.carried_window.CarriedWindow", None),
        "relation_weights": Successor("relation_weights", "depgen.trees.relation_weights.RelationWeights", "weights"),
    },
}
"""Arguments of earlier versions, by the import path of their class today and their former name."""


def settings_today(settings: Any) -> Any:  # noqa: ANN401 - a value of YAML
    """Settings with the arguments of earlier versions replaced by those of today, at every depth.

    Settings are those of a YAML file, or a checkpoint's hyper-parameters, whose class is `_class_path`.

    >>> block = {"class_path": "depgen.models.dmlm.DMLM", "init_args": {"window": 3, "carry_window": True}}
    >>> settings_today(block)["init_args"]
    {'window': 3, 'carry_window': 'depgen.nn.carried_window.CarriedWindow'}
    """
    if isinstance(settings, list):
        return [settings_today(each) for each in settings]
    if not isinstance(settings, Mapping):
        return settings
    found = {name: settings_today(value) for name, value in settings.items()}
    if isinstance(arguments := found.get("init_args"), dict):
        found["init_args"] = _arguments_today(str(found.get("class_path")), arguments)
    return _arguments_today(str(found["_class_path"]), found) if "_class_path" in found else found


def _arguments_today(class_path: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    former = FORMER_ARGUMENTS.get(class_path, {})
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        successor = former.get(name)
        if successor is None or (name == successor.name and _is_object(successor, value)):
            found[name] = value
        elif value is not None and value is not False:
            found[successor.name] = _object(successor, value)
        elif name == successor.name:
            found[name] = None
    return found


def _is_object(successor: Successor, value: object) -> bool:
    """Whether a value is an object of today: by class path, or as the arguments of a dataclass."""
    if isinstance(value, Mapping):
        (first,) = value.values() if value.keys() == {successor.argument} else [None]
        return "class_path" in value or isinstance(first, Mapping)
    return isinstance(value, str)


def _object(successor: Successor, value: object) -> Any:  # noqa: ANN401
    if successor.argument is None:
        return successor.class_path
    return {"class_path": successor.class_path, "init_args": {successor.argument: value}}


class FormerModules:
    """Finds and loads the modules of `MOVED` that no longer exist."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:  # noqa: ANN401
        """The spec of a former module; None for any other name."""
        return ModuleSpec(name, self) if name in {each.rpartition(".")[0] for each in MOVED} else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """None: Python makes the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Let the module's attributes be looked up in `MOVED`."""
        module.__getattr__ = partial(class_today, module.__name__)  # type: ignore[method-assign]


def class_today(module: str, name: str) -> Any:  # noqa: ANN401
    """The class that was `name` in `module`; also for the `__getattr__` of a module in which a class was renamed.

    Raises:
        AttributeError: there was no such class.
    """
    if (path := MOVED.get(f"{module}.{name}")) is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    module_today, _, name_today = path.rpartition(".")
    return getattr(importlib.import_module(module_today), name_today)


def keep_former_paths() -> None:
    """Let Python import the paths of `MOVED`; modules that exist are found first."""
    sys.meta_path.append(FormerModules())
