"""Numbers of two trees, and the list of those that may differ."""

import fnmatch
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

TOLERANCES = {"item": (0.0, 1e-5), "total": (1e-6, 1e-9)}
"""Relative and absolute, by kind: nats of an item; figures of a whole split. All else is equal to the letter."""


@dataclass(frozen=True)
class Found:
    """A number or a text, and how it is compared."""

    kind: Literal["exact", "item", "total"]
    value: float | str


Numbers = dict[str, Found]


@dataclass(frozen=True)
class Listed:
    """A difference that is wanted.

    Attributes:
        number: name of the number, or a pattern of names (`*`).
        old: what it was.
        new: what it is.
        reason: why.
    """

    number: str
    old: str
    new: str
    reason: str


def differences(old: Mapping[str, Found], new: Mapping[str, Found]) -> dict[str, tuple[str, str]]:
    """Old and new value of every number that differs, by name; "nothing" where a tree lacks it."""
    found = {}
    for name in sorted(old.keys() | new.keys()):
        one, other = old.get(name), new.get(name)
        if one is None or other is None or not _equal(one, other):
            found[name] = tuple("nothing" if each is None else str(each.value) for each in (one, other))
    return found


def _equal(one: Found, other: Found) -> bool:
    if one.kind == "exact" or isinstance(one.value, str) or isinstance(other.value, str):
        return one.value == other.value
    if math.isnan(one.value) and math.isnan(other.value):
        return True
    relative, absolute = TOLERANCES[one.kind]
    return math.isclose(one.value, other.value, rel_tol=relative, abs_tol=absolute)


def listed(path: Path) -> list[Listed]:
    """The differences that a file lists."""
    return [Listed(**each) for each in yaml.safe_load(path.read_text(encoding="utf-8")) or ()]


def unexpected(found: Mapping[str, tuple[str, str]], wanted: Sequence[Listed]) -> list[str]:
    """A line for each difference that is not listed, and for each listed one that is not there."""
    lines = [
        f"{name}: {old[:200]} -> {new[:200]}"
        for name, (old, new) in found.items()
        if not any(fnmatch.fnmatchcase(name, each.number) for each in wanted)
    ]
    for each in wanted:
        if not any(fnmatch.fnmatchcase(name, each.number) for name in found):
            lines.append(f"{each.number}: listed, but there is no such difference. Take it out of the list.")
    return lines
