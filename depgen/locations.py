"""Where things lie on disk: corpora, caches, runs and results, each under one environment variable."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock

from depgen.errors import MissingDataError, UserError


def data_root() -> Path:
    """The folder of corpora: `$DEPGEN_DATA`, by default `./data`."""
    return _root("DEPGEN_DATA", "data")


def cache_root() -> Path:
    """The folder of trained parsers and annotated corpora: `$DEPGEN_CACHE`, by default `~/.cache/depgen`."""
    return _root("DEPGEN_CACHE", "~/.cache/depgen")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock beside a file or folder of the cache, and makes the folder that it lies in.

    Raises:
        UserError: nothing can be written there.
    """
    lock = FileLock(f"{path}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise UserError(
            f"The cache {path.parent.absolute()} can't be written ({error.strerror or error}). Change its rights, or "
            "set DEPGEN_CACHE to another folder."
        ) from error
    try:
        yield
    finally:
        lock.release()


def made_once(folder: Path, make: Callable[[], None], *, is_made: Callable[[], bool]) -> bool:
    """Makes what belongs into the cache unless it is there, and says whether this call did; other processes wait.

    Raises:
        UserError: the cache can't be written.
    """
    if is_made():
        return False
    with locked(folder):
        if is_made():  # by another process in the meantime
            return False
        make()
    return True


def json_object(path: Path, *, remedy: str) -> dict[str, Any]:
    """The names and values in a JSON file that was written here.

    Raises:
        UserError: it can't be read or holds anything else; what to do about it is the remedy.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: expected JSON, found {error}. {remedy}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected a JSON object, found a {type(content).__name__}. {remedy}")
    return content


def runs_root() -> Path:
    """The folder of run folders: `$DEPGEN_RUNS`, by default `./runs`."""
    return _root("DEPGEN_RUNS", "runs")


OTHER_RUNS = "set DEPGEN_RUNS to another folder"
"""What else helps where no run can be written."""


def below_runs(run: str) -> str:
    """A run's path below `$DEPGEN_RUNS`, where it lies there: what results may say on any machine."""
    path, root = Path(run).absolute(), runs_root().absolute()
    return str(path.relative_to(root)) if path.is_relative_to(root) else run


def results_root() -> Path:
    """The folder of result files: `$DEPGEN_RESULTS`, by default `./results`."""
    return _root("DEPGEN_RESULTS", "results")


def models_root() -> Path:
    """The folder of pretrained models, one folder each: `$DEPGEN_MODELS`, by default `./models`."""
    return _root("DEPGEN_MODELS", "models")


def _root(variable: str, default: str) -> Path:
    folder = os.environ.get(variable) or default  # an empty variable counts as unset
    try:
        return Path(folder).expanduser()
    except RuntimeError as error:
        raise UserError(f"There is no home folder, which {folder} lies in: set {variable} to another.") from error


def find_data(relative: str | Path, *, how_to_get: str) -> Path:
    """The path of a corpus file or folder; a relative path is sought under `$DEPGEN_DATA`.

    Raises:
        MissingDataError: nothing lies there; the message says where it was sought, how to get it and which variable to
            set for a relative path.
    """
    path = Path(relative).expanduser()
    if path.is_absolute():
        if not path.exists():
            raise MissingDataError(f"No corpus at {path}. {how_to_get}")
        return path
    path = data_root() / path
    if not path.exists():
        root = os.environ.get("DEPGEN_DATA")
        setting = f"DEPGEN_DATA is {root}" if root else "DEPGEN_DATA is not set, so ./data is used"
        raise MissingDataError(
            f"No corpus at {path.absolute()} ({setting}). {how_to_get} Set DEPGEN_DATA to the folder of corpora."
        )
    return path


def find_file(relative: str | Path, *, how_to_get: str) -> Path:
    """The path of a corpus file, as `find_data` finds it.

    Raises:
        UserError: nothing lies there, or a folder.
    """
    path = find_data(relative, how_to_get=how_to_get)
    if path.is_dir():
        raise UserError(f"{path}: expected a file, found a folder.")
    return path


def matching(folder: Path, pattern: str) -> list[Path]:
    """The files below a folder that a pattern such as `*/*.mrg` names, by path.

    Raises:
        UserError: the pattern is empty, or names a place of its own.
    """
    if not pattern or Path(pattern).is_absolute():
        raise UserError(
            f"Expected a pattern of files below {folder}, such as *.mrg, found {pattern!r}. A folder has an option of "
            "its own."
        )
    return sorted(path for path in folder.glob(pattern) if path.is_file())


def check_writable(folder: Path, *, otherwise: str) -> None:
    """Make a folder and see that a file can be written in it.

    Args:
        folder: with those it lies in.
        otherwise: what the user can do where the folder can't be mended.

    Raises:
        UserError: it can't.
    """
    probe = folder / f".writable-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"depgen")
    except OSError as error:
        raise UserError(
            f"The folder {folder.absolute()} can't be written ({error.strerror}: {error.filename}). "
            f"Make room or change its rights, or {otherwise}."
        ) from error
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)


def check_output(path: Path) -> None:
    """See that a file can be written where `--output` says; to be asked before long work.

    Raises:
        UserError: a folder has that name, or the file's own folder can't be written.
    """
    if path.is_dir():
        raise UserError(f"--output {path} is a folder: name a file.")
    check_writable(path.parent, otherwise="name a file elsewhere by --output")


def file_sha256(path: Path) -> str:
    """The digest of a file's content, hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def lines_sha256(lines: Iterable[str]) -> str:
    r"""The digest of lines of text, hex: by such the caches know what they hold.

    >>> lines_sha256(["a", "b"]) == hashlib.sha256(b"a\nb").hexdigest()
    True
    """
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader, or a kill, sees either the old content or the new, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    data = content.encode() if isinstance(content, str) else content
    try:
        with part.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)  # of a full disk it would take what is left
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def folder_written_whole(folder: Path) -> Iterator[Path]:
    """A folder to write into, which takes the place of `folder` when all is done; nothing changes if it is not."""
    part, old = (folder.with_name(f".{folder.name}.{os.getpid()}.{kind}") for kind in ("part", "old"))
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        yield part
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    if folder.exists():
        folder.replace(old)
    part.replace(folder)
    shutil.rmtree(old, ignore_errors=True)


def text_of_file(path: Path) -> str:
    """The text of a file.

    Raises:
        UserError: there is none, or it is not in UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: expected a text in UTF-8, found: {error}. Copy the file again.") from error
