"""The latest state of a run, from which training goes on exactly after Ctrl-C or a kill."""

import logging
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Checkpoint

from depgen.training.logs import CurveLogger
from depgen.training.runs import RESUME

logger = logging.getLogger(__name__)


class Resume(Checkpoint):
    """Keeps the latest state as `resume.ckpt`: every some steps, at each epoch's end, and when it is stopped by Ctrl-C.

    A second Ctrl-C stops at once. SIGTERM counts as Ctrl-C in a run of one process. On an epoch's last batch both saves
    and stops wait for the epoch's end: Lightning would otherwise skip that epoch's validation, and the start of the
    next one, after a resume; where a validation follows within an epoch, for the batch after it. As a `Checkpoint` it
    is called after all other callbacks, whatever their order, so that their states are settled.
    """

    poll_every = 10
    """Several processes agree on a stop every this many batches: the signal reaches them at different steps."""

    def __init__(self, folder: Path, *, every_n_steps: int = 500) -> None:
        """Write into `folder` every `every_n_steps` optimiser steps."""
        self.path = folder / RESUME
        self.every_n_steps = every_n_steps
        self.requested = False
        self._saved_at = 0
        self._due = False
        self._former: dict[int, Any] = {}

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Listen to signals, and let the curve continue from the step of the checkpoint."""
        for curve in trainer.loggers:
            if isinstance(curve, CurveLogger):
                curve.forget_from(trainer.global_step)
        if threading.current_thread() is threading.main_thread():
            signals = [signal.SIGINT] if trainer.world_size > 1 else [signal.SIGINT, signal.SIGTERM]
            self._former = {number: signal.signal(number, self._request) for number in signals}

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        logger.warning("%s: stopping after this step; once more stops at once, unsaved.", signal.Signals(number).name)

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        """Save, or stop, between two steps."""
        step = trainer.global_step
        self._due = self._due or (step % self.every_n_steps == 0 and step != self._saved_at)
        if not _is_settled(trainer):
            return
        polled = trainer.world_size == 1 or (batch_idx + 1) % self.poll_every == 0
        stops = polled and self._agreed(trainer)
        if self._due or stops:
            # Lightning logs a step's figures only after this hook, when a kill might prevent it
            trainer._logger_connector.update_train_step_metrics()
            self._save(trainer)
        if stops:
            raise KeyboardInterrupt

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Save at the epoch's end, and stop here if a signal came during its last batch or validation."""
        self._save(trainer)
        if self._agreed(trainer):
            raise KeyboardInterrupt

    def _agreed(self, trainer: L.Trainer) -> bool:
        """Whether any process was signalled to stop."""
        if trainer.world_size == 1:
            return self.requested
        return bool(trainer.strategy.reduce_boolean_decision(self.requested, all=False))

    def _save(self, trainer: L.Trainer) -> None:
        if trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        trainer.save_checkpoint(self.path)
        self._saved_at, self._due = trainer.global_step, False

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Stop listening."""
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._former = {}

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        """Stop listening."""
        self.on_train_end(trainer, pl_module)


def _is_settled(trainer: L.Trainer) -> bool:
    """Whether a state saved at the end of this batch can be resumed exactly.

    It is not within a step of several batches, nor on an epoch's last batch or one that a validation follows: after a
    resume Lightning would take that validation for done.
    """
    loop = trainer.fit_loop  # private names: Lightning decides on both within the batch, and tells nobody
    if trainer.is_last_batch or loop._should_accumulate():
        return False
    fetcher = loop._data_fetcher
    assert fetcher is not None
    return not loop.epoch_loop._should_check_val_fx(fetcher)
