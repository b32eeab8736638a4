"""Whose runs may import any class and load any pickle: those that this user's own `fit` has written on this machine.

`fit` notes in `run.json` the digest of each file that it writes into the run folder, and signs these notes by a key
that only this user can read (`$DEPGEN_CACHE/signing-<user>.key`). A configuration or checkpoint whose content is not
noted there, or whose notes are signed by another key, may have been written by anybody. Unless the user trusts it, it
names classes of `KNOWN` modules alone, which is checked before anything is imported, and no pickle is loaded for it.
"""

import hashlib
import hmac
import importlib
import json
import logging
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from depgen.errors import UserError
from depgen.locations import cache_root, file_sha256, locked, write_atomically
from depgen.training.runs import read_record, run_of_file, update_record
from depgen.yaml_files import read_settings

logger = logging.getLogger(__name__)

OPTION = "--trust-run"
KNOWN = (
    "depgen", "torch.optim", "lightning.pytorch.callbacks", "lightning.pytorch.loggers",
    "lightning.pytorch.strategies", "lightning.pytorch.plugins", "lightning.fabric.plugins",
)  # fmt: skip
"""Modules whose classes any run may name."""
ENTRY = "written_here"
"""Where `run.json` keeps the digests and their signature."""
_NOTES = 2
"""Digests kept of each file: of the one in place, and of the one that is about to replace it."""
_DENIED = re.compile(r"Importing '([^']+)' is not allowed")

_trusts_all: ContextVar[bool] = ContextVar("_trusts_all", default=False)
_untrusted: ContextVar[Path | None] = ContextVar("_untrusted", default=None)
_trusted_runs = set[Path]()


# -- what the user's own fit has written ------------------------------------------------------------------------------


def note_written(run: Path, files: Mapping[str, str]) -> None:
    """Notes in `run.json` that this user's `fit` is about to put files into the run folder.

    To be called before a file takes its place: of a file that is replaced both digests count, so that a kill at any
    moment leaves a run that is trusted.

    Args:
        run: the run folder.
        files: the digests (sha256, hex) of their content, by their path in the run folder.
    """
    key = _key()
    if key is None:
        return
    notes = dict(_notes(run) or {})
    for name, digest in files.items():
        notes[name] = [digest, *(each for each in notes.get(name, []) if each != digest)][:_NOTES]
    update_record(run, {ENTRY: {"files": notes, "signature": _signature(key, notes)}})


def is_own(path: Path) -> bool:
    """Whether a file in a run folder was written there by this user's own `fit` and has not changed since."""
    run = run_of_file(path)
    if run is None or not path.is_file():
        return False
    notes = _notes(run)
    return bool(notes) and any(file_sha256(path) in each for each in (notes or {}).values())


def _notes(run: Path) -> dict[str, list[str]] | None:
    """The digests that `run.json` holds; None where there are none that this user has signed."""
    entry = read_record(run).get(ENTRY) if (run / "run.json").exists() else None
    key = _key()
    match entry:
        case {"files": dict(files), "signature": str(signature)} if key is not None:
            return files if hmac.compare_digest(_signature(key, files), signature) else None
    return None


def _signature(key: bytes, notes: Mapping[str, list[str]]) -> str:
    return hmac.new(key, json.dumps(notes, sort_keys=True).encode(), "sha256").hexdigest()


def _key() -> bytes | None:
    """This user's key, made where there is none; None where the cache holds no key that is this user's alone."""
    path = cache_root() / f"signing-{os.getuid()}.key"
    try:
        if not path.exists():
            with locked(path):
                if not path.exists():
                    _make_key(path)
        found = path.stat()
        if found.st_uid == os.getuid() and not found.st_mode & 0o077:
            return path.read_bytes()
        _warn_once(f"{path} can be read by others or is another user's, so that it signs no run: delete it.")
    except (OSError, UserError) as error:
        _warn_once(f"Runs are not signed as this user's own: {error}")
    return None


@cache
def _warn_once(message: str) -> None:
    logger.warning("%s", message)


def _make_key(path: Path) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
        stream.write(secrets.token_bytes(32))
    part.replace(path)


def write_settings(run: Path, settings: Mapping[str, Any]) -> None:
    """Writes a run's `config.yaml`; one that was the user's own, or that did not exist, is the user's own again."""
    path, text = run / "config.yaml", yaml.safe_dump(settings, sort_keys=False)
    if not path.exists() or is_own(path):
        note_written(run, {path.name: hashlib.sha256(text.encode()).hexdigest()})
    write_atomically(path, text)


