"""The callbacks of a training run, in the order that they need."""

from pathlib import Path

import lightning as L

from depgen.training.guards import DiskGuard, InterruptGuard, LossGuard, ProjectedTime
from depgen.training.keeping import FinishRecord, PhaseCheckpoint, Resume
from depgen.training.logs import CurveKeeper
from depgen.training.phases import PhaseSwitch, phases_of
from depgen.training.randomness import StepSeed


def training_callbacks(
    model: L.LightningModule,
    folder: Path,
    *,
    resume_every_n_steps: int,
    interrupt: InterruptGuard,
) -> list[L.Callback]:
    """Everything that makes a `fit` of `model` resumable, with its checkpoints in `folder`.

    `PhaseSwitch` comes first of ours, so that they see the phase that a step belongs to; `Resume` late, so that it
    saves what the others have settled.
    """
    return [
        PhaseSwitch(folder),
        StepSeed(),
        CurveKeeper(),
        DiskGuard(folder),
        LossGuard(folder),
        ProjectedTime(),
        interrupt,
        *(PhaseCheckpoint(folder, phase) for phase in phases_of(model)),
        Resume(folder, every_n_steps=resume_every_n_steps, interrupt=interrupt),
        FinishRecord(folder.parent),
    ]
