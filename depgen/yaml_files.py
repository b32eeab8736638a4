"""YAML files of settings, and the objects that they describe. Complaints name file and line; no key is there twice."""

import copy
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

from depgen.errors import UserError, user_errors_unwrapped
from depgen.locations import text_of_file

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader; where PyYAML was built with libyaml, the one in C, which takes an eighth of the time."""


def read_yaml(path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    """The content of a YAML file; None for an empty one.

    Raises:
        UserError: the file can't be read, or is refused by `yaml_value`.
    """
    return yaml_value(text_of_file(path), str(path))


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
    """The value of the text of a YAML file, which messages call `where`.

    >>> yaml_value("layers: 2", "experiment.yaml")
    {'layers': 2}

    Raises:
        UserError: it is no YAML, or has a key twice, the first value of which would be lost.
    """
    return copy.deepcopy(_value(text, where))  # whoever asks may change it


@lru_cache(maxsize=256)  # a table reads the files of each experiment for each of its rows
def _value(text: str, where: str) -> Any:  # noqa: ANN401
    """What `yaml_value` copies."""
    try:
        root = yaml.compose(text, _LOADER)
        if root is not None:
            _check_keys(root, where)
        return yaml.load(text, _LOADER)
    except yaml.YAMLError as error:
        raise UserError(f"{where}: expected YAML, found: {error}") from error


def _check_keys(node: Node, where: str) -> None:
    """Raises UserError where a mapping has a key twice; names both lines."""
    if isinstance(node, ScalarNode):
        return
    pairs = node.value if isinstance(node, MappingNode) else [(None, item) for item in node.value]
    lines = dict[str, int]()
    for key, value in pairs:
        _check_keys(value, where)
        if isinstance(key, ScalarNode):
            line = key.start_mark.line + 1
            if key.value in lines:
                raise UserError(
                    f"{where}:{line}: the key {key.value!r} is on line {lines[key.value]} already: one of the two "
                    "values would be lost. Take one away."
                )
            lines[key.value] = line


def made_as(kind: Any, content: object) -> Any:  # noqa: ANN401 - any annotation and its value
    """The object with that content, classes named by their paths included.

    Raises:
        UserError: the content is none of such an object, or a class refuses its arguments.
    """
    from jsonargparse import ArgumentError, ArgumentParser

    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--made", type=kind)
    try:
        with user_errors_unwrapped():
            return parser.instantiate(parser.parse_object({"made": content})).made
    except ArgumentError as error:
        raise UserError(re.sub(r'^Parser key "made":\s*', "", str(error))) from error
