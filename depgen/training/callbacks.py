"""Callbacks of a run folder: a stop at a loss that is no number, lines in the log, and what `run.json` keeps."""

import io
import logging
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from torch import Tensor

from depgen.errors import UserError
from depgen.locations import lines_sha256, write_atomically
from depgen.training.checkpoints import load_checkpoint
from depgen.training.evaluated import TEST_ITEMS
from depgen.training.phases import Phases, validates_fit
from depgen.training.runs import is_finished, update_record

logger = logging.getLogger(__name__)


class LossGuard(L.Callback):
    """Stops a run whose loss is NaN or infinite, before a checkpoint is written after it.

    A GPU is not waited for: there a step sees the loss of the step before, and each checkpoint the latest one.
    """

    def __init__(self) -> None:
        self._loss: Tensor | None = None

    def on_before_backward(self, trainer: L.Trainer, pl_module: L.LightningModule, loss: Tensor) -> None:
        """Look at the loss."""
        if loss.device.type != "cpu":
            self._check(trainer)
        self._loss = loss.detach()
        if loss.device.type == "cpu":
            self._check(trainer)

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Look at the loss that led to the weights."""
        self._check(trainer)

    def _check(self, trainer: L.Trainer) -> None:
        if self._loss is not None and not bool(torch.isfinite(self._loss)):
            raise UserError(
                f"The training loss is {float(self._loss):g} at or just before step {trainer.global_step} (epoch "
                f"{trainer.current_epoch}); the last good checkpoint stays. Lower the learning rate, lengthen the "
                "warm-up or clip the gradients (trainer.gradient_clip_val)."
            )


class ProgressLines(L.Callback):
    """Logs at each validation the losses, the best value and the time so far."""

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Start the clock."""
        self._started = time.monotonic()

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Log the line."""
        if not validates_fit(trainer) or not trainer.is_global_zero:
            return
        phases = Phases.of(trainer)
        figures = {name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith("val/")}
        if "train/loss" in trainer.callback_metrics:
            figures = {"train/loss": float(trainer.callback_metrics["train/loss"]), **figures}
        logger.info(
            "Epoch %d of %s, step %d, phase %s: %s; best %s %.4g; %s.",
            trainer.current_epoch + 1,
            trainer.max_epochs,
            trainer.global_step,
            phases.phase.name,
            ", ".join(f"{name} {figure:.4g}" for name, figure in figures.items()),
            phases.phase.monitor,
            min(phases.best, phases.value(trainer)),
            timedelta(seconds=round(time.monotonic() - self._started)),
        )


class InitialWeights(L.Callback):
    """Begins a training with the weights of another run."""

    def __init__(self, checkpoint: Path) -> None:
        """Take those of `checkpoint`."""
        self.checkpoint = checkpoint

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Load them, once `configure_model` has made all layers.

        Raises:
            UserError: they are of another system.
        """
        try:
            pl_module.load_state_dict(load_checkpoint(self.checkpoint)["state_dict"])
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise UserError(f"The weights of {self.checkpoint} are of another system: {reason:.400}") from error


class RunRecord(L.Callback):
    """Says in `run.json` how many parameters are trained with, and that a run has come to the end of its last phase."""

    def __init__(self, run: Path) -> None:
        """Write to the record of `run`."""
        self.run = run

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Count the parameters, those too that `configure_model` has made."""
        if trainer.is_global_zero and not trainer.fast_dev_run:  # type: ignore[attr-defined]
            update_record(self.run, {"parameters": sum(each.numel() for each in pl_module.parameters())})

    def on_fit_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Say it, unless training was stopped on the way or had been finished before.

        A run that was stopped after its last step has nothing left to train: there Lightning ends a fit without the
        end of a training.
        """
        over = Phases.of(trainer).is_over(trainer) and not trainer.fast_dev_run  # type: ignore[attr-defined]
        if over and trainer.is_global_zero and not is_finished(self.run):
            update_record(self.run, {"finished": datetime.now(UTC).isoformat(), "steps": trainer.global_step})


def takes_everything(trainer: L.Trainer, verb: str) -> bool:
    """Whether a trainer sees the whole split that `test` or `validate` goes over."""
    limit = trainer.limit_test_batches if verb == "test" else trainer.limit_val_batches
    return not trainer.fast_dev_run and isinstance(limit, float) and limit == 1.0  # type: ignore[attr-defined]


class ItemScoreWriter(L.Callback):
    """Writes `TEST_ITEMS` into a run folder after a test of the whole split, by the model's `test_scores()`.

    `test_scores` gathers over processes, so all of them call it. A model without it, or whose scores are None, leaves
    no file.
    """

    def __init__(self, run: Path) -> None:
        self.run = run

    def on_test_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write."""
        test_scores = getattr(pl_module, "test_scores", None)
        scores = test_scores() if test_scores is not None and takes_everything(trainer, "test") else None
        if scores is None or not trainer.is_global_zero:
            return
        items, nll, tokens, words = scores
        arrays = {
            "items": np.asarray(items, dtype=np.int64),
            "nll": np.asarray(nll, dtype=np.float64),
            "tokens": np.asarray(tokens, dtype=np.int64),
            "words": np.asarray(words, dtype=np.int64),
            **_digests_of_split(trainer),
        }
        stream = io.BytesIO()
        np.savez(stream, **arrays)
        write_atomically(self.run / TEST_ITEMS, stream.getvalue())


def _digests_of_split(trainer: L.Trainer) -> dict[str, Any]:
    corpus = getattr(getattr(trainer, "datamodule", None), "corpus", None)
    if corpus is None:
        return {}
    sentences = (" ".join(each.words) for document in corpus.documents("test") for each in document.sentences)
    return {"data": np.asarray(corpus.fingerprint("test")), "sentences": np.asarray(lines_sha256(sentences))}
