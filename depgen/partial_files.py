"""Files and folders that are written beside their place first, and take it when they are whole."""

import os
import re
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PART = re.compile(r"\..+\.(?P<pid>[0-9]+)(?:@(?P<host>[^/]+))?\.part")
A_DAY = 86400.0


def part_of(path: Path, *, kind: str = "part") -> Path:
    """Where a file or folder is written before it takes its place; parts that killed processes have left are removed.

    Its name holds the process and the host.
    """
    remove_parts(path.parent, f".{path.name}.*.part")
    return path.with_name(f".{path.name}.{os.getpid()}@{socket.gethostname()}.{kind}")


def remove_parts(folder: Path, pattern: str = ".*.part") -> None:
    """Removes what processes of this host that no longer run have left in a folder half written.

    Parts of other hosts go when they are a day old.
    """
    for path in folder.glob(pattern):
        found = _PART.fullmatch(path.name)
        with suppress(OSError):
            if found is not None and _is_left(path, int(found["pid"]), found["host"]):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _is_left(path: Path, pid: int, host: str | None) -> bool:
    if host not in (None, socket.gethostname()):
        return time.time() - path.stat().st_mtime > A_DAY
    return pid != os.getpid() and not is_alive(pid)


def is_alive(pid: int) -> bool:
    """Whether a process of this host runs; one that has ended and waits for its parent does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (ProcessLookupError, OverflowError):
        return False
    except (OSError, IndexError):  # another user's, or no /proc
        return True
    return state != "Z"


@contextmanager
def folder_written_whole(folder: Path) -> Iterator[Path]:
    """A folder to write into, which takes the place of `folder` when all is done; nothing changes if it is not."""
    part, old = part_of(folder), part_of(folder, kind="old")
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
