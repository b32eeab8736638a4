"""An experiment: a YAML file, the size that it is trained at, and options that replace single values.

`experiments/dmlm_ewt_gold.yaml` is a whole configuration, of the paper's size. Each other size is a folder next to it.
In `experiments/sizes/small/` lies, for each experiment, the file with the longest name that begins or ends the
experiment's name: `dmlm_ewt.yaml` for `dmlm_ewt_gold`, `brown.yaml` for `rnnlm_brown`. That file is an overlay: it
holds the values to change and names no class but in lists, such as a corpus's steps, which it replaces as a whole. A
file of exactly the experiment's name may also be a whole configuration, with `model.class_path`: then it is taken in
place of the experiment's file.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from depgen.errors import UserError, did_you_mean
from depgen.locations import lines_sha256, runs_root
from depgen.training.runs import BEST, all_runs, newest_run
from depgen.yaml_files import read_settings

PAPER = "paper"
"""The size of an experiment's own file."""
SIZES = ("small", PAPER)
"""The sizes of the package's experiments."""
_FOLDER, _CLASS, _ARGUMENTS = "sizes", "class_path", "init_args"
_LONGEST = 60
"""As many characters of a folder's name may show options."""


@dataclass(frozen=True)
class Experiment:
    """An experiment at a size.

    Attributes:
        file: its YAML file.
        size: `paper`, or the name of a folder in `sizes/` next to the file.
        options: values by the dotted name of their option, over those of the files.
    """

    file: Path
    size: str = PAPER
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The file's name, with the size unless it is the paper's."""
        return self.file.stem if self.size == PAPER else f"{self.file.stem}_{self.size}"

    @property
    def files(self) -> tuple[Path, ...]:
        """The YAML files that it is read from, each over those before."""
        if self.size == PAPER:
            return (self.file,)
        folder = self.file.parent / _FOLDER / self.size
        overlay = _overlay_in(folder, self.file)
        if overlay is None:
            known = sizes_of(self.file)
            raise UserError(
                f"{self.file} has no size {self.size!r}: found no file in {folder} whose name begins or ends "
                f"{self.file.stem!r}.{did_you_mean(self.size, known)} Its sizes: {', '.join(known)}."
            )
        content = read_settings(overlay)
        if overlay.stem == self.file.stem and _is_class(content.get("model")):
            return (overlay,)
        if place := _place_of_class(content):
            raise UserError(
                f"{overlay}: {place}: an overlay changes values and no class. Leave the class to {self.file}, or write "
                f"a whole configuration, {folder / self.file.name}."
            )
        return (self.file, overlay)

    @property
    def settings(self) -> dict[str, Any]:
        """The values of all files and options, each over those before."""
        first, *overlays = self.files
        settings = read_settings(first)
        for overlay in overlays:
            settings = _overlaid(settings, read_settings(overlay), str(overlay))
        for name, value in self.options.items():
            settings = _with_option(settings, name.split("."), value, f"{self.file}: option {name}")
        return settings

    @property
    def digest(self) -> str:
        """The sha256 of what it resolves to, by `depgen.training.configuration_digest`."""
        from depgen.training.configuration_digest import settings_digest  # jsonargparse, which the command line avoids

        return settings_digest(self.settings, str(self))

    @property
    def arguments(self) -> list[str]:
        """What `depgen fit` is given for it."""
        size = [] if self.size == PAPER else ["--size", self.size]
        return ["--config", str(self.file), *size, *(f"--{option}" for option in self._options_in_words)]

    def place(self, seed: int) -> str:
        """Where its runs of a seed lie below `$DEPGEN_RUNS`: each in a folder named by its start.

        >>> Experiment(Path("experiments/udgn_ewt.yaml"), "small").place(1)
        'udgn_ewt/small/seed1'
        >>> Experiment(Path("udgn_ewt.yaml"), "small", {"model.init_args.mask_rate": 0.1}).place(1)
        'udgn_ewt--mask_rate-0.1-95e716/small/seed1'
        """
        name = self.file.stem
        if self.options:
            shown = [
                option.rpartition(".")[2] + ("" if isinstance(value, (Mapping, list)) else f"-{value}")
                for option, value in sorted(self.options.items())
            ]
            slug = re.sub(r"[^\w.+-]+", "-", "_".join(shown))[:_LONGEST].strip("-")
            digest = lines_sha256([json.dumps(dict(self.options), sort_keys=True, default=str)])
            name = f"{name}--{slug}-{digest[:6]}"
        return f"{name}/{self.size}/seed{seed}"

    @property
    def _options_in_words(self) -> list[str]:
        """Options as the command line reads them: `trainer.max_epochs=2`, `data.workers=null`."""
        return [
            f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in self.options.items()
        ]

    def __str__(self) -> str:
        parts = [*([] if self.size == PAPER else [f"size {self.size}"]), *self._options_in_words]
        return f"{self.file} ({', '.join(parts)})" if parts else str(self.file)


def settings_of(config: Path | Experiment) -> dict[str, Any]:
    """The values of an experiment, or of one YAML file."""
    return config.settings if isinstance(config, Experiment) else read_settings(config)


def newest_of(experiment: Experiment, *, holding: str = BEST) -> Path:
    """The newest run of an experiment at its size, or of its name where none of that size is known."""
    folder = runs_root() / experiment.file.stem / experiment.size
    return newest_run(folder if all_runs(folder) else folder.parent, holding=holding)


def sizes_of(file: Path) -> list[str]:
    """The sizes that an experiment has, `paper` first."""
    folders = sorted(folder for folder in (file.parent / _FOLDER).glob("*") if folder.is_dir())
    return [PAPER, *(folder.name for folder in folders if _overlay_in(folder, file) is not None)]


def has_sizes(file: Path) -> bool:
    """Whether an experiment's file has a folder of sizes next to it."""
    return (file.parent / _FOLDER).is_dir()


