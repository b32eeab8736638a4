"""Training in phases: one `fit` that moves from one objective to the next, and is resumed in either."""

import logging
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Checkpoint, EarlyStopping
from lightning.pytorch.trainer.states import TrainerFn

from depgen.errors import UserError
from depgen.training.checkpoints import load_checkpoint
from depgen.training.runs import BEST
from depgen.training.schedules import take_length

logger = logging.getLogger(__name__)

WITHOUT_END = sys.maxsize
"""The epoch at which a phase ends where the trainer has no `max_epochs`."""
PERPLEXITY = "val/perplexity"


@dataclass(frozen=True)
class Phase:
    """A part of training with one objective, optimiser and schedule.

    Attributes:
        name: names its checkpoint, `<name>-best.ckpt`; that of the last phase is `best.ckpt`.
        share: its part of `trainer.max_epochs`, relative to the shares of the other phases.
        monitor: the logged value whose minimum marks the phase's best weights.
    """

    name: str
    share: float = 1.0
    monitor: str = "val/loss"


def phases_of(model: L.LightningModule) -> tuple[Phase, ...]:
    """The phases that a model declares; a model that declares none has one, judged by `val/loss`."""
    return getattr(model, "phases", None) or (Phase("training"),)


def after(first: Phase, second: Phase) -> tuple[Phase, ...]:
    """Two phases, the second of which gets the epochs that the first leaves; the second alone where the first has none.

    >>> [(phase.name, phase.share) for phase in after(Phase("dependencies", 0.25), Phase("words"))]
    [('dependencies', 0.25), ('words', 0.75)]

    Raises:
        UserError: the first one's share is no number from 0 to below 1.
    """
    if not 0 <= first.share < 1:
        raise UserError(f"{first.name}_share: expected a part of the epochs, from 0 to below 1, found {first.share}.")
    return (first, replace(second, share=1 - first.share)) if first.share else (second,)


def ends_of(shares: Sequence[float], max_epochs: int) -> tuple[int, ...]:
    """The epoch at which each phase ends; each has one epoch or more, and half an epoch goes to the later phase.

    >>> ends_of((0.5, 0.5), 60), ends_of((0.2, 0.8), 1000), ends_of((0.5, 0.5), 3), ends_of((0.99, 0.01), 10)
    ((30, 60), (200, 1000), (1, 3), (9, 10))

    Raises:
        UserError: there are fewer epochs than phases.
    """
    if len(shares) == 1:
        return (max_epochs if max_epochs >= 0 else WITHOUT_END,)
    if max_epochs < len(shares):
        raise UserError(
            f"trainer.max_epochs: expected {len(shares)} or more, as each of {len(shares)} phases has a share of them, "
            f"found {max_epochs}."
        )
    ends: list[int] = []
    for later, share in zip(range(len(shares) - 1, -1, -1), accumulate(shares), strict=True):
        end = math.ceil(max_epochs * share / sum(shares) - 0.5)
        ends.append(min(max(end, 1 + max(ends, default=0)), max_epochs - later))
    return tuple(ends)


