"""Where a number comes from: hardware, code, day, configuration; and which profile this machine calls for."""

import datetime
import hashlib
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path

from depgen.errors import UserError


def hardware() -> str:
    """The machine in words: its GPUs if torch sees any, else its processor and the cores at hand."""
    import torch

    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        return f"{count} x {torch.cuda.get_device_name(0)}"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"CPU {_processor()}, {cores} cores"


def _processor() -> str:
    """The processor's name, as the kernel has it where it says so."""
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def commit() -> str:
    """The commit of the code, with `+` where the tree differs from it; `unknown` outside a repository."""
    folder = Path(__file__).resolve().parent
    try:
        head = _git("rev-parse", "--short=12", "HEAD", folder=folder)
        changed = _git("status", "--porcelain", "--untracked-files=no", folder=folder)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if changed else "")


def _git(*arguments: str, folder: Path) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def today() -> str:
    """The day in UTC, ISO."""
    return datetime.datetime.now(tz=datetime.UTC).date().isoformat()


def config_digest(path: Path) -> str:
    """The sha256 of an experiment's YAML, hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def choose_profile(profiles: Sequence[str], profile: str | None = None) -> tuple[str, str]:
    """The profile to work at, and one line that says which and why.

    Unset, it is the only one of the table; else `paper` where torch finds a GPU and `small` elsewhere.

    Raises:
        UserError: the profile asked for is none of the table's.
    """
    profile = profile or None
    if profile is not None:
        if profile not in profiles:
            raise UserError(f"No profile {profile!r} here: expected one of {', '.join(profiles)}.")
        return profile, f"Profile {profile}: as asked for."
    if len(profiles) == 1:
        return profiles[0], f"Profile {profiles[0]}: the only one of this table."
    if found_gpu():
        return "paper", "Profile paper: a GPU was found (--profile small for the laptop's size)."
    return "small", "Profile small: no GPU was found (--profile paper for the paper's size)."


def found_gpu() -> bool:
    """Whether torch sees a CUDA device."""
    import torch

    return bool(torch.cuda.is_available())
