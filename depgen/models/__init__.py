"""The systems, one module each. Importing one imports no other: class paths name the module."""

import importlib
import pkgutil


def import_all() -> None:
    """Import every system, so that help lists them and their short names are found there."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
