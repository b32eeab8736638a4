"""Where things lie on disk: corpora, caches, runs and results, each under one environment variable."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from depgen.errors import MissingDataError, UserError, did_you_mean


def data_root() -> Path:
    """The folder of corpora: `$DEPGEN_DATA`, by default `./data`."""
    return _root("DEPGEN_DATA", "data")


def cache_root() -> Path:
    """The folder of what is made once, parsers and tables of corpora: `$DEPGEN_CACHE`, by default `~/.cache/depgen`."""
    return _root("DEPGEN_CACHE", "~/.cache/depgen")


def runs_root() -> Path:
    """The folder of run folders: `$DEPGEN_RUNS`, by default `./runs`."""
    return _root("DEPGEN_RUNS", "runs")


def results_root() -> Path:
    """The folder of result files: `$DEPGEN_RESULTS`, by default `./results`."""
    return _root("DEPGEN_RESULTS", "results")


def models_root() -> Path:
    """The folder of pretrained models, one folder each: `$DEPGEN_MODELS`, by default `./models`."""
    return _root("DEPGEN_MODELS", "models")


def _root(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or default).expanduser()  # an empty variable counts as unset


def below_runs(run: str) -> str:
    """A run's path below `$DEPGEN_RUNS`, where it lies there: what results may say on any machine."""
    path, root = Path(run).absolute(), runs_root().absolute()
    return str(path.relative_to(root)) if path.is_relative_to(root) else run


# -- what is read -----------------------------------------------------------------------------------------------------


def find_data(relative: str | Path, *, how_to_get: str) -> Path:
    """The path of a corpus file or folder; a relative path is sought under `$DEPGEN_DATA`.

    Raises:
        MissingDataError: nothing lies there.
    """
    relative = Path(relative).expanduser()
    path = data_root() / relative
    if path.exists():
        return path
    near = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    remedy = how_to_get if relative.is_absolute() else f"{how_to_get} Set DEPGEN_DATA to the folder of corpora."
    raise MissingDataError(f"No corpus at {path.absolute()}.{did_you_mean(path.name, near)} {remedy}")


def find_file(relative: str | Path, *, how_to_get: str) -> Path:
    """The path of a corpus file, as `find_data` finds it."""
    path = find_data(relative, how_to_get=how_to_get)
    if path.is_dir():
        raise UserError(f"{path}: expected a file, found a folder.")
    return path


def matching(folder: Path, pattern: str) -> list[Path]:
    """The files below a folder that a pattern such as `*/*.mrg` names, by path."""
    return sorted(path for path in folder.glob(pattern) if path.is_file())


def text_of_file(path: Path) -> str:
    """The text of a file in UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: expected UTF-8, found {error}. Copy the file again.") from error
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}.") from error


def json_object(path: Path, *, remedy: str) -> dict[str, Any]:
    """The names and values in a JSON file that was written here; `remedy` is what to do where it is damaged."""
    content = json_value(text_of_file(path), str(path), remedy=remedy)
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected a JSON object, found a {type(content).__name__}. {remedy}")
    return content


def json_value(text: str, where: str, *, remedy: str = "Mend it there, or copy the file again.") -> Any:  # noqa: ANN401
    r"""The value of a JSON text.

    >>> json_value('{"id": "1"}', "stories.jsonl:1")
    {'id': '1'}

    Raises:
        UserError: it is no JSON; names `where`, the file and the line, and the remedy.
    """
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"{where}: expected JSON, found: {error}. {remedy}") from error


# -- what is written --------------------------------------------------------------------------------------------------


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader, or a kill, sees either the old content or the new, never half of it.

    Of a link the file that it leads to is replaced; what is no regular file, such as `/dev/null`, is written into.
    """
    data = content.encode() if isinstance(content, str) else content
    path = path.resolve()
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def folder_written_whole(folder: Path) -> Iterator[Path]:
    """A folder to write into, which takes the place of `folder` when all is done; for one process at a time."""
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
    part.mkdir(parents=True)
    try:
        yield part
        shutil.rmtree(folder, ignore_errors=True)
        part.replace(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def made_once(path: Path, make: Callable[[], None], *, is_made: Callable[[], bool]) -> bool:
    """Makes what belongs into the cache unless it is there, and says whether this call did; other processes wait."""
    if is_made():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if is_made():  # by another process in the meantime
            return False
        make()
    return True


def check_output(path: Path) -> None:
    """Makes the folder of an `--output`, and sees that it can be written in. To be called before long work.

    Raises:
        UserError: the output is a folder itself.
        OSError: its folder can't be made, or written in.
    """
    if path.is_dir():
        raise UserError(f"--output {path} is a folder: name a file.")
    check_writable(path.parent)


def check_writable(folder: Path) -> None:
    """Makes a folder, and raises OSError unless it can be written in."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


# -- digests ----------------------------------------------------------------------------------------------------------


def file_sha256(path: Path) -> str:
    """The digest of a file's content, hex; computed once a process, and again once the file has changed."""
    now = path.stat()
    return _sha256(path.absolute(), now.st_ino, now.st_size, now.st_mtime_ns)


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
