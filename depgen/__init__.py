"""Dependency structure in language models: published systems trained, tested, compared and used through one command.

`depgen.load` gives a trained or pretrained system that scores, generates, parses or encodes texts; `depgen.build` a
model or data module from the blocks of an experiment's YAML. Nothing heavy is imported before a name is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from depgen.errors import UserError
    from depgen.evaluation.system import System, load
    from depgen.training.hyper_parameters import build

__version__ = "0.1.0"
__all__ = ["System", "UserError", "__version__", "build", "load"]

_MODULES = {
    "System": "depgen.evaluation.system",
    "UserError": "depgen.errors",
    "build": "depgen.training.hyper_parameters",
    "load": "depgen.evaluation.system",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name is
    if name not in _MODULES:
        raise AttributeError(f"module 'depgen' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
