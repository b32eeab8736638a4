"""Callbacks that stop a run in good order, or before it starts: NaN losses, Ctrl-C, a disk that is too small."""

import logging
import math
import shutil
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import lightning as L
import torch
from torch import Tensor

from depgen.errors import UserError
from depgen.locations import OTHER_RUNS, check_writable
from depgen.training.phases import PhaseSwitch, phases_of
from depgen.training.runs import BEST, RESUME

logger = logging.getLogger(__name__)


def is_settled(trainer: L.Trainer) -> bool:
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


class Interrupted(KeyboardInterrupt):
    """A stop, by a signal, that has waited for the end of a step, so that the state can be saved."""


class InterruptGuard(L.Callback):
    """Lets Ctrl-C wait for the step at hand; a second one stops at once.

    SIGTERM counts as Ctrl-C in a run of one process.

    On an epoch's last batch the stop is left to `Resume`, which saves at the epoch's end first; before a validation
    within an epoch it waits for the batch after it.
    """

    poll_every = 10
    """Several processes agree on a stop every this many batches: the signal reaches them at different steps."""

    def __init__(self) -> None:
        self.requested = False
        self._former: dict[int, signal._HANDLER] = {}

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Listen."""
        if threading.current_thread() is not threading.main_thread():
            return
        signals = [signal.SIGINT] if trainer.world_size > 1 else [signal.SIGINT, signal.SIGTERM]
        self._former = {number: signal.signal(number, self._request) for number in signals}

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        logger.warning("%s: stopping after this step; once more stops at once, unsaved.", signal.Signals(number).name)

    def agreed(self, trainer: L.Trainer) -> bool:
        """Whether any process was signalled to stop."""
        if trainer.world_size == 1:
            return self.requested
        return bool(trainer.strategy.reduce_boolean_decision(self.requested, all=False))

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        """Stop between two steps."""
        if not is_settled(trainer):
            return
        if (trainer.world_size == 1 or (batch_idx + 1) % self.poll_every == 0) and self.agreed(trainer):
            raise Interrupted

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Stop listening."""
        self._restore()

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        """Stop listening."""
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._former = {}


@dataclass(frozen=True)
class _Look:
    """A look at a step's loss, whose outcome may still be on its way from the GPU."""

    broken: Tensor
    arrived: torch.cuda.Event | None
    loss: Tensor
    items: Tensor | None
    place: str


class LossGuard(L.Callback):
    """Stops a run whose loss is no number, in all its processes at once.

    On a CPU it does so before that loss reaches the weights. A GPU is not waited for: there the outcome is read in the
    next step, or before the next checkpoint.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Name `folder`'s last good checkpoint in the message."""
        self.folder = folder
        self._items: Tensor | None = None
        self._batch_idx = 0
        self._open: _Look | None = None

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """Remember the batch's items, to name them."""
        items = getattr(batch, "items", None)
        self._items, self._batch_idx = items if isinstance(items, Tensor) else None, batch_idx

    def on_before_backward(self, trainer: L.Trainer, pl_module: L.LightningModule, loss: Tensor) -> None:
        """Look at the loss.

        Raises:
            UserError: it is NaN or infinite here or in another process; names step, epoch, batch and items.
        """
        place = f"step {trainer.global_step} (epoch {trainer.current_epoch}, batch {self._batch_idx}"
        broken = (~torch.isfinite(loss.detach())).any().to(torch.int32)
        if trainer.world_size > 1:
            torch.distributed.all_reduce(broken, op=torch.distributed.ReduceOp.MAX)
        arrived = None
        if broken.is_cuda:
            self._judge()
            broken, arrived = broken.to("cpu", non_blocking=True), torch.cuda.Event()  # type: ignore[no-untyped-call]
            arrived.record()
        self._open = _Look(broken, arrived, loss.detach(), self._items, place)
        if arrived is None:
            self._judge()

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Read the outcome of the last step before its weights are kept.

        Raises:
            UserError: as `on_before_backward`.
        """
        self._judge()

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Read the outcome of the last step.

        Raises:
            UserError: as `on_before_backward`.
        """
        self._judge()

    def _judge(self) -> None:
        look, self._open = self._open, None
        if look is None:
            return
        if look.arrived is not None:
            look.arrived.synchronize()
        if not look.broken.item():
            return
        here = not bool(torch.isfinite(look.loss).all())
        what = f"is {look.loss.item():g}" if here else "of another process is no number"
        raise UserError(
            f"The training loss {what} at {look.place}{_listed(look.items) if here else ''}). {self._last_good()} "
            "Lower the learning rate, lengthen the warm-up or clip the gradients (trainer.gradient_clip_val)."
        )

    def _last_good(self) -> str:
        path = None if self.folder is None else self.folder / RESUME
        if path is None or not path.exists():
            return "No checkpoint had been written yet."
        return f"The last good checkpoint is {path}."


