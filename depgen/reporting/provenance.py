"""Where a number comes from: machine, day, configuration; and which profile this machine calls for."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from depgen.errors import UserError


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
