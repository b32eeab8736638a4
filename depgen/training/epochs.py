"""The epochs of a run and of its phases: `trainer.max_epochs` and the model's own lengths brought into agreement.

A model of several phases names the constructor arguments that hold their lengths in `phase_lengths`. YAML files and the
command line may give these, `max_epochs`, or both. The last of them that gives either decides.
"""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jsonargparse import Namespace, dict_to_namespace

from depgen.errors import UserError
from depgen.training.configuration_digest import argument_defaults
from depgen.training.phases import lengthened, scaled
from depgen.yaml_files import read_yaml

MAX_EPOCHS = "trainer.max_epochs"
_ARGUMENTS = "model.init_args."


def settle_epochs(settings: Namespace, files: Sequence[str], options: Iterable[str]) -> str | None:
    """What to say of the epochs of a new run, whose settings are brought into agreement; None where all agree.

    `max_epochs` scales the phases, or is derived from them.

    Args:
        settings: of `depgen fit`; changed in place.
        files: its YAML files, in their order.
        options: names of the options on the command line.

    Raises:
        UserError: the last of them that gives a number of epochs contradicts itself, or a phase would get no epoch.
    """
    lengths = _lengths(settings)
    if not lengths or settings["trainer"].get("fast_dev_run"):
        return None
    total, epochs = sum(lengths.values()), settings[MAX_EPOCHS]
    if epochs is None:
        settings[MAX_EPOCHS] = total
    elif _is_limit(settings) and epochs != total:
        by_epochs, by_lengths = _given(lengths, files, options)
        if by_epochs and by_lengths:
            raise _contradiction(epochs, lengths)
        if by_lengths:
            settings[MAX_EPOCHS] = total
            return f"The phases last {_listed(lengths)}, so trainer.max_epochs is {total}."
        found = dict(zip(lengths, scaled(list(lengths.values()), epochs), strict=True))
        _set(settings, found)
        return f"trainer.max_epochs is {epochs}, so the phases are scaled: {_listed(found)}."
    return None


def settled_settings(settings: Mapping[str, Any], files: Sequence[str], options: Iterable[str]) -> dict[str, Any]:
    """The settings of an experiment with the epochs that `depgen fit` writes into the `config.yaml` of its run.

    Args:
        settings: of all files and options.
        files: its YAML files, in their order.
        options: names of the options over them.

    Raises:
        UserError: as `settle_epochs`, or there is no such class.
    """
    model, trainer = settings.get("model") or {}, settings.get("trainer") or {}
    if "class_path" not in model:
        return dict(settings)
    arguments = model.get("init_args") or {}
    given = {**argument_defaults(model["class_path"]), **arguments}
    names = _phase_arguments(model["class_path"])
    if not names:
        return dict(settings)
    limits = {"max_epochs": trainer.get("max_epochs"), "max_steps": trainer.get("max_steps", -1)}
    lengths = {"class_path": model["class_path"], "init_args": {name: given[name] for name in names}}
    epochs = dict_to_namespace({"trainer": limits, "model": lengths})
    settle_epochs(epochs, files, options)
    return {
        **settings,
        "trainer": {**trainer, "max_epochs": epochs[MAX_EPOCHS]},
        "model": {**model, "init_args": {**arguments, **epochs["model.init_args"].as_dict()}},
    }