class Phases(Checkpoint):
    """Moves a model through its phases within one `fit`, and keeps the best weights of each.

    A phase begins from the best weights of the one before: `model.enter_phase(index)` is called, and optimiser and
    schedule are made afresh. Every checkpoint has the phase as `checkpoint["phase"]`, so that a run resumes in any
    phase. A phase that stops early gives way to the next one, which still gets its full length.

    Args:
        folder: of the best weights.
    """

    state_key = "Phases"
    """Where a checkpoint keeps `state_dict()`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.phases: tuple[Phase, ...] = ()
        self.ends: tuple[int, ...] = ()
        self.index = 0
        self._begin(0, 0)
        self.saved_epochs = 0

    def _begin(self, epoch: int, step: int) -> None:
        """Begin a phase at an epoch and an optimiser step."""
        self.first_epoch, self.first_step = epoch, step
        self.best, self.validated, self.batches = math.inf, False, math.nan

    @classmethod
    def of(cls, trainer: L.Trainer) -> "Phases":
        """The phases of a trainer, whose model brings them."""
        phases = next((callback for callback in trainer.callbacks if isinstance(callback, cls)), None)  # type: ignore[attr-defined]
        assert phases is not None, "the model's configure_callbacks brings no Phases"
        return phases

    @property
    def phase(self) -> Phase:
        """The phase being trained."""
        return self.phases[self.index]

    @property
    def in_last_phase(self) -> bool:
        """Whether no other phase follows."""
        return self.index == len(self.phases) - 1

    @property
    def path(self) -> Path:
        """The file of the phase's best weights."""
        return self.folder / (BEST if self.in_last_phase else f"{self.phase.name}-best.ckpt")

    @property
    def end(self) -> int:
        """The epoch at which the phase is over."""
        return self.ends[self.index] - self.saved_epochs

    def is_over(self, trainer: L.Trainer) -> bool:
        """Whether training has come to the end of the last phase, neither stopped on the way nor diverged."""
        out_of_steps = 0 < trainer.max_steps <= trainer.global_step
        return self.in_last_phase and not self.diverged and (out_of_steps or trainer.current_epoch >= self.end)

    @property
    def diverged(self) -> bool:
        """Whether nothing that the phase was judged by so far was finite."""
        return self.validated and self.best == math.inf

    def value(self, trainer: L.Trainer) -> float:
        """The latest value of what the phase is judged by; infinity for NaN, and where perplexity is no number.

        A loss of 1,000 nats is a number, but training has diverged.
        """
        if self.phase.monitor not in trainer.callback_metrics:
            raise UserError(
                f"Phase {self.phase.name} is judged by {self.phase.monitor!r}, which the model does not log; "
                f"it logs {', '.join(sorted(trainer.callback_metrics)) or 'nothing'}."
            )
        value = float(trainer.callback_metrics[self.phase.monitor])
        perplexity = float(trainer.callback_metrics.get(PERPLEXITY, 1.0))
        return value if math.isfinite(value) and math.isfinite(perplexity) else math.inf

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Read the model's phases and their ends; a checkpoint is loaded later."""
        self.phases = phases_of(pl_module)
        if stage != "fit":
            return
        if any(isinstance(callback, EarlyStopping) for callback in trainer.callbacks):  # type: ignore[attr-defined]
            raise UserError(
                "EarlyStopping would end all phases at once. Take depgen.training.phases.PhaseEarlyStopping "
                "(experiments/presets/early_stopping.yaml), which ends the present phase."
            )
        epochs = trainer.max_epochs if trainer.max_epochs is not None else -1
        least = len(self.phases) if trainer.fast_dev_run else epochs  # type: ignore[attr-defined]
        self.ends = ends_of([phase.share for phase in self.phases], max(epochs, least))
        if trainer.current_epoch == 0:
            self.index, self.saved_epochs = 0, 0
            self._begin(0, 0)
            _enter(pl_module, 0)

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Keep in mind what phases that were stopped early have saved, which a checkpoint has brought back."""
        self._limit(trainer)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Tell schedules how long the phase is."""
        self._tell_length(trainer)

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """Enter the next phase when the present one is over; a resumed epoch's start Lightning does not announce."""
        if self.in_last_phase or trainer.current_epoch < self.end:
            return
        self._refuse_divergence()
        if self.validated:
            pl_module.load_state_dict(load_checkpoint(self.path)["state_dict"])
        else:
            logger.warning("Phase %s was never validated: its last weights are used.", self.phase.name)
        self.index += 1
        self._begin(trainer.current_epoch, trainer.global_step)
        _enter(pl_module, self.index)
        trainer.callback_metrics.clear()  # Lightning keeps what this phase may not log any more
        trainer.strategy.setup_optimizers(trainer)
        self._tell_length(trainer)
        name, number, phases = self.phase.name, self.index + 1, len(self.phases)
        logger.info("Phase %d of %d, %s, starts at epoch %d.", number, phases, name, self.first_epoch)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Keep the weights when they are the phase's best."""
        if not validates_fit(trainer):
            return
        self.validated = True
        value = self.value(trainer)
        if trainer.strategy.broadcast(value < self.best):
            self.best = value
            trainer.save_checkpoint(self.path)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Keep the last weights where the last phase was never validated."""
        if self.in_last_phase and not self.validated and not trainer.fast_dev_run:  # type: ignore[attr-defined]
            logger.warning("Phase %s was never validated: its last weights are kept as the best.", self.phase.name)
            trainer.save_checkpoint(self.path)

    def on_fit_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Refuse what has diverged, also where a resumed run has no epoch left."""
        if not trainer.fast_dev_run:  # type: ignore[attr-defined]
            self._refuse_divergence()

    def end_phase(self, trainer: L.Trainer) -> None:
        """Let the phase end with the present epoch; the last phase ends the training."""
        self.saved_epochs = self.ends[self.index] - (trainer.current_epoch + 1)
        self._limit(trainer)

    def _limit(self, trainer: L.Trainer) -> None:
        """Let `fit` end with the last phase, wherever the earlier ones ended."""
        if self.saved_epochs:
            trainer.fit_loop.max_epochs = self.ends[-1] - self.saved_epochs

    def _refuse_divergence(self) -> None:
        if self.diverged:
            raise UserError(
                f"Phase {self.phase.name} has diverged: {self.phase.monitor} (or {PERPLEXITY}) was never finite. "
                "Begin a new run with a lower learning rate, a longer warm-up or clipped gradients "
                "(trainer.gradient_clip_val)."
            )

    def _tell_length(self, trainer: L.Trainer) -> None:
        """Tell schedules how many optimiser steps the phase has, by the number of batches in its first epoch."""
        if math.isnan(self.batches):
            self.batches = float(trainer.num_training_batches)
        epochs = math.inf if self.ends[-1] == WITHOUT_END else self.end - self.first_epoch
        steps = epochs * -(-self.batches // trainer.accumulate_grad_batches)
        if trainer.max_steps > 0:
            steps = min(steps, trainer.max_steps - self.first_step)
        for config in trainer.lr_scheduler_configs:
            take_length(config.scheduler, steps, self.phase.name)

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Keep the phase's index where any reader of the checkpoint finds it."""
        checkpoint["phase"] = self.index

    def on_load_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Bring the model into the checkpoint's phase, before its optimiser is made."""
        self.index = int(checkpoint["phase"])
        _enter(pl_module, self.index)

    def state_dict(self) -> dict[str, Any]:
        """Where the phase began, its best value, whether it was validated, and what earlier phases have saved."""
        names = ("first_epoch", "first_step", "best", "validated", "batches", "saved_epochs")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        for name, value in state_dict.items():
            setattr(self, name, value)


def best_value(checkpoint: Mapping[str, Any]) -> float | None:
    """The lowest value, so far, of what the phase of a checkpoint is judged by; None for bare weights."""
    state = checkpoint.get("callbacks", {}).get("Phases")
    return None if state is None else float(state["best"])


def validates_fit(trainer: L.Trainer) -> bool:
    """Whether a validation is one of a `fit`, neither its sanity check nor a trial run's."""
    trial = trainer.sanity_checking or trainer.fast_dev_run  # type: ignore[attr-defined]
    return trainer.state.fn == TrainerFn.FITTING and not trial


def _enter(model: L.LightningModule, index: int) -> None:
    enter: Any = getattr(model, "enter_phase", None)
    if enter is not None:
        enter(index)


class PhaseEarlyStopping(L.Callback):
    """Ends a phase after `patience` validations in a row without a new best; the last phase ends the training."""

    def __init__(self, patience: int = 5) -> None:
        self.patience = patience
        self.best = math.inf
        self.waited = 0
        self.index = 0

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Count validations without improvement."""
        if not validates_fit(trainer):
            return
        phases = Phases.of(trainer)
        if phases.index != self.index:
            self.best, self.waited, self.index = math.inf, 0, phases.index
        value = phases.value(trainer)
        improved = value < self.best
        self.best, self.waited = (value, 0) if improved else (self.best, self.waited + 1)
        if trainer.strategy.reduce_boolean_decision(self.waited >= self.patience, all=False):
            phases.end_phase(trainer)
            logger.info("Phase %s stops early after %d validations without a fall.", phases.phase.name, self.waited)

    def state_dict(self) -> dict[str, Any]:
        """The best value and the validations since."""
        return {"best": self.best, "waited": self.waited, "index": self.index}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self.best, self.waited, self.index = state_dict["best"], state_dict["waited"], state_dict["index"]
