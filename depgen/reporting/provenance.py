"""Where a number comes from: machine, day and commit."""

import datetime
from collections.abc import Mapping
from typing import Any


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
    if not isinstance(commit, str) or not commit:
        return "unknown"
    digits, _, changed = commit.partition("+")
    return digits[:12] + ("+" if changed else "")


def today() -> str:
    """The day in UTC, ISO."""
    return datetime.datetime.now(tz=datetime.UTC).date().isoformat()
