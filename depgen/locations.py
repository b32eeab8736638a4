"""Where things lie on disk: corpora, caches, runs and results, each under one environment variable."""

import errno
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from depgen.errors import MissingDataError, UserError, did_you_mean
from depgen.partial_files import part_of


def data_root() -> Path:
    """The folder of corpora: `$DEPGEN_DATA`, by default `./data`."""
    return _root("DEPGEN_DATA", "data")


def cache_root() -> Path:
    """The folder of trained parsers and annotated corpora: `$DEPGEN_CACHE`, by default `~/.cache/depgen`."""
    return _root("DEPGEN_CACHE", "~/.cache/depgen")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock of a file or folder of the cache, and makes its parent folder.

    Raises:
        UserError: nothing can be written there, or its disk becomes full meanwhile.
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
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise UserError(
            f"The disk of the cache {path.parent.absolute()} is full ({os.strerror(error.errno)}). Make room there, or "
            "set DEPGEN_CACHE to a folder on another disk."
        ) from error
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
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: expected JSON, found {error}. {remedy}") from error
    content = json_value(text, str(path), remedy=remedy)
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected a JSON object, found a {type(content).__name__}. {remedy}")
    return content


def json_value(text: str, where: str, *, remedy: str = "Mend it there, or copy the file again.") -> Any:  # noqa: ANN401
    r"""The value of a JSON text.

    >>> json_value('{"id": "1"}', "stories.jsonl:1")
    {'id': '1'}

    Args:
        text: of a file, or a line of it.
        where: file and line, for messages.
        remedy: what the user can do about it.

    Raises:
        UserError: it is no JSON, nests too deep, holds a number of thousands of digits, half a surrogate pair, or a
            field twice in an object.
    """

    def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise UserError(f"{where}: expected fields of different names, found {twice!r} twice. {remedy}")
        return found

    try:
        content = json.loads(text, object_pairs_hook=each_once)
        if "\\u" in text:
            json.dumps(content, ensure_ascii=False).encode()
    except UserError:
        raise
    except json.JSONDecodeError as error:
        place = (
            f"at line {error.lineno}, character {error.colno}" if error.lineno > 1 else f"at character {error.colno}"
        )
        raise UserError(f"{where}: expected JSON, found: {error.msg} {place}. {remedy}") from error
    except RecursionError as error:
        raise UserError(f"{where}: expected JSON, found lists or objects nested too deep. {remedy}") from error
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise UserError(f"{where}: expected text, found {half}, half of a surrogate pair. {remedy}") from error
    except ValueError as error:  # Python's limit to the digits of a number
        raise UserError(f"{where}: expected JSON, found a number that is too long ({error}). {remedy}") from error
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
            raise MissingDataError(f"No corpus at {path}.{_meant(path)} {how_to_get}")
        return path
    path = data_root() / path
    if not path.exists():
        root = os.environ.get("DEPGEN_DATA")
        setting = f"DEPGEN_DATA is {root}" if root else "DEPGEN_DATA is not set, so ./data is used"
        raise MissingDataError(
            f"No corpus at {path.absolute()} ({setting}).{_meant(path)} {how_to_get} Set DEPGEN_DATA to the folder of "
            "corpora."
        )
    return path


def _meant(path: Path) -> str:
    """A question for what is called most like a missing file or folder, where it is missing."""
    return did_you_mean(path.name, (each.name for each in path.parent.iterdir())) if path.parent.is_dir() else ""


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
        UserError: the pattern is empty, or is an absolute path.
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
    """Raises UserError unless `--output` names what can be written to. To be called before long work.

    Raises:
        UserError: a folder has that name, its own folder can't be written, or a device or pipe may not be written to.
    """
    if path.is_dir():
        raise UserError(f"--output {path} is a folder: name a file.")
    if not _is_written_in_place(path):
        check_writable(_target(path).parent, otherwise="name a file elsewhere by --output")
    elif not os.access(path, os.W_OK):
        raise UserError(f"--output {path} can't be written: change its rights, or name a file.")


def file_sha256(path: Path) -> str:
    """The digest of a file's content, hex; computed once a process, and again once the file has changed.

    A file written within the last second is always read: what is written next may have the same time and size.
    """
    found = path.stat()
    if time.time_ns() - found.st_mtime_ns < _YOUNG:
        return _sha256.__wrapped__(path, 0, 0, 0)
    return _sha256(path.absolute(), found.st_ino, found.st_size, found.st_mtime_ns)


_YOUNG = 1_000_000_000
"""Nanoseconds after which a change of a file changes its time."""


@cache
def _sha256(path: Path, inode: int, size: int, changed: int) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def lines_sha256(lines: Iterable[str]) -> str:
    r"""The digest of lines of text, hex: by such the caches know what they hold.

    >>> lines_sha256(["a", "b"]) == hashlib.sha256(b"a\nb").hexdigest()
    True
    """
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes a file so that a reader, or a kill, sees either the old content or the new, never half of it.

    A link stays, and the file that it leads to is written. A file that exists keeps its mode and, where possible, its
    owner. What is no regular file, such as a device or a pipe, is never replaced: the content is written into it.
    """
    data = content.encode() if isinstance(content, str) else content
    if _is_written_in_place(path):
        _write_into(path, data)
        return
    path = _target(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = part_of(path)
    try:
        with part.open("wb") as stream:
            _keep_rights(path, stream.fileno())
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)  # of a full disk it would take what is left
        raise OSError(error.errno, error.strerror, str(path)) from error


def _is_written_in_place(path: Path) -> bool:
    """Whether a path is a device, a pipe or a socket, or leads to an open file of a process, such as /dev/stdout."""
    try:
        kind = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(kind) or (path.is_symlink() and str(path.absolute()).startswith(("/dev/", "/proc/")))


def _write_into(path: Path, data: bytes) -> None:
    try:
        with path.open("ab", buffering=0) as stream:
            rest = memoryview(data)
            while rest:
                rest = rest[stream.write(rest) :]
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _target(path: Path) -> Path:
    """The file that a chain of links leads to, whether it exists or not.

    Raises:
        UserError: the links lead round in a circle.
    """
    if not path.is_symlink():
        return path
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise UserError(f"{path} is a link that leads to itself: name another file.") from error


def _keep_rights(path: Path, descriptor: int) -> None:
    """Give an open file the mode and the owner of the one at a path, where there is one."""
    with suppress(OSError):
        there = path.stat()
        os.fchmod(descriptor, stat.S_IMODE(there.st_mode))
        os.fchown(descriptor, there.st_uid, there.st_gid)


def text_of_file(path: Path) -> str:
    """The text of a file.

    Raises:
        UserError: there is none, or it is not in UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: expected a text in UTF-8, found: {error}. Copy the file again.") from error
