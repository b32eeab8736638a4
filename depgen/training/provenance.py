"""What a run was made with: versions, commit, hardware, seed."""

import os
import platform
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import depgen

PACKAGES = ("depgen", "torch", "lightning", "jsonargparse", "torchmetrics", "datasets", "spacy", "supar", "numpy")


def describe_run(experiment: str, *, seed: int | None) -> dict[str, Any]:
    """What `run.json` says at a run's start."""
    return {
        "experiment": experiment,
        "started": datetime.now(UTC).isoformat(),
        "finished": None,
        "command": shlex.join(sys.argv),
        "seed": seed,
        "commit": commit(),
        "versions": versions(),
        "hardware": hardware(),
    }


def versions() -> dict[str, str]:
    """Python's version and those of the installed packages that results depend on, torch's with its build."""
    import torch

    numbers = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            numbers[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    numbers["torch"] = str(torch.__version__)  # the package's metadata may lack its build, such as +cu130
    return numbers


def commit() -> str | None:
    """The checkout's commit, with "+changes" where files of the package differ from it; None outside git."""
    here = os.path.dirname(os.path.abspath(depgen.__file__))

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", here, *arguments], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".")
        return git("rev-parse", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def hardware() -> dict[str, Any]:
    """Host, processor and accelerators."""
    import torch

    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "host": socket.gethostname(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpus": gpus,
    }


def hardware_in_words(record: Mapping[str, Any]) -> str:
    """The machine of a run, from what `run.json` says of it.

    >>> hardware_in_words({"gpus": [], "cpus": 2, "threads": 1, "machine": "x86_64"})
    'CPU (x86_64), 2 cores, 1 thread'
    """
    gpus = [str(name) for name in record.get("gpus") or ()]
    if gpus:
        return ", ".join(f"{gpus.count(name)} x {name}" for name in dict.fromkeys(gpus))
    threads = record.get("threads", "?")
    cores = f"{record.get('cpus', '?')} cores, {threads} thread{'' if threads == 1 else 's'}"
    return f"CPU ({record.get('machine', 'unknown')}), {cores}"


def short_commit(commit: object) -> str:
    """Twelve digits of a commit, with `+` where files differed from it; `unknown` where nothing is known.

    >>> short_commit("0123456789abcdef0123456789abcdef01234567+changes")
    '0123456789ab+'
    """
    digits, _, changed = str(commit or "unknown").partition("+")
    return digits[:12] + ("+" if changed else "")


def today() -> str:
    """The day in UTC, ISO."""
    return datetime.now(UTC).date().isoformat()