def lengthen(run: Path, lengths: Mapping[str, int]) -> None:
    """Let a run, finished or not, train for more epochs.

    Args:
        run: its folder.
        lengths: the settings of `config.yaml` that say how long it trains, by dotted name.
    """
    settings = read_settings(run / "config.yaml")
    for name, epochs in lengths.items():
        *sections, last = name.split(".")
        section = settings
        for each in sections:
            section = section[each]
        section[last] = epochs
    write_settings(run, settings)
    update_record(run, {"finished": None})


# -- what the user trusts ---------------------------------------------------------------------------------------------


@contextmanager
def all_runs_trusted() -> Iterator[None]:
    """Within it every run is trusted: what `--trust-run` says."""
    token = _trusts_all.set(True)
    try:
        yield
    finally:
        _trusts_all.reset(token)


def trust(path: Path) -> None:
    """Trust all files of the run that a file is of, or of the folder of a lone checkpoint, until this process ends."""
    _trusted_runs.add((run_of_file(path) or path.parent).resolve())


def is_trusted(path: Path) -> bool:
    """Whether a configuration or checkpoint may name any class: the user's own, or one that the user trusts."""
    folder = run_of_file(path) or path.parent
    return _trusts_all.get() or folder.resolve() in _trusted_runs or is_own(path)


def pickles_refused_for() -> Path | None:
    """The file that is not trusted and that objects are built from at the moment; None where there is none."""
    return _untrusted.get()


@contextmanager
def classes_checked(*files: Path, also: Iterable[str] = ()) -> Iterator[None]:
    """Within it, classes named by files that are not trusted are imported from the `KNOWN` modules alone.

    Args:
        files: the configuration of a run and its checkpoint, from which objects are built; without any, what was
            checked before stays checked.
        also: import paths that the user has named, in a YAML file that is no run's or on the command line.

    Raises:
        UserError: another class is named; says by which file, and how the user says that it is to be trusted.
    """
    from jsonargparse import ArgumentError

    if not files:
        yield
        return
    doubtful = next((path for path in files if not is_trusted(path)), None)
    token = _untrusted.set(doubtful)
    try:
        with _policy([*KNOWN, *also] if doubtful is not None else None):
            yield
    except (ValueError, ImportError, ArgumentError) as error:
        denied = _DENIED.search(str(error)) if doubtful is not None else None
        if denied is None:
            raise
        raise refusal(denied[1], _naming(denied[1], files)) from error
    finally:
        _untrusted.reset(token)


def refusal(name: str, path: Path) -> UserError:
    """What is said of a class that a file names without being trusted."""
    return UserError(
        f"{path}: expected classes of depgen, of torch.optim or of Lightning's callbacks, loggers, strategies and "
        f"plugins, found {name}, whose code would run. This run was written, or edited, by another user, on another "
        f"machine or with another DEPGEN_CACHE. If you trust whoever wrote it, say {OPTION} (in Python: "
        "depgen.load(run, trust=True))."
    )


def check_class(name: str, path: Path) -> None:
    """Raises UserError where a file that is not trusted names a class outside the `KNOWN` modules.

    Args:
        name: the class's path.
        path: the checkpoint or configuration.

    Raises:
        UserError: it does.
    """
    if not any(name.startswith(f"{each}.") for each in KNOWN) and not is_trusted(path):
        raise refusal(name, path)


def class_at(name: str, path: Path) -> type:
    """The class that a file names by its import path, imported.

    Raises:
        UserError: there is no such class.
    """
    module, _, last = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), last)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(
            f"{path}: {name} can't be imported ({error}). Start Python where its module is found, as in training."
        ) from error
    if not isinstance(found, type):
        raise UserError(f"{path}: expected a class, found {name}, which is none.")
    return found


def _naming(name: str, files: tuple[Path, ...]) -> Path:
    """The file that names a class: the one that holds the name as text, or else the last."""
    return next((path for path in files if path.is_file() and name.encode() in path.read_bytes()), files[-1])


_outside: ContextVar[dict[str, Any] | None] = ContextVar("_outside", default=None)
"""jsonargparse's settings as they are where no run is opened."""


@contextmanager
def _policy(allowed: list[str] | None) -> Iterator[None]:
    """Within it, jsonargparse imports from these modules alone, or (None) from all that it did outside."""
    from jsonargparse import set_parsing_settings
    from jsonargparse._common import parsing_settings  # private: no public function takes a policy back

    before, outside = dict(parsing_settings), _outside.get()
    token = _outside.set(outside if outside is not None else before)
    try:
        if allowed is not None:
            set_parsing_settings(import_path_denylist=["*"], import_path_allowlist=allowed)
        elif outside is not None:
            parsing_settings.update(outside)
        yield
    finally:
        parsing_settings.update(before)
        _outside.reset(token)