def _overlay_in(folder: Path, file: Path) -> Path | None:
    """The file in a size's folder with the longest name that fits an experiment; None where none does."""
    fitting = [overlay for overlay in sorted(folder.glob("*.yaml")) if _fits(overlay.stem, file.stem)]
    return max(fitting, key=lambda overlay: len(overlay.stem), default=None)


def _fits(part: str, name: str) -> bool:
    """Whether a name begins or ends with a part, at an underscore.

    >>> [_fits(part, "dmlm_ewt_gold") for part in ("dmlm_ewt", "gold", "dmlm_e", "ewt")]
    [True, True, False, False]
    """
    return name == part or name.startswith(f"{part}_") or name.endswith(f"_{part}")


def _overlaid(settings: Mapping[str, Any], overlay: Mapping[str, Any], file: str, place: str = "") -> dict[str, Any]:
    """Settings with the values of an overlay, which are merged into sections and into arguments of classes alone."""
    merged = dict(settings)
    for name, value in overlay.items():
        held = merged.get(name)
        if _is_class(held) and not isinstance(value, Mapping):
            raise UserError(f"{file}: {place}{name}: an overlay changes values and no class, found {value!r:.80}.")
        merges = _is_class(held) or not place or name == _ARGUMENTS
        if merges and isinstance(held, Mapping) and isinstance(value, Mapping):
            value = _overlaid(held, value, file, f"{place}{name}.")
        merged[name] = value
    return merged


def _with_option(settings: Mapping[str, Any], names: list[str], value: Any, where: str) -> dict[str, Any]:  # noqa: ANN401
    """Settings with another value at a place, which is named level by level."""
    first, *below = names
    held = settings.get(first)
    if _is_class(held) and below and below[0] not in (_CLASS, _ARGUMENTS):
        below = [_ARGUMENTS, *below]  # `model.backbone` for `model.init_args.backbone`, as on the command line
    if below:
        if held is not None and not isinstance(held, Mapping):
            raise UserError(f"{where}: expected settings at {first}, found {held!r:.80}. Replace {first} as a whole.")
        return {**settings, first: _with_option(held or {}, below, value, where)}
    if first == _CLASS or (_is_class(held) and not _is_class(value)):
        raise UserError(
            f"{where}: a class is replaced as a whole: give {_CLASS} and {_ARGUMENTS} together, found {value!r:.80}."
        )
    return {**settings, first: value}


def _is_class(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping) and _CLASS in value


def _place_of_class(value: object, place: str = "") -> str | None:
    """Where settings first name a class; None where they name none but in lists, which are replaced as a whole."""
    if _is_class(value):
        return f"{place}{_CLASS}"
    parts = value.items() if isinstance(value, Mapping) else ()
    places = (_place_of_class(part, f"{place}{name}.") for name, part in parts)
    return next((place for place in places if place is not None), None)
