"""A line in the log at each validation, for runs without a progress bar."""

import logging
import time
from collections.abc import Mapping
from typing import Any

import lightning as L
from lightning.pytorch.trainer.states import TrainerFn

from depgen.training.guards import duration
from depgen.training.keeping import PhaseCheckpoint
from depgen.training.logs import CurveLogger
from depgen.training.phases import PhaseSwitch, monitored_value

logger = logging.getLogger(__name__)


class ValidationLines(L.Callback):
    """Logs epoch, step, phase, training loss, validation figures, the phase's best value and the time at validations.

    The training loss is the mean over the batches since the last validation, on the first process. The time is that of
    all sessions of the run where its curve is kept, else that since the start.
    """

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._sum: Any = 0.0
        self._batches = 0

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Start the clock."""
        self._started, self._sum, self._batches = time.monotonic(), 0.0, 0

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        """Add the batch's loss, without waiting for the device."""
        if isinstance(outputs, Mapping) and "loss" in outputs:
            self._sum = self._sum + outputs["loss"].detach() * trainer.accumulate_grad_batches
            self._batches += 1

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Log the line."""
        if trainer.state.fn != TrainerFn.FITTING or trainer.sanity_checking or not trainer.is_global_zero:
            return
        switch = PhaseSwitch.of(trainer)
        assert switch is not None, "ValidationLines works with PhaseSwitch"
        figures = {name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith("val/")}
        if self._batches:
            figures = {"train/loss": float(self._sum) / self._batches, **figures}
        self._sum, self._batches = 0.0, 0
        value = monitored_value(trainer, switch.phase)
        best = min([value, *_best_of(trainer, switch)])  # the checkpoint callback follows
        shown = ", ".join(f"{name} {figure:.4g}" for name, figure in figures.items())
        logger.info(
            "Epoch %d, step %d, phase %s: %s; best %s %.4g; %s.",
            trainer.current_epoch + 1,
            trainer.global_step,
            switch.phase.name,
            shown,
            switch.phase.monitor,
            best,
            self._elapsed(trainer),
        )

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Log the last phase's best value."""
        switch = PhaseSwitch.of(trainer)
        best = [] if switch is None else _best_of(trainer, switch)
        if switch is not None and best and trainer.is_global_zero:
            logger.info(
                "Trained %d steps in %s; best %s of phase %s: %.6g.",
                trainer.global_step,
                self._elapsed(trainer),
                switch.phase.monitor,
                switch.phase.name,
                best[0],
            )

    def _elapsed(self, trainer: L.Trainer) -> str:
        kept = [each.seconds for each in trainer.loggers if isinstance(each, CurveLogger)]
        return duration(kept[0] if kept else time.monotonic() - self._started)


def _best_of(trainer: L.Trainer, switch: PhaseSwitch) -> list[float]:
    """The best value that the checkpoint callback of the phase at hand has kept, in a list; empty without one."""
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    return [
        each.best for each in callbacks if isinstance(each, PhaseCheckpoint) and each.phase.name == switch.phase.name
    ]
