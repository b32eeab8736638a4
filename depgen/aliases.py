"""Import paths of earlier versions, which run folders, checkpoints and YAML files still name."""

import importlib
import sys
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "depgen.nn.mixture_attention.QueryKeyAttention": "depgen.models.dmlm.QueryKeyAttention",
}
"""From the import path of a class in earlier versions to its import path today."""


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
