"""A lock by which one process owns a run folder."""

import fcntl
import json
import logging
import os
import socket
from pathlib import Path
from types import TracebackType

from depgen.errors import UserError
from depgen.partial_files import is_alive, remove_parts

logger = logging.getLogger(__name__)


class RunLock:
    """Holds `folder/lock` with this process's id and host; as a context manager, or by `acquire` and `release`.

    A lock whose process is no more (on this host, judged by its id and its start time) is taken over.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "lock"

    def acquire(self) -> None:
        """Take the lock, and remove what killed processes have left half written in the folder.

        Raises:
            UserError: a live process holds it, or one on another host may.
        """
        while not self._acquired():
            logger.debug("The lock %s was given back while this process waited for it.", self.path)
        remove_parts(self.path.parent, "**/.*.part")

    def _acquired(self) -> bool:
        """Whether the file that was opened and locked is still the one at the path; if so, it is written."""
        with self.path.open("a+") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)  # for the look-and-write only: it would outlive us in forked workers
            if not self._is_at_path(stream.fileno()):
                return False
            stream.seek(0)
            text = stream.read()
            if text.strip():
                self._refuse_if_live(text)
            stream.seek(0)
            stream.truncate()
            json.dump(
                {"pid": os.getpid(), "host": socket.gethostname(), "process_start": _start_of(os.getpid())}, stream
            )
        return True

    def _is_at_path(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self.path.stat())
        except FileNotFoundError:
            return False

    def _refuse_if_live(self, text: str) -> None:
        try:
            holder = json.loads(text)
            pid, host, start = int(holder["pid"]), str(holder["host"]), holder["process_start"]
        except (ValueError, KeyError, TypeError, RecursionError):
            logger.warning("The lock %s is unreadable, so it is taken over.", self.path)
            return
        if host != socket.gethostname():
            raise UserError(
                f"The run {self.path.parent} is locked by process {pid} on host {host}, out of reach from here. "
                f"If it is no longer running, delete {self.path}."
            )
        if pid != os.getpid() and is_alive(pid) and _start_of(pid) == start:
            raise UserError(
                f"The run {self.path.parent} is being trained by process {pid} on this host. Wait for it, or stop it."
            )
        if pid != os.getpid():
            logger.info("The lock of process %d, which is no more, is taken over.", pid)

    def release(self) -> None:
        """Give the lock back, if it is ours."""
        try:
            holder = json.loads(self.path.read_text())
        except (OSError, ValueError, RecursionError):
            return
        if holder.get("pid") == os.getpid() and holder.get("host") == socket.gethostname():
            self.path.unlink(missing_ok=True)

    def __enter__(self) -> "RunLock":
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _start_of(pid: int) -> str | None:
    """When a process started, in the kernel's ticks; None where /proc does not say."""
    fields = _stat(pid)
    return fields[19] if len(fields) > 19 else None


def _stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat after the command's name: state first, start time at 19."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return []
