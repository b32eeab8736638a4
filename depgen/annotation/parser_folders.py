"""Where trained parsers lie, what is written beside them, and what a stranger is told when one is missing."""

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from depgen.errors import UserError
from depgen.locations import cache_root

DESCRIPTION = "parser.json"
"""Scheme, kind, options and fingerprint of the training."""

SCORES = "scores.json"
"""Attachment scores and speed; no part of the parser's fingerprint."""


def parser_folder(name: str) -> Path:
    """The folder of a trained parser: `$DEPGEN_CACHE/parsers/<name>`."""
    return cache_root() / "parsers" / name


def find_parser(name: str, *, packages: bool = False) -> Path:
    """The folder of a parser: a path, the name of one that was trained here, or (if asked) an installed package.

    Raises:
        UserError: nothing is there; says where it was looked for, and the command that trains one.
    """
    candidates = [parser_folder(name)]
    if "/" in name or "." in name or name.startswith("~"):
        candidates.insert(0, Path(name).expanduser())
    for candidate in candidates:
        if candidate.exists():
            return candidate
    if packages and name.isidentifier() and (spec := find_spec(name)) and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    places = [str(candidate.absolute()) for candidate in candidates]
    if packages:
        places.append(f"an installed package {name!r}")
    experiment = f"experiments/parser_{Path(name).name}.yaml"
    raise UserError(
        f"No parser {name!r}; looked for {' and '.join(places)}. Train it by `make parser` or `depgen train-parser "
        f"--config {experiment}`, or set DEPGEN_CACHE to the folder whose parsers/ has it."
    )


def read_description(folder: Path) -> dict[str, Any]:
    """What was written beside a parser that was trained here; empty for others."""
    path = folder / DESCRIPTION
    if not path.is_file():
        return {}
    try:
        description: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise UserError(f"{path}: expected JSON, found {error}. Train the parser again with --overwrite.") from error
    return description


def files_digest(folder: Path) -> str:
    """A digest of every file's name and content, scores and compiled Python excepted."""
    digest = hashlib.sha256()
    files = [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        if path.name != SCORES and "__pycache__" not in path.parts:
            name = path.name if folder.is_file() else path.relative_to(folder).as_posix()
            digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()
