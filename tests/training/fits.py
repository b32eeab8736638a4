"""Runs of the tiny system with all of a run's callbacks, broken off wherever a test wants."""

import csv
import os
from pathlib import Path
from unittest.mock import patch

import lightning as L
import torch

from depgen.training.callbacks import LossGuard, ProgressLines, RunRecord
from depgen.training.checkpoints import CheckpointWriter, load_checkpoint
from depgen.training.logs import CurveLogger
from depgen.training.phases import Phases
from depgen.training.randomness import StepSeed
from depgen.training.resume import Resume
from tests.training.tiny import TinyData, TinyModel


class Killed(BaseException):
    """Stands for SIGKILL: nothing of ours reacts to it."""


class KillAfter(L.Callback):
    """Ends the run after a step, before any other callback sees that step's end; or during an epoch's validation."""

    def __init__(self, step: int, *, in_validation: bool = False, at_epoch_end: bool = False) -> None:
        self.step, self.in_validation, self.at_epoch_end = step, in_validation, at_epoch_end

    def on_train_batch_end(self, trainer, *args):
        if trainer.global_step == self.step and not self.in_validation and not self.at_epoch_end:
            raise Killed

    def on_validation_epoch_start(self, trainer, *args):
        if self.in_validation and trainer.global_step == self.step and not trainer.sanity_checking:
            raise Killed

    def on_train_epoch_end(self, trainer, *args):
        if self.at_epoch_end and trainer.global_step == self.step:
            raise Killed


def fit(
    folder: Path, *extra: L.Callback, model=None, data=None, every: int = 3, max_epochs: int = 4, resume: bool = False,
    **options,
):  # fmt: skip
    """Train in `folder`, with a curve and a record in the folder around it; the trainer and the model."""
    model = model if model is not None else TinyModel(3)
    folder.mkdir(parents=True, exist_ok=True)
    run = folder.parent if folder.name == "checkpoints" else folder
    own = [LossGuard(), ProgressLines(), RunRecord(run), Resume(folder, every_n_steps=every)]
    settings = {
        "accelerator": "cpu", "logger": CurveLogger(folder), "enable_progress_bar": False,
        "enable_model_summary": False, "use_distributed_sampler": False, "reload_dataloaders_every_n_epochs": 1,
        "num_sanity_val_steps": 0, "gradient_clip_val": 1.0, "log_every_n_steps": 1,
    }  # fmt: skip
    trainer = L.Trainer(
        max_epochs=max_epochs, callbacks=[*extra, *own, Phases(folder), StepSeed()], plugins=[CheckpointWriter()],
        **{**settings, **options},
    )  # fmt: skip
    path = folder / "resume.ckpt"
    with patch.dict(os.environ, {"PL_GLOBAL_SEED": "5"}):
        trainer.fit(model, data or TinyData(), ckpt_path=str(path) if resume and path.exists() else None)
    return trainer, model


def weights(model) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(left, right) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def curve(folder: Path) -> list[dict[str, str]]:
    """The lines of the curve without the times."""
    with (folder / "metrics.csv").open(newline="") as stream:
        return [{k: v for k, v in row.items() if "seconds" not in k} for row in csv.DictReader(stream)]


def kept(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of all best checkpoints in a folder."""
    files = sorted(path for path in folder.glob("*best.ckpt"))
    return {f"{p.name}/{n}": value for p in files for n, value in load_checkpoint(p)["state_dict"].items()}
