"""Where things lie on disk: corpora, caches, runs and results, each under one environment variable."""

import os
from pathlib import Path

from depgen.errors import UserError


def data_root() -> Path:
    """The folder of corpora: `$DEPGEN_DATA`, by default `./data`."""
    return Path(os.environ.get("DEPGEN_DATA", "data")).expanduser()


def cache_root() -> Path:
    """The folder of trained parsers and annotated corpora: `$DEPGEN_CACHE`, by default `~/.cache/depgen`."""
    return Path(os.environ.get("DEPGEN_CACHE", "~/.cache/depgen")).expanduser()


def runs_root() -> Path:
    """The folder of run folders: `$DEPGEN_RUNS`, by default `./runs`."""
    return Path(os.environ.get("DEPGEN_RUNS", "runs")).expanduser()


def results_root() -> Path:
    """The folder of result files: `$DEPGEN_RESULTS`, by default `./results`."""
    return Path(os.environ.get("DEPGEN_RESULTS", "results")).expanduser()


def find_data(relative: str | Path, *, how_to_get: str) -> Path:
    """The path of a corpus file or folder; a relative path is sought under `$DEPGEN_DATA`.

    Raises:
        UserError: nothing lies there; the message says where it was sought, how to get it and which variable to set.
    """
    path = Path(relative).expanduser()
    if not path.is_absolute():
        path = data_root() / path
    if not path.exists():
        root = os.environ.get("DEPGEN_DATA")
        setting = f"DEPGEN_DATA is {root}" if root else "DEPGEN_DATA is not set, so ./data is used"
        raise UserError(
            f"No corpus at {path.absolute()} ({setting}). {how_to_get} Set DEPGEN_DATA to the folder of corpora."
        )
    return path


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader, or a kill, sees either the old content or the new, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    data = content.encode() if isinstance(content, str) else content
    with part.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(path)