def _listed(items: Tensor | None) -> str:
    if items is None:
        return ""
    numbers = [str(item) for item in items.flatten().tolist()]
    return f", items {' '.join(numbers[:20])}{' ...' if len(numbers) > 20 else ''}"


class DiskGuard(L.Callback):
    """Sees before training that the checkpoints to be kept will fit on the disk, and that the folder can be written."""

    def __init__(self, folder: Path) -> None:
        """Look at the disk that holds `folder`."""
        self.folder = folder

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Compare the need (kept checkpoints x 3 x parameters x 4 bytes + 20 %) with the room left.

        Raises:
            UserError: too little room, or a folder that can't be written.
        """
        if trainer.fast_dev_run or not trainer.is_global_zero:  # type: ignore[attr-defined]
            return
        check_writable(self.folder, otherwise=OTHER_RUNS)
        switch = PhaseSwitch.of(trainer)
        phases = switch.phases if switch is not None else phases_of(pl_module)
        kept = [*(f"{phase.name}-best.ckpt" for phase in phases), BEST, RESUME]
        parameters = sum(parameter.numel() for parameter in pl_module.parameters())
        present = sum((self.folder / name).stat().st_size for name in kept if (self.folder / name).exists())
        one = int(1.2 * 3 * parameters * 4)  # the new file and the one it replaces
        need = max(one, len(kept) * one - present)
        free = shutil.disk_usage(self.folder).free
        if free < need:
            raise UserError(
                f"The disk of {self.folder.absolute()} has {_size(free)} left, but {len(kept)} checkpoints of "
                f"{parameters:,} parameters need {_size(need)}. Make room, or set DEPGEN_RUNS to a folder elsewhere."
            )


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


class ProjectedTime(L.Callback):
    """Says after 20 steps of each phase how long an epoch will take, and before them what would shorten it."""

    def __init__(self, steps: int = 20) -> None:
        """Measure over `steps` steps, the first of which is left out as it warms up."""
        self.steps = steps
        self._seen = 0
        self._since = 0.0
        self._phase = -1

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Log the faster precision if the run uses bf16 and the processor has no instructions for it."""
        on_cpu = trainer.strategy.root_device.type == "cpu"
        if str(trainer.precision).startswith("bf16") and on_cpu and not has_bf16_instructions():
            logger.warning(
                "This processor has no bf16 instructions: %s takes up to twice as long here as full precision. "
                "--trainer.precision 32-true is faster (depgen reproduce: --precision 32-true).",
                trainer.precision,
            )

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        """Count and, when there are enough, say it once."""
        phase = getattr(PhaseSwitch.of(trainer), "index", 0)
        if phase != self._phase:
            self._phase, self._seen = phase, 0
        self._seen += 1
        if self._seen == 1:
            self._since = time.monotonic()
        elif self._seen == self.steps and trainer.is_global_zero:
            seconds = (time.monotonic() - self._since) / (self.steps - 1)
            total = float(trainer.num_training_batches)
            if math.isfinite(total):
                logger.info(
                    "After %d steps: %.3g s a step, about %s an epoch of %d steps, validation aside; %d epochs.",
                    self.steps, seconds, duration(seconds * total), total, trainer.fit_loop.max_epochs or 0,
                )  # fmt: skip


def has_bf16_instructions() -> bool:
    """Whether this processor multiplies in bf16; True of those that torch tells nothing of."""
    features: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # not in every torch
    return features.get("architecture") != "x86_64" or bool(features.get("avx512_bf16") or features.get("amx_bf16"))


def duration(seconds: float) -> str:
    """A length of time for people.

    >>> duration(42.4), duration(754.0), duration(7322.0)
    ('42 s', '12 min 34 s', '2 h 02 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
