"""Differences between the given settings and those that a checkpoint was trained with."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Difference(NamedTuple):
    """A setting, by its dotted name, that differs; None where one side does not have it."""

    name: str
    given: Any
    held: Any

    def __str__(self) -> str:
        return f"{self.name}: {self.given!r} given, {self.held!r} in the checkpoint"


def flatten(settings: object, prefix: str = "") -> dict[str, Any]:
    """Nested settings as one level of dotted names; lists by position.

    >>> flatten({"a": {"b": 1, "c": [2, {"d": 3}], "e": {}}})
    {'a.b': 1, 'a.c.0': 2, 'a.c.1.d': 3, 'a.e': {}}
    """
    if isinstance(settings, (list, tuple)) and settings:
        settings = dict(enumerate(settings))
    if not isinstance(settings, Mapping) or not settings:
        return {prefix: settings} if prefix else {}
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat.update(flatten(value, f"{prefix}.{name}" if prefix else str(name)))
    return flat


def differences(given: Mapping[str, Any], held: Mapping[str, Any]) -> list[Difference]:
    """Every setting with two values, by name.

    >>> [str(each) for each in differences({"model": {"width": 4, "only": 3}}, {"model": {"width": 8}})]
    ['model.only: 3 given, None in the checkpoint', 'model.width: 4 given, 8 in the checkpoint']
    """
    left, right = flatten(given), flatten(held)
    names = sorted(left.keys() | right.keys())
    return [Difference(name, left.get(name), right.get(name)) for name in names if left.get(name) != right.get(name)]
