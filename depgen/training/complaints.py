"""What jsonargparse says of a misspelt option, class or value, in one line: where, what was expected and found."""

import importlib
import os
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from depgen.errors import UserError, did_you_mean, nearest, no_option

_KEY = re.compile(r'Parser key "([\w.]+)"')
_CLASS = re.compile(r"class_path[ =]'([\w.]+)'")
_OPTION = re.compile(r"Option '([\w.]+)' is not accepted")
_NAME = re.compile(r"module '([\w.]+)' has no attribute '(\w+)'")
_MODULE = re.compile(r"No module named '([\w.]+)'")
_BARE = re.compile(r"Expected a dot import path string: (\w+)$")
_NO_CLASS = re.compile(r"Unexpected import path format: (.+)$")
_AN_OPTION = "option "
_OF_BASES = {
    "torch.optim.Optimizer": (
        "--model.optimizer",
        ("torch.optim.AdamW", "torch.optim.SGD", "depgen.training.adagrad.ClippedAdagrad"),
    ),
    "torch.optim.lr_scheduler.LRScheduler": (
        "--model.scheduler",
        ("depgen.training.schedules.Cosine", "torch.optim.lr_scheduler.StepLR"),
    ),
}
"""Classes that are only the type of an option: that option, and classes which may be named in their place."""
_VALUE = re.compile(r"Expected a <class '([\w.]+)'>\. Got value: ([^.]*?)(?:\. Got value: .*)?$")
_COLLECTION = re.compile(
    r"Expected a <class '(tuple|list|set|dict|collections\.abc\.(?:Sequence|Collection|Iterable|Mapping))'>"
    r"(?:\. Got value: (?!Namespace)(.+?))?(?:\. Got value: .*)?$"
)
_GIVEN = re.compile(r"Given value: (.+)$")


def plain_complaint(message: str, given: Sequence[str]) -> str | None:
    """A complaint of jsonargparse in one line without its types; None where it is of another kind.

    Args:
        message: of several lines, indented by the depth of the option.
        given: the command line, in whose options and YAML files the place is sought.
    """
    found = complaint_in(message)
    if found is None:
        return None
    place = place_of(found.pattern, given)
    key = "" if place and place.startswith(_AN_OPTION) else f"{found.key}: "
    return f"{place or 'settings'}: {key}{found.said}"


@dataclass(frozen=True)
class Complaint:
    """What jsonargparse complains of, in our words.

    Attributes:
        pattern: how the mistake is written.
        key: the dotted name of the option.
        said: what was expected and found.
    """

    pattern: str
    key: str
    said: str


def complaint_in(message: str) -> Complaint | None:
    """The first complaint of a message of several lines, indented by the depth of the option; None of another kind."""
    lines = message.splitlines()
    for number, line in enumerate(lines):
        if (found := _said(line, lines[: number + 1])) is not None:
            return Complaint(found[0], ".".join(_keys(lines[: number + 1])), found[1])
    for number, line in enumerate(lines):  # one of several types that an option may have
        given = next((value[1] for each in lines[number:] if (value := _GIVEN.search(each)) is not None), "{")
        kind, keys = _COLLECTION.search(line), _keys(lines[: number + 1])
        if kind is not None and keys and given[0] not in "{[(N":
            return Complaint(_written(keys[-1], given), ".".join(keys), _form_wanted(kind[1], given))
    return None


def _form_wanted(kind: str, value: str) -> str:
    """What to say of a text in place of a collection: how a list, or names with values, are written in YAML."""
    if not kind.endswith(("dict", "Mapping")):
        return f"expected a list, such as '[{value}]', found {value}."
    name, _, of_it = re.sub(r"\s*[=:]\s*", ": ", value).partition(": ")
    return f"expected names with values, such as '{{{name}: {of_it or 'value'}}}', found {value}."


def _written(key: str, value: str) -> str:
    """The pattern of an option with its value."""
    return rf"{word(key)}\W+{re.escape(value)}"


def _said(line: str, before: Sequence[str]) -> tuple[str, str] | None:
    """How the mistake that a line is about is written, as a pattern, and what is to be said of it."""
    if (found := _OPTION.search(line)) is not None:
        name, owner = found[1].partition(".")[0], _owner(line, before)
        return word(name), _no_class(owner, name) or no_option(owner, name, _arguments(owner))
    if (found := _NAME.search(line)) is not None:
        path = f"{found[1]}.{found[2]}"
        return word(path), f"there is no {path}.{did_you_mean(found[2], _names_in(found[1]))}"
    if (found := _MODULE.search(line)) is not None:
        parent, _, name = found[1].rpartition(".")
        return word(found[1]), f"there is no module {found[1]}.{did_you_mean(name, _names_in(parent))}"
    if (found := _BARE.search(line)) is not None:
        near = _path_of(found[1])
        meant = f" Did you mean {near!r}?" if near else ""
        return word(found[1]), f"expected the import path of a class, found {found[1]!r}.{meant}"
    if (found := _NO_CLASS.search(line)) is not None:
        remedy = "Name the class, and its files by its options."
        return re.escape(found[1]), f"expected the import path of a class, found {found[1]!r}. {remedy}"
    found, keys = _COLLECTION.search(line), _keys(before)
    if found is not None and keys and found[2] and found[2][0] not in "{[(":
        return _written(keys[-1], found[2]), _form_wanted(found[1], found[2])
    if (found := _VALUE.search(line)) is not None and found[1] != "NoneType" and keys:
        return _written(keys[-1], found[2]), f"expected {found[1]}, found {found[2]}."
    return None


