"""Runs of the tiny system with all of a run's callbacks, broken off wherever a test wants."""

import os
from pathlib import Path
from unittest.mock import patch

import lightning as L
import torch
from depgen.training.assembly import phase_callbacks, run_callbacks
from depgen.training.guards import InterruptGuard

from depgen.training.checkpoints import CheckpointWriter, load_checkpoint
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
    interrupt=None, **options,
):  # fmt: skip
    """Train in `folder`; the trainer and the model."""
    model = model if model is not None else TinyModel(3)
    interrupt = interrupt or InterruptGuard()
    callbacks = [
        *phase_callbacks(model, folder),
        *run_callbacks(folder, resume_every_n_steps=every, interrupt=interrupt),
    ]
    settings = {
        "accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_model_summary": False,
        "use_distributed_sampler": False, "reload_dataloaders_every_n_epochs": 1, "num_sanity_val_steps": 0,
        "gradient_clip_val": 1.0,
    }  # fmt: skip
    trainer = L.Trainer(
        max_epochs=max_epochs, callbacks=[*extra, *callbacks], plugins=[CheckpointWriter()], **{**settings, **options}
    )
    path = folder / "resume.ckpt"
    with patch.dict(os.environ, {"PL_GLOBAL_SEED": "5"}):
        trainer.fit(model, data or TinyData(), ckpt_path=str(path) if resume and path.exists() else None)
    return trainer, model


def weights(model) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(left, right) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def kept(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of all best checkpoints in a folder."""
    files = sorted(path for path in folder.glob("*best.ckpt"))
    return {f"{p.name}/{n}": value for p in files for n, value in load_checkpoint(p)["state_dict"].items()}
