"""An experiment: a YAML file, the parts that it is made of, the size that it is trained at, and single options.

    base: [networks/transformer.yaml, systems/dmlm.yaml, corpora/rocstories.yaml]
    data:                     # what differs from the parts
      init_args:
        joining: previous_sentence
    small:                    # what differs at the size of a laptop
      trainer:
        max_epochs: 8

`base` names one file or several; their paths count from the file that names them. Each may have a `base` and a `small`
of its own. Values are merged in this order: the parts, then the file itself. A later value replaces an earlier one. At
`--size small` all `small` blocks follow in the same order, so that a small value holds over every other one. Without
`--size`, the values are those of the paper's size.

Sections and arguments are merged by name; lists are replaced. A block with another `class_path` than the one before
replaces it as a whole; one without `class_path` changes arguments of whatever class is there.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from depgen.errors import UserError, did_you_mean
from depgen.locations import lines_sha256, runs_root
from depgen.training.runs import BEST, all_runs, newest_run
from depgen.yaml_files import read_settings

PAPER, SMALL = "paper", "small"
SIZES = (SMALL, PAPER)
_PARTS, _CLASS, _ARGUMENTS = "base", "class_path", "init_args"
_LONGEST = 60
"""As many characters of a folder's name may show options."""


@dataclass(frozen=True)
class Experiment:
    """An experiment at a size.

    Attributes:
        file: its YAML file.
        size: `paper` or `small`.
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
    def settings(self) -> dict[str, Any]:
        """The values of its parts, its file, its size and its options, each over those before.

        Raises:
            UserError: a file can't be read, or the experiment has no such size.
        """
        known = sizes_of(self.file)
        if self.size not in known:
            meant = did_you_mean(self.size, known)
            raise UserError(f"{self.file} has no size {self.size!r}.{meant} Its sizes: {', '.join(known)}.")
        contents = _contents(self.file)
        if self.size == SMALL:
            contents += [content[SMALL] for content in contents if SMALL in content]
        settings = dict[str, Any]()
        for content in contents:
            settings = _merged(settings, {name: content[name] for name in content if name not in (_PARTS, SMALL)})
        for name, value in self.options.items():
            settings = _with_option(settings, name.split("."), value)
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
    """The values of an experiment, or of the YAML file of one."""
    return (config if isinstance(config, Experiment) else Experiment(config)).settings


def newest_of(experiment: Experiment, *, holding: str = BEST) -> Path:
    """The newest run of an experiment at its size, or of its name where none of that size is known."""
    folder = runs_root() / experiment.file.stem / experiment.size
    return newest_run(folder if all_runs(folder) else folder.parent, holding=holding)


def sizes_of(file: Path) -> list[str]:
    """The sizes that an experiment has: `paper`, and `small` if its file or one of its parts says what that is."""
    return [PAPER, SMALL] if any(SMALL in content for content in _contents(file)) else [PAPER]


def is_composed(file: Path) -> bool:
    """Whether a YAML file has parts or a small size, which only this module reads: its runs lie by size and seed."""
    return not {_PARTS, SMALL}.isdisjoint(read_settings(file))


def _contents(file: Path) -> list[dict[str, Any]]:
    """What the parts of an experiment hold, in the order of merging, and its file last."""
    content = read_settings(file)
    parts: str | Iterable[str] = content.get(_PARTS) or ()
    paths = [parts] if isinstance(parts, str) else parts
    return [*(inner for path in paths for inner in _contents(file.parent / path)), content]


def _merged(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with changed ones, of which a mapping changes the mapping of its name but for one of another class.

    >>> _merged({"optimizer": {"class_path": "torch.optim.SGD", "init_args": {"lr": 1.0, "momentum": 0.9}}},
    ...         {"optimizer": {"init_args": {"lr": 0.5}}})
    {'optimizer': {'class_path': 'torch.optim.SGD', 'init_args': {'lr': 0.5, 'momentum': 0.9}}}
    """
    if _CLASS in settings and settings[_CLASS] != changes.get(_CLASS, settings[_CLASS]):
        return dict(changes)
    merged = {_CLASS: changes[_CLASS], **settings} if _CLASS in changes else dict(settings)  # first, as one writes it
    for name, value in changes.items():
        before = merged.get(name)
        merged[name] = _merged(before, value) if isinstance(before, Mapping) and isinstance(value, Mapping) else value
    return merged


def _with_option(settings: Mapping[str, Any], names: list[str], value: Any) -> dict[str, Any]:  # noqa: ANN401
    """Settings with another value at a place, which is named level by level; a class is replaced as a whole."""
    first, *below = names
    before = settings.get(first)
    if below and isinstance(before, Mapping) and _CLASS in before and below[0] not in (_CLASS, _ARGUMENTS):
        below = [_ARGUMENTS, *below]  # `model.backbone` for `model.init_args.backbone`, as on the command line
    if below == [_CLASS]:
        raise UserError(f"Option {first}.{_CLASS}: give {_CLASS} and {_ARGUMENTS} together, as the value of {first}.")
    return {**settings, first: _with_option(before or {}, below, value) if below else value}