def _keys(lines: Sequence[str]) -> list[str]:
    """The options from the outermost to that of the last line, by their indentation."""
    found: list[tuple[int, str]] = []
    for line in filter(str.strip, lines):
        depth = len(line) - len(line.lstrip(" -"))
        found = [each for each in found if each[0] < depth]
        found += [(depth, key) for key in _KEY.findall(line)]
    return [key for _, key in found]


def _owner(line: str, before: Sequence[str]) -> str | None:
    """The class whose option a line is about: named in the line itself, or in the last one that names any."""
    named = _CLASS.findall(line)
    return (
        named[0]
        if named
        else next((_CLASS.findall(each)[-1] for each in reversed(before) if _CLASS.search(each)), None)
    )


def _arguments(owner: str | None) -> frozenset[str]:
    from depgen.training.configuration_digest import argument_defaults

    try:
        return frozenset() if owner is None else frozenset(argument_defaults(owner))
    except UserError:
        return frozenset()


def _no_class(owner: str | None, name: str) -> str | None:
    """What is said of an option of an optimiser or a schedule whose class nothing names; None of other classes."""
    if owner not in _OF_BASES:
        return None
    option, classes = _OF_BASES[owner]
    fitting = next((each for each in classes if name in _arguments(each)), classes[0])
    return f"no class is named that {name!r} is an option of. Name one first: {option} {fitting}."


def _names_in(module: str) -> Iterator[str]:
    """The classes and modules of a module that was imported; nothing where there is no such module."""
    try:
        found = importlib.import_module(module or "depgen")
    except ImportError:
        return
    yield from (each.name for each in pkgutil.iter_modules(getattr(found, "__path__", [])))
    yield from (name for name, each in vars(found).items() if isinstance(each, type))


def _path_of(name: str) -> str | None:
    """The import path of the class of depgen that is spelt most like a name, of those that are imported."""
    paths = {
        each.__name__: f"{each.__module__}.{each.__name__}"
        for title, module in list(sys.modules.items())
        if title.startswith("depgen.") and module is not None
        for each in vars(module).values()
        if isinstance(each, type) and each.__module__.startswith("depgen.")
    }
    near = nearest(name, paths)
    return paths[near] if near else None


def without_contents(message: str, given: Sequence[str]) -> str:
    """A message with the names of files in place of their content, which jsonargparse quotes for a value.

    Args:
        message: of jsonargparse, which may indent the content.
        given: the command line.
    """
    lines = [line for line in message.splitlines() if line.strip()]
    for path in filter(os.path.isfile, (str(each).rpartition("=")[2] for each in given)):
        with open(path, encoding="utf-8", errors="replace") as stream:
            content = [next((line.strip() for line in stream if line.strip()), "")]
            place = next((place for place, line in enumerate(lines) if line.rstrip().endswith(content[0])), None)
            if not content[0] or place is None:
                continue
            content += [line.strip() for line in stream if line.strip()]
        if len(content) == 1:  # a short value, which need not be the file's
            continue
        end = place + len(content)
        if [*map(str.strip, lines[place + 1 : end])] == content[1:]:
            lines[place:end] = [f"{lines[place].rstrip().removesuffix(content[0])}{path}"]
    return "\n".join(lines)


def word(text: str) -> str:
    """A pattern of a whole word."""
    return rf"(?<!\w){re.escape(text)}(?!\w)"


def options_in(arguments: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each argument up to its `=`, and the text after it: there, or else the next argument, which the last has not.

    >>> list(options_in(["--size=small", "--name", "mine"]))
    [('--size', 'small'), ('--name', 'mine'), ('mine', '')]
    """
    for argument, following in pairwise([*arguments, ""]):
        name, separator, value = argument.partition("=")
        yield name, value if separator else following


def place_of(pattern: str, given: Sequence[str]) -> str | None:
    """The option of the command line, or the only line of its files, that has a text; None unless there is one."""
    files = list[str]()
    for name, value in options_in(map(str, given)):
        if name in ("--config", "-c"):
            files.append(value)
        elif name.startswith("--") and re.search(pattern, f"{name}: {value}"):
            return f"{_AN_OPTION}{name}"
    found = [
        f"{path}:{number}"
        for path in files
        if os.path.isfile(path)
        for number, line in enumerate(Path(path).read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if re.search(pattern, line.partition("#")[0])
    ]
    return found[0] if len(found) == 1 else None
