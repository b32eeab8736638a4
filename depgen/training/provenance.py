"""What a run was made with: versions, commit, hardware, seed."""

import os
import platform
import shlex
import socket
import subprocess
import sys
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

    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    found["torch"] = str(torch.__version__)  # the package's metadata may lack its build, such as +cu130
    return found


def commit() -> str | None:
    """The checkout's commit, with "+changes" where files of the package differ from it; None outside git."""
    here = os.path.dirname(os.path.abspath(depgen.__file__))

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", here, *arguments], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + (
            "+changes" if git("status", "--porcelain", "--untracked-files=no", "--", ".") else ""
        )
    except (OSError, subprocess.SubprocessError):
        return None


def hardware() -> dict[str, Any]:
    """Host, processor and accelerators."""
    import torch

    gpus = (
        [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        if torch.cuda.is_available()
        else []
    )
    return {
        "host": socket.gethostname(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpus": gpus,
    }
