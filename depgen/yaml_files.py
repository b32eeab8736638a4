"""YAML files of settings, read with complaints that name file and line.

A key that a mapping holds twice is refused, as the first value would be lost, and so are aliases that multiply: a file
of ten lines can mean billions of values.
"""

import copy
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from yaml.events import CollectionEndEvent, CollectionStartEvent, Event
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from depgen.errors import UserError

MOST_VALUES = 100_000
"""As many values may a file hold once its aliases are written out."""
MOST_LEVELS = 100
"""As deep may lists and mappings nest."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader; where PyYAML was built with libyaml, the one in C, which takes an eighth of the time."""


def read_yaml(path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    """The content of a YAML file; None for an empty one.

    Raises:
        UserError: the file can't be read, is not in UTF-8 or is refused by `yaml_value`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: expected UTF-8, found {error}; convert the file, for instance by iconv.") from error
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror or error}.") from error
    return yaml_value(text, str(path))


def read_settings(path: Path) -> dict[str, Any]:
    """The names and values of a YAML file.

    Raises:
        UserError: as `read_yaml`; or it holds anything else.
    """
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected settings in YAML, each a `name: value`, found none.")
    return content


def yaml_value(text: str, where: str) -> Any:  # noqa: ANN401
    """The value of a YAML text.

    >>> yaml_value("layers: 2", "experiment.yaml")
    {'layers': 2}

    Args:
        text: of a file.
        where: the file, for messages.

    Raises:
        UserError: it is no YAML, nests too deep, has a key twice, or more values than a file of settings.
    """
    return copy.deepcopy(_value(text, where))  # whoever asks may change it


@lru_cache(maxsize=256)  # a table reads the files of each experiment for each of its rows
def _value(text: str, where: str) -> Any:  # noqa: ANN401
    """What `yaml_value` copies."""
    try:
        _check_levels(text, where)
        loader = _LOADER(text)
        try:
            root = loader.get_single_node()
            if root is None:
                return None
            _check_size(root, where)
            _check_keys(root, where)
            return loader.construct_document(root)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        if error.problem_mark is not None and "nesting depth" in str(error.problem):  # PyYAML has a limit since 6.0.4
            raise _too_deep(where, error.problem_mark.line + 1) from error
        raise UserError(f"{where}: expected YAML, found: {error}") from error
    except yaml.YAMLError as error:
        raise UserError(f"{where}: expected YAML, found: {error}") from error
    except ValueError as error:  # a number of thousands of digits, or a date that there is not
        if isinstance(error, UserError):
            raise
        raise UserError(f"{where}: expected YAML, found a value that can't be read ({error}).") from error


def _check_levels(text: str, where: str) -> None:
    """Raises UserError for lists and mappings that nest deeper than `MOST_LEVELS`: the loader in C would crash."""
    levels = 0
    for event in yaml.parse(text, Loader=_LOADER):
        levels += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if levels > MOST_LEVELS:
            raise _too_deep(where, _line_of(event))


def _too_deep(where: str, line: int) -> UserError:
    return UserError(f"{where}:{line}: expected settings, found lists or mappings nested too deep.")


def _check_size(root: Node, where: str) -> None:
    """Raises UserError for more than `MOST_VALUES` values, aliases written out, or an alias within what it names."""
    sizes: dict[int, int | None] = {}

    def size(node: Node) -> int:
        known = sizes.get(id(node), 0)
        if known is None:
            raise UserError(f"{where}:{_line_of(node)}: expected settings, found an alias of itself.")
        if not known:
            sizes[id(node)] = None
            sizes[id(node)] = known = 1 + sum(map(size, _parts(node)))
        return known

    found = size(root)
    if found > MOST_VALUES:
        raise UserError(
            f"{where}: expected at most {MOST_VALUES:,} values, found {found:,} once its aliases (*name) are written "
            "out. Write each value where it belongs."
        )


def _check_keys(root: Node, where: str) -> None:
    """Raises UserError where a mapping has a key twice; names both lines."""
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        waiting += _parts(node)
        lines = dict[str, int]()
        for key in (pair[0] for pair in node.value) if isinstance(node, MappingNode) else ():
            if not isinstance(key, ScalarNode):
                continue
            line = _line_of(key)
            if key.value in lines:
                raise UserError(
                    f"{where}:{line}: the key {key.value!r} is on line {lines[key.value]} already: one of the two "
                    "values would be lost. Take one away."
                )
            lines[key.value] = line


def _line_of(part: Node | Event) -> int:
    """The line that a node or an event begins on, from 1."""
    assert part.start_mark is not None
    return part.start_mark.line + 1


def _parts(node: Node) -> Iterator[Node]:
    """The nodes in a list or a mapping, keys included; of a scalar none."""
    if isinstance(node, SequenceNode):
        yield from node.value
    elif isinstance(node, MappingNode):
        for pair in node.value:
            yield from pair
