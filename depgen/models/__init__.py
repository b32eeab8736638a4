"""The systems, one file each; all are imported so that class paths and checkpoints find them."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