def settle_resumed(asked: Namespace, held: Namespace, files: Sequence[str], options: Iterable[str]) -> None:
    """Bring the settings of a run that is resumed into agreement: `max_epochs` lengthens its last phase only.

    Args:
        asked: the settings of `depgen fit --resume`; changed in place.
        held: the run's settings, with the model's from its checkpoint; changed in place.
        files: the YAML files given, in their order.
        options: names of the options on the command line.

    Raises:
        UserError: what is given contradicts itself.
    """
    lengths, wanted = _lengths(held), _lengths(asked)
    if not lengths or lengths.keys() != wanted.keys():
        return
    if held[MAX_EPOCHS] is None:
        held[MAX_EPOCHS] = sum(lengths.values())
    if _is_limit(held) and held[MAX_EPOCHS] > sum(lengths.values()):  # stopped before its checkpoint knew of more
        lengths = _longer_last(lengths, held[MAX_EPOCHS])
        _set(held, lengths)
    by_epochs, by_lengths = _given(lengths, files, options)
    total = sum(wanted.values())
    if asked[MAX_EPOCHS] is None or (by_lengths and not by_epochs):
        asked[MAX_EPOCHS] = total
    elif by_epochs and by_lengths and _is_limit(asked) and asked[MAX_EPOCHS] != total:
        raise _contradiction(asked[MAX_EPOCHS], wanted)
    elif by_epochs and not by_lengths:
        more = _is_limit(asked) and asked[MAX_EPOCHS] > held[MAX_EPOCHS]
        _set(asked, _longer_last(lengths, asked[MAX_EPOCHS]) if more else lengths)


def last_length(settings: Namespace) -> str | None:
    """The name of the option that sets the last phase's length; None for a model that has none."""
    lengths = _lengths(settings)
    return f"{_ARGUMENTS}{list(lengths)[-1]}" if lengths else None


def _lengths(settings: Namespace) -> dict[str, int]:
    """The phases' lengths by argument, without phases that are left out (0); empty where the last one is open-ended."""
    names = _phase_arguments(settings["model.class_path"])
    lengths = {name: settings[f"{_ARGUMENTS}{name}"] for name in names}
    if not names or not lengths[names[-1]] or min(lengths.values()) < 0:
        return {}
    return {name: length for name, length in lengths.items() if length}


def _phase_arguments(class_path: str) -> tuple[str, ...]:
    """The arguments of a system that hold its phases' lengths."""
    module, _, name = class_path.rpartition(".")
    found: tuple[str, ...] = getattr(getattr(importlib.import_module(module), name), "phase_lengths", ())
    return found


def _set(settings: Namespace, lengths: dict[str, int]) -> None:
    for name, length in lengths.items():
        settings[f"{_ARGUMENTS}{name}"] = length


def _longer_last(lengths: dict[str, int], total: int) -> dict[str, int]:
    return dict(zip(lengths, lengthened(list(lengths.values()), total), strict=True))


def _is_limit(settings: Namespace) -> bool:
    """Whether `max_epochs` ends the training."""
    trainer = settings["trainer"]
    return trainer["max_epochs"] is not None and trainer["max_epochs"] >= 0 and trainer["max_steps"] == -1


def _given(lengths: Iterable[str], files: Sequence[str], options: Iterable[str]) -> tuple[bool, bool]:
    """Whether the last of files and command line that gives epochs gives `max_epochs`, and whether phases' lengths."""
    named = [_names(path) for path in files if Path(path).is_file()]
    for names in (set(options), *reversed(named)):
        by_epochs = MAX_EPOCHS in names
        by_lengths = any({f"model.{each}", f"{_ARGUMENTS}{each}"} & names for each in lengths)
        if by_epochs or by_lengths:
            return by_epochs, by_lengths
    return False, False


def _names(path: str) -> set[str]:
    """The options that a YAML file sets in its sections `model` and `trainer`; null sets nothing."""
    content: dict[str, Any] = read_yaml(Path(path)) or {}
    names = set[str]()
    for section in ("model", "trainer"):
        values = content.get(section)
        if isinstance(values, dict):
            arguments = values.get("init_args") or {}
            names |= {f"{section}.{name}" for name, value in {**values, **arguments}.items() if value is not None}
    return names


def _contradiction(epochs: int, lengths: dict[str, int]) -> UserError:
    return UserError(
        f"trainer.max_epochs is {epochs}, but the phases last {_listed(lengths)} epochs. "
        f"Set it to {sum(lengths.values())}, or leave it out, or leave the lengths out."
    )


def _listed(lengths: dict[str, int]) -> str:
    return " + ".join(f"{length} ({name})" for name, length in lengths.items())
