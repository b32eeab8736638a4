"""Which classes a run folder may name: its `config.yaml` and checkpoints may have been written by anybody.

Classes of depgen, torch, lightning and transformers, and of modules that are imported already: those that a user has
imported in Python, or named by `--modules`.
"""

import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from depgen.errors import UserError

KNOWN = ("depgen", "torch", "lightning", "transformers")
"""Packages whose classes any run may name."""
_DENIED = re.compile(r"Importing '([^']+)' is not allowed")

run_being_read: ContextVar[Path | None] = ContextVar("run_being_read", default=None)
"""The file of a run folder that objects are built from at the moment; None: only the user's own files."""


@contextmanager
def known_classes_alone(*files: Path) -> Iterator[None]:
    """Within it, jsonargparse imports only what run folders may name; without files there is no restriction.

    Raises:
        UserError: one of the files, from which objects are built, names another class.
    """
    from jsonargparse import ArgumentError, set_parsing_settings
    from jsonargparse._common import denying_import_path_entry, parsing_settings  # no public function restores a policy

    if not files:
        yield
        return
    token, before = run_being_read.set(files[0]), dict(parsing_settings)
    names = [name for name in sys.modules if all(part.isidentifier() for part in name.split("."))]
    imported = [name for name in names if denying_import_path_entry(name) is None]
    set_parsing_settings(import_path_denylist=["*"], import_path_allowlist=[*KNOWN, *imported])
    try:
        yield
    except (ValueError, ImportError, ArgumentError) as error:
        denied = _DENIED.search(str(error))
        if denied is None:
            raise
        raise _refusal(denied[1], files[0]) from error
    finally:
        parsing_settings.update(before)
        run_being_read.reset(token)


def class_in_run(name: str, path: Path) -> type:
    """The class that a file of a run folder names by its import path, imported.

    Raises:
        UserError: a run folder may not name it, or there is no such class.
    """
    module, _, last = name.rpartition(".")
    if name.partition(".")[0] not in KNOWN and module not in sys.modules:
        raise _refusal(name, path)
    try:
        imported = getattr(importlib.import_module(module), last)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"{path}: {name} can't be imported ({error}).") from error
    if not isinstance(imported, type):
        raise UserError(f"{path}: expected a class, found {name}, which is none.")
    return imported


def _refusal(name: str, path: Path) -> UserError:
    return UserError(
        f"{path}: expected classes of {', '.join(KNOWN)}, found {name}, whose code would run. If you trust that code, "
        f"say --modules {name.rpartition('.')[0]} (in Python: import it first)."
    )
