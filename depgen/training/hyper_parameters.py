"""Constructor arguments as plain values: how YAML files and checkpoints describe systems and data modules."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from inspect import Parameter, isclass, isfunction, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import lightning as L

from depgen.errors import UserError
from depgen.yaml_files import made_as

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")
if TYPE_CHECKING:
    Factory = Callable[[_Given], _Made] | Mapping[str, Any] | str
else:  # jsonargparse makes a callable of what YAML has
    Factory = Callable[[_Given], _Made]
"""Makes something from one argument: a callable, or its block as in YAML, a class path or that with other arguments."""

BUILDER = "lightning.pytorch.cli.instantiate_module"
"""What `load_from_checkpoint` builds a system by, from values as they are in YAML."""


def build(block: Mapping[str, Any], **others: Any) -> Any:  # noqa: ANN401 - whatever the block describes
    """The system or data module of a `model:` or `data:` block of an experiment's YAML.

    Others are arguments that the block lacks, such as the `vocabulary_size` of the data.
    """
    arguments = {**(block.get("init_args") or {}), **others}
    return made_as(
        L.LightningModule | L.LightningDataModule, {"class_path": block.get("class_path"), "init_args": arguments}
    )


def factory(made_by: Callable[..., Any] | Mapping[str, Any] | str, kind: Any) -> Any:  # noqa: ANN401 - whatever the type describes
    """A callable as it is, or what a class path or a block of YAML describes, of a type such as `BackboneFactory`."""
    return made_by if callable(made_by) else made_as(kind, made_by)


def plain_settings(system: type, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a system's constructor as YAML has them: callables by class path, all others as they are.

    `load_from_checkpoint` builds the system from them, also where only its base class is known.

    Raises:
        UserError: an argument has no such form; names it.
    """
    if arguments:
        for name in _named(system) - arguments.keys():  # Lightning leaves out what can't be pickled
            raise _refusal(name, "a value that can't be pickled")
    plain = {name: _plain(value, name) for name, value in arguments.items()}
    # private names in Lightning: `L.LightningModule.load_from_checkpoint` finds class and builder by these keys alone
    if (path := _path(system)) is not None:
        plain = {"_class_path": path, "_instantiator": BUILDER, **plain}
    return plain


def _plain(value: object, name: str) -> Any:  # noqa: ANN401
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {key: _plain(part, f"{name}.{key}") for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(part, f"{name}.{place}") for place, part in enumerate(value))
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, partial) and (path := _path(value.func)) is not None:
        arguments = signature(value.func).bind_partial(*value.args, **value.keywords).arguments
        arguments |= arguments.pop(_rest(value.func), {})
        return {"class_path": path, "init_args": _plain(arguments, name)}
    if isclass(value) and (path := _path(value)) is not None:
        return {"class_path": path}
    if isfunction(value) and "return" in value.__annotations__ and (path := _path(value)) is not None:
        return path
    if is_dataclass(value) and (path := _path(type(value))) is not None:
        arguments = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        return {"class_path": path, "init_args": _plain(arguments, name)}
    raise _refusal(name, repr(value))


def _refusal(name: str, found: str) -> UserError:
    return UserError(
        f"{name}: expected a plain value, a class or functools.partial(Class, ...), found {found}, which a checkpoint "
        "can't store without code. Define it at the top of a module and pass it by partial."
    )


def _named(function: Any) -> set[str]:  # noqa: ANN401
    """The names of a function's parameters, without `*args` and `**kwargs`."""
    kinds = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return {parameter.name for parameter in signature(function).parameters.values() if parameter.kind not in kinds}


def _rest(function: Any) -> str:  # noqa: ANN401
    """The name of a function's `**kwargs`; empty without any."""
    parameters = signature(function).parameters.values()
    return next((parameter.name for parameter in parameters if parameter.kind is Parameter.VAR_KEYWORD), "")


def _path(thing: Any) -> str | None:  # noqa: ANN401
    """From where a class or function is imported; None for one that isn't found there, such as a lambda."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    if not module or module == "__main__":
        return None
    imported: Any = importlib.import_module(module)
    for part in name.split("."):
        imported = getattr(imported, part, None)
    return f"{module}.{name}" if imported is thing else None
