"""The callbacks of a training: those that a system brings into any Trainer, and those of a run folder."""

from pathlib import Path

import lightning as L

from depgen.training.guards import DiskGuard, InterruptGuard, LossGuard, ProjectedTime
from depgen.training.keeping import FinishRecord, PhaseCheckpoint, Resume
from depgen.training.logs import CurveKeeper
from depgen.training.phases import PhaseSwitch, phases_of
from depgen.training.randomness import StepSeed


def phase_callbacks(model: L.LightningModule, folder: Path) -> list[L.Callback]:
    """Callbacks that train a model's phases one after the other, with their best checkpoints in `folder`."""
    return [PhaseSwitch(folder), StepSeed(), *(PhaseCheckpoint(folder, phase) for phase in phases_of(model))]


def run_callbacks(folder: Path, *, resume_every_n_steps: int, interrupt: InterruptGuard) -> list[L.Callback]:
    """Callbacks that make a `fit` resumable and stop it in good order, with its checkpoints in `folder`."""
    return [
        CurveKeeper(),
        DiskGuard(folder),
        LossGuard(folder),
        ProjectedTime(),
        interrupt,
        Resume(folder, every_n_steps=resume_every_n_steps, interrupt=interrupt),
        FinishRecord(folder.parent),
    ]
