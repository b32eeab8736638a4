"""Runs of the contract: an experiment trained by the command line, by a plain trainer, and interrupted and resumed."""

import copy
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import lightning as L
import torch
import yaml

from depgen.cli import main
from depgen.training.checkpoints import load_checkpoint
from tests.fixtures.kinds import Settings

FACTORIES = ("backbone", "context", "optimizer", "scheduler")
"""Arguments that a system calls itself."""


class Crash(L.Callback):
    """Ends a run within a step, like a process that is killed: nothing is saved."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_before_optimizer_step(self, trainer: L.Trainer, *args: object) -> None:
        if trainer.global_step == self.step:
            raise Crashed


class Crashed(BaseException):
    """Nothing of ours reacts to it."""


def fit(folder: Path, settings: Settings, *more: str) -> Path:
    """Train by `depgen fit` under `folder`; the run."""
    config = folder / "experiment.yaml"
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    before = set(folder.glob("runs/*/*"))
    assert main(["fit", "--config", str(config), *more]) == 0
    (run,) = set(folder.glob("runs/*/*")) - before or sorted(before)[-1:]
    return run


def crash(folder: Path, settings: Settings, step: int) -> None:
    """Begin to train by `depgen fit` under `folder`, up to a step that is not finished."""
    try:
        fit(
            folder, settings, "--resume_every_n_steps", "1", "--trainer.callbacks+=tests.contract.runs.Crash",
            f"--trainer.callbacks.step={step}",
        )  # fmt: skip
    except Crashed:
        return
    raise AssertionError(f"there is no step {step}")


def train(folder: Path, settings: Settings) -> tuple[L.Trainer, L.LightningModule, L.LightningDataModule]:
    """Train by a plain trainer, as Python code does; its checkpoints lie in `folder / "checkpoints"`."""
    settings = copy.deepcopy(settings)
    L.seed_everything(settings["seed_everything"])
    data = built(settings["data"])
    model = built(settings["model"], vocabulary_size=data.vocabulary_size)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = L.Trainer(default_root_dir=folder, **{**settings["trainer"], **quiet})
    trainer.fit(model, data)
    return trainer, model, data


def built(settings: Settings, **more: Any) -> Any:
    """The object of a class path and its arguments."""
    return _maker(settings)(**more)


def _maker(settings: Settings) -> "partial[Any]":
    module, _, name = settings["class_path"].rpartition(".")
    arguments = {key: _value(key, value) for key, value in (settings.get("init_args") or {}).items()}
    return partial(getattr(import_module(module), name), **arguments)


def _value(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_value(name, each) for each in value]
    if not isinstance(value, Mapping) or "class_path" not in value:
        return value
    return _maker(value) if name in FACTORIES else _maker(value)()


def weights(checkpoint: Path) -> dict[str, torch.Tensor]:
    """The weights that a checkpoint holds."""
    return load_checkpoint(checkpoint)["state_dict"]


def assert_same_weights(found: Path, expected: Path) -> None:
    """Fail unless the weights are equal bit for bit."""
    one, other = weights(found), weights(expected)
    assert one.keys() == other.keys()
    different = [name for name, value in other.items() if not torch.equal(one[name], value)]
    assert not different, f"{found} and {expected} differ in {different}"
