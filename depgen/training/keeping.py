"""Callbacks that decide which checkpoints are kept: the best of each phase, and the latest, to resume from."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.trainer.states import TrainerFn

from depgen.training.checkpoints import link_or_copy
from depgen.training.guards import Interrupted, InterruptGuard, is_settled
from depgen.training.phases import Phase, PhaseSwitch, monitored_value
from depgen.training.runs import BEST, RESUME, is_finished, update_record


def _idle(trainer: L.Trainer) -> bool:
    return bool(trainer.state.fn != TrainerFn.FITTING or trainer.sanity_checking or trainer.fast_dev_run)  # type: ignore[attr-defined]


class PhaseCheckpoint(Checkpoint):
    """Keeps the best checkpoint of one phase as `<phase>-best.ckpt`; that of the last phase as `best.ckpt` too."""

    def __init__(self, folder: Path, phase: Phase) -> None:
        """Write into `folder` whenever `phase.monitor` reaches a new minimum while that phase is trained."""
        self.folder = folder
        self.phase = phase
        self.best = float("inf")

    @property
    def state_key(self) -> str:
        """One state a phase."""
        return f"PhaseCheckpoint[{self.phase.name}]"

    @property
    def path(self) -> Path:
        """The file of the phase's best weights."""
        return self.folder / f"{self.phase.name}-best.ckpt"

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Keep the weights when they are the phase's best so far."""
        switch = PhaseSwitch.of(trainer)
        assert switch is not None, "PhaseCheckpoint needs PhaseSwitch"
        if _idle(trainer) or switch.phase.name != self.phase.name:
            return
        value = monitored_value(trainer, self.phase)
        if not trainer.strategy.broadcast(value < self.best):
            return
        self.best = value
        trainer.save_checkpoint(self.path)
        if switch.in_last_phase and trainer.is_global_zero:
            link_or_copy(self.path, self.folder / BEST)
        trainer.strategy.barrier("best checkpoint")
        _tell_loggers(trainer)

    def state_dict(self) -> dict[str, Any]:
        """The best value so far."""
        return {"best": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self.best = state_dict["best"]


def best_value(checkpoint: Mapping[str, Any], phase: Phase) -> float | None:
    """What a phase is judged by, at its best before a checkpoint was written; None where the checkpoint lacks it.

    >>> phase = Phase("training", None, "val/loss")
    >>> best_value({"callbacks": {"PhaseCheckpoint[training]": {"best": 4.5}}}, phase), best_value({}, phase)
    (4.5, None)
    """
    state = checkpoint.get("callbacks", {}).get(PhaseCheckpoint(Path(), phase).state_key, {})
    value = state.get("best")
    return None if value is None else float(value)


class Resume(Checkpoint):
    """Keeps the latest state as `resume.ckpt`: every some steps, at each epoch's end, and when interrupted.

    On an epoch's last batch it waits for the epoch's end: Lightning would otherwise skip that epoch's validation, and
    the start of the next one, after a resume; where a validation follows within an epoch, for the batch after it. As
    a `Checkpoint` it is called after all other callbacks, whatever their order, so that their states are settled.
    """

    def __init__(self, folder: Path, *, every_n_steps: int, interrupt: InterruptGuard | None = None) -> None:
        """Write into `folder` every `every_n_steps` optimiser steps."""
        self.folder = folder
        self.every_n_steps = every_n_steps
        self.interrupt = interrupt
        self._saved_at = 0
        self._due = False

    @property
    def path(self) -> Path:
        """The file to resume from."""
        return self.folder / RESUME

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        """Save in mid-epoch."""
        step = trainer.global_step
        self._due = self._due or (step % self.every_n_steps == 0 and step != self._saved_at)
        if self._due and is_settled(trainer):
            self._save(trainer)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Save at the epoch's end, and stop here if a signal came during its last batch or validation."""
        self._save(trainer)
        if self.interrupt is not None and self.interrupt.agreed(trainer):
            raise Interrupted

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        """Save when stopped between two steps; after any other exception the last good file stays."""
        if isinstance(exception, Interrupted) and trainer.global_step != self._saved_at:
            self._save(trainer)

    def _save(self, trainer: L.Trainer) -> None:
        if _idle(trainer):
            return
        trainer.save_checkpoint(self.path)
        self._saved_at, self._due = trainer.global_step, False
        _tell_loggers(trainer)


class FinishRecord(L.Callback):
    """Says in `run.json` how many parameters are trained with, and that a run has come to the end of its last phase."""

    def __init__(self, run: Path) -> None:
        """Write to the record of `run`."""
        self.run = run

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Count the parameters, those too that `configure_model` has made."""
        if trainer.is_global_zero and (self.run / "run.json").is_file() and not trainer.fast_dev_run:  # type: ignore[attr-defined]
            update_record(self.run, {"parameters": sum(each.numel() for each in pl_module.parameters())})

    def on_fit_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Say it, unless training was stopped on the way or had been finished before.

        A run that was stopped after its last step has nothing left to train: there Lightning ends a fit without the
        end of a training.

        Raises:
            UserError: nothing that the last phase is judged by was finite.
        """
        switch = PhaseSwitch.of(trainer)
        over = switch is not None and switch.is_over(trainer) and not trainer.fast_dev_run  # type: ignore[attr-defined]
        if switch is None or not over or not (self.run / "run.json").is_file() or is_finished(self.run):
            return
        switch.check_best(trainer)
        if trainer.is_global_zero:
            update_record(self.run, {"finished": datetime.now(UTC).isoformat(), "steps": trainer.global_step})


def _tell_loggers(trainer: L.Trainer) -> None:
    """Let loggers write out what they hold, so that the curve on disk reaches as far as the weights."""
    if trainer.is_global_zero:
        for each in trainer.loggers:
            each.save()
