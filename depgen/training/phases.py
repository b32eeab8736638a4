"""Training in phases: one `fit` that moves from one objective to the next, and is resumed in either."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.trainer.states import TrainerFn

from depgen.errors import UserError
from depgen.training.checkpoints import load_checkpoint

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Phase:
    """A stretch of training with one objective, optimiser and schedule.

    Attributes:
        name: names its checkpoint, `<name>-best.ckpt`.
        epochs: its length; None = up to the trainer's `max_epochs` (only the last phase may be open-ended).
        monitor: the logged value whose minimum marks the phase's best weights.
        finite: a logged value that is infinite where training has diverged, although `monitor` is not: a loss of 1,000
            nats is a number, its perplexity is none. Not looked at where it is not logged.
    """

    name: str
    epochs: int | None
    monitor: str
    finite: str = "val/perplexity"

    def __post_init__(self) -> None:
        assert self.epochs is None or self.epochs > 0, f"phase {self.name} has {self.epochs} epochs"


def phases_of(model: L.LightningModule) -> tuple[Phase, ...]:
    """The phases that a model declares; a model that declares none has one, judged by `val/loss`."""
    phases: tuple[Phase, ...] = getattr(model, "phases", None) or (Phase("training", None, "val/loss"),)
    assert all(phase.epochs is not None for phase in phases[:-1]), "only the last phase may be open-ended"
    return phases


def known_epochs(phases: tuple[Phase, ...]) -> int:
    """The epochs of all phases whose length is set."""
    return sum(phase.epochs for phase in phases if phase.epochs is not None)


def epochs_in_all(phases: tuple[Phase, ...], max_epochs: int | None, max_steps: int = -1) -> int | None:
    """The epochs of a whole run: the trainer's limit, or where there is none, the sum of the phases' lengths.

    Raises:
        UserError: the limit leaves no epoch to some phase.
    """
    total, bounded = known_epochs(phases), phases[-1].epochs is not None
    if max_epochs is None:
        return total if bounded else None
    if max_epochs < 0 or max_steps != -1:
        return max_epochs
    if bounded:
        _check_minimum(max_epochs, len(phases))
    elif max_epochs <= total:
        raise UserError(
            f"trainer.max_epochs is {max_epochs}, but the phases before {phases[-1].name} already last {total} epochs. "
            "Set it to more."
        )
    return max_epochs


def scaled(lengths: Sequence[int], total: int) -> tuple[int, ...]:
    """Lengths of phases that sum to `total`, in the given proportions as far as each is at least 1.

    Epochs left over by rounding go where most is missing; of two such phases, to the later one.

    >>> scaled((4, 4), 2), scaled((30, 10), 5), scaled((2, 2), 3)
    ((1, 1), (4, 1), (1, 2))

    Raises:
        UserError: there are fewer epochs than phases.
    """
    _check_minimum(total, len(lengths))
    shares = [total * length / sum(lengths) for length in lengths]
    found = [1] * len(lengths)
    for _ in range(total - len(lengths)):
        missing = [share - length for share, length in zip(shares, found, strict=True)]
        found[max(range(len(found)), key=lambda index: (missing[index], index))] += 1
    return tuple(found)


def lengthened(lengths: Sequence[int], total: int) -> tuple[int, ...]:
    """Lengths of phases that sum to `total`: the last phase gets what the earlier ones leave.

    >>> lengthened((1, 1), 6)
    (1, 5)

    Raises:
        UserError: the earlier phases leave no epoch.
    """
    earlier = sum(lengths[:-1])
    if total <= earlier:
        raise UserError(
            f"trainer.max_epochs is {total}, but the phases before the last one already last {earlier} epochs. "
            f"Set it to {earlier + 1} or more."
        )
    return (*lengths[:-1], total - earlier)


def _check_minimum(epochs: int, phases: int) -> None:
    if epochs < phases:
        raise UserError(
            f"trainer.max_epochs is {epochs}, but the model trains in {phases} phases of at least one epoch each. "
            f"Set it to {phases} or more."
        )


LIGHTNING_DEFAULT = 1000
"""`max_epochs` of a `Trainer()` to which none is given."""


def _enter(model: L.LightningModule, index: int) -> None:
    enter: Any = getattr(model, "enter_phase", None)
    if enter is not None:
        enter(index)


class PhaseSwitch(L.Callback):
    """Moves a model through its phases within one `fit`.

    When a phase is over, its best weights are loaded, `model.enter_phase(index)` is called, and optimiser and schedule
    are made afresh. Every checkpoint has the phase as `checkpoint["phase"]`, so that a run resumes in any phase.
    A phase that stops early gives way to the next one, which still gets its own full length.
    """

    def __init__(self, folder: Path) -> None:
        """Take the best weights of each phase from `folder/<phase>-best.ckpt`."""
        self.folder = folder
        self.phases: tuple[Phase, ...] = ()
        self.index = 0
        self.first_epoch = 0
        self.stopped_at: int | None = None
        self.validated = False
        self._open_length: int | None = None
        self._max_epochs: int | None = None
        self._restored = False
        self._kept_lengths: list[int] | None = None

    @classmethod
    def of(cls, trainer: L.Trainer) -> "PhaseSwitch | None":
        """The switch among a trainer's callbacks."""
        return next((callback for callback in trainer.callbacks if isinstance(callback, cls)), None)  # type: ignore[attr-defined]

    @property
    def phase(self) -> Phase:
        """The phase being trained."""
        return self.phases[self.index]

    @property
    def in_last_phase(self) -> bool:
        """Whether no other phase follows."""
        return self.index == len(self.phases) - 1

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Read the model's phases, and scale their lengths in proportion where they don't sum to `trainer.max_epochs`.

        Raises:
            UserError: `trainer.max_epochs` leaves no epoch to some phase.
        """
        self.phases, self._restored, self._kept_lengths = phases_of(pl_module), False, None
        if trainer.state.fn == TrainerFn.FITTING and trainer.current_epoch == 0:  # a checkpoint is loaded later
            self.index, self.first_epoch, self.stopped_at, self.validated = 0, 0, None, False
            _enter(pl_module, 0)
        if trainer.state.fn != TrainerFn.FITTING or trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        epochs = epochs_in_all(self.phases, trainer.max_epochs, trainer.max_steps)
        if self.phases[-1].epochs is None:
            self._open_length = None if epochs is None or epochs < 0 else epochs - known_epochs(self.phases)
            return
        given = epochs is not None and epochs >= 0 and trainer.max_steps == -1 and epochs != LIGHTNING_DEFAULT
        self._max_epochs = epochs if given else None
        if self._max_epochs is not None:
            self._give(scaled(self._lengths(), self._max_epochs))
        self._limit(trainer)

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Bring lengths and limit in line with what a checkpoint has brought back; there, only the last phase grows."""
        declared = phases_of(pl_module)
        if self._restored and declared[-1].epochs is not None:
            lengths = self._kept_lengths or [phase.epochs for phase in declared if phase.epochs is not None]
            self._give(lengths if self._max_epochs is None else lengthened(lengths, self._max_epochs))
        elif self.phases != declared:
            pairs = zip(self.phases, declared, strict=True)
            listed = ", ".join(f"{new.name} {new.epochs} (of {old.epochs})" for new, old in pairs)
            logger.info("trainer.max_epochs is %d, so the phases are scaled: %s.", known_epochs(self.phases), listed)
        self._limit(trainer)

    def _lengths(self) -> list[int]:
        return [phase.epochs for phase in self.phases if phase.epochs is not None]

    def _give(self, lengths: Sequence[int]) -> None:
        self.phases = tuple(replace(each, epochs=n) for each, n in zip(self.phases, lengths, strict=True))

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Enter the next phase when the one at hand is over."""
        self._switch_when_due(trainer, pl_module)

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """The same, for a resumed epoch whose start Lightning does not announce."""
        self._switch_when_due(trainer, pl_module)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Remember that the phase at hand must have a best checkpoint."""
        if trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking and not trainer.fast_dev_run:  # type: ignore[attr-defined]
            self.validated = True

    def end_phase(self, trainer: L.Trainer) -> None:
        """Let the phase end with the epoch at hand; the last phase ends the training."""
        self.stopped_at = trainer.current_epoch + 1
        if self.in_last_phase:
            self._limit(trainer)

    def is_over(self, trainer: L.Trainer) -> bool:
        """Whether training has come to the end of the last phase, and was not stopped on the way."""
        steps, end = trainer.max_steps, self._end()
        out_of_steps = steps > 0 and trainer.global_step >= steps
        return self.in_last_phase and (out_of_steps or (end is not None and trainer.current_epoch >= end))

    def _end(self) -> int | None:
        """The epoch at which the phase at hand is over."""
        if self.stopped_at is not None:
            return self.stopped_at
        length = self.phase.epochs if self.phase.epochs is not None else self._open_length
        return None if length is None else self.first_epoch + length

    def _switch_when_due(self, trainer: L.Trainer, model: L.LightningModule) -> None:
        end = self._end()
        if self.in_last_phase or end is None or trainer.current_epoch < end:
            return
        self._load_best(trainer, model)
        self.index += 1
        self.first_epoch, self.stopped_at, self.validated = trainer.current_epoch, None, False
        _enter(model, self.index)
        trainer.callback_metrics.clear()  # Lightning keeps what this phase may not log any more
        trainer.strategy.setup_optimizers(trainer)
        self._limit(trainer)
        logger.info(
            "Phase %d of %d, %s, starts at epoch %d.",
            self.index + 1,
            len(self.phases),
            self.phase.name,
            self.first_epoch,
        )

    def check_best(self, trainer: L.Trainer) -> bool:
        """Whether the phase at hand, which is over, has a best checkpoint; a phase that was never validated has none.

        Raises:
            UserError: it was validated and has none, or not all processes see it.
        """
        best = self.folder / f"{self.phase.name}-best.ckpt"
        seen = self.validated and best.exists()  # else the file is of another fit
        seen_by_first = trainer.strategy.broadcast(seen)
        if trainer.strategy.reduce_boolean_decision(seen, all=True) != seen_by_first:
            raise UserError(
                f"The first process sees the best checkpoint of phase {self.phase.name} at {best.absolute()}, but not "
                "all processes see it. Let DEPGEN_RUNS name a folder that all machines share."
            )
        if not seen_by_first and self.validated:
            raise UserError(
                f"Phase {self.phase.name} has diverged: {self.phase.monitor} (or {self.phase.finite}) was never "
                f"finite, so that there is no best checkpoint at {best.absolute()} (or that file was taken away). "
                "Begin a new run with a lower learning rate, a longer warm-up or clipped gradients "
                "(trainer.gradient_clip_val)."
            )
        return bool(seen_by_first)

    def _load_best(self, trainer: L.Trainer, model: L.LightningModule) -> None:
        """Load the best weights of the phase at hand; all processes do, or none does."""
        best = self.folder / f"{self.phase.name}-best.ckpt"
        if not self.check_best(trainer):
            logger.warning("No best checkpoint of phase %s at %s: its last weights are used.", self.phase.name, best)
            return
        model.load_state_dict(load_checkpoint(best)["state_dict"])

    def _limit(self, trainer: L.Trainer) -> None:
        """Let `fit` end with the last phase, wherever the earlier ones ended."""
        end = self._end()
        later = [self._open_length if phase.epochs is None else phase.epochs for phase in self.phases[self.index + 1 :]]
        if end is None or None in later or trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        trainer.fit_loop.max_epochs = end + sum(length for length in later if length is not None)

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Keep the phase's index where any reader of the checkpoint finds it."""
        checkpoint["phase"] = self.index

    def on_load_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Bring the model into the checkpoint's phase, before its optimiser is made."""
        self.index = int(checkpoint.get("phase", 0))
        _enter(pl_module, self.index)

    def state_dict(self) -> dict[str, Any]:
        """When the phase began, whether it has been stopped and validated, and the phases' lengths."""
        return {
            "first_epoch": self.first_epoch,
            "stopped_at": self.stopped_at,
            "validated": self.validated,
            "lengths": self._lengths(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self.first_epoch, self.stopped_at = state_dict["first_epoch"], state_dict["stopped_at"]
        self.validated = state_dict.get("validated", False)
        self._restored, self._kept_lengths = True, state_dict.get("lengths")


class PhaseEarlyStopping(L.Callback):
    """Ends a phase whose monitored value has not fallen for some validations; the last phase ends the training."""

    def __init__(self, patience: int = 5, min_delta: float = 0.0) -> None:
        """Allow `patience` validations in a row without a fall of more than `min_delta`."""
        self.patience = patience
        self.min_delta = min_delta
        self.best = float("inf")
        self.waited = 0
        self.index = 0

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Count validations without improvement.

        Raises:
            UserError: the model does not log what its phase is judged by.
        """
        if trainer.state.fn != TrainerFn.FITTING or trainer.sanity_checking or trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        switch = PhaseSwitch.of(trainer)
        assert switch is not None, "PhaseEarlyStopping needs PhaseSwitch"
        if switch.index != self.index:
            self.best, self.waited, self.index = float("inf"), 0, switch.index
        value = monitored_value(trainer, switch.phase)
        improved = value < self.best - self.min_delta
        self.best, self.waited = (value, 0) if improved else (self.best, self.waited + 1)
        if trainer.strategy.reduce_boolean_decision(self.waited >= self.patience, all=False):
            switch.end_phase(trainer)
            logger.info(
                "Phase %s stops early: %s has not fallen for %d validations.",
                switch.phase.name,
                switch.phase.monitor,
                self.waited,
            )

    def state_dict(self) -> dict[str, Any]:
        """The best value and the validations since."""
        return {"best": self.best, "waited": self.waited, "index": self.index}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self.best, self.waited, self.index = state_dict["best"], state_dict["waited"], state_dict["index"]


def refuse_early_stopping(callbacks: Iterable[L.Callback], model: L.LightningModule) -> None:
    """Raises UserError if one of the callbacks is Lightning's `EarlyStopping`.

    Raises:
        UserError: it is, and would end all phases at once.
    """
    if any(isinstance(each, EarlyStopping) for each in callbacks):
        raise UserError(
            f"EarlyStopping would end the whole training of {' and '.join(each.name for each in phases_of(model))} at "
            "once, and the run would count as one that was stopped on the way. Take "
            "depgen.training.phases.PhaseEarlyStopping (experiments/presets/early_stopping.yaml), which ends the phase "
            "at hand."
        )


def monitored_value(trainer: L.Trainer, phase: Phase) -> float:
    """The latest value of what a phase is judged by; infinity for NaN, or where training has diverged.

    Raises:
        UserError: nothing is logged under that name.
    """
    value = trainer.callback_metrics.get(phase.monitor)
    if value is None:
        raise UserError(
            f"Phase {phase.name} is judged by {phase.monitor!r}, which the model does not log; "
            f"it logs {', '.join(sorted(trainer.callback_metrics)) or 'nothing'}."
        )
    others = [trainer.callback_metrics[name] for name in (phase.finite,) if name in trainer.callback_metrics]
    return float(value) if all(bool(torch.isfinite(each)) for each in (value, *others)) else float("inf")
