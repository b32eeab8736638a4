"""The default optimiser, schedules in the form of Lightning, clipping by group, and callbacks for what these need.

A system brings these callbacks itself (`LanguageModel.configure_callbacks`), so that they work in any Trainer.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Checkpoint
from torch import Tensor
from torch.nn import Parameter
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from depgen.training.hyper_parameters import Factory
from depgen.training.nt_asgd import NTASGD
from depgen.training.phases import Phases, validates_fit

logger = logging.getLogger(__name__)

OptimizerFactory = Factory[Iterable[Parameter] | Iterable[dict[str, Any]], Optimizer]
SchedulerFactory = Factory[Optimizer, LRScheduler]

NEVER = 1 << 60
"""An epoch that is not reached. Lightning would step a plateau's schedule only after an epoch's checkpoint is written,
so that a resumed run would be one step short: `AfterValidation` steps it instead."""


def default_optimizer(parameters: Iterable[Parameter] | Iterable[dict[str, Any]]) -> Optimizer:
    """AdamW as in fairseq's language models: learning rate 5e-4, betas 0.9 and 0.98, weight decay 0.01."""
    return AdamW(parameters, lr=5e-4, betas=(0.9, 0.98), weight_decay=0.01)


def optimization(
    parameters: list[Parameter] | list[dict[str, Any]],
    optimizer: Callable[..., Optimizer] | None,
    scheduler: Callable[..., LRScheduler] | None,
    *,
    monitor: str,
) -> Any:  # noqa: ANN401
    """What `configure_optimizers` returns: a fresh optimiser, and a schedule that is stepped every step.

    Args:
        parameters: one group, or several with options.
        optimizer: makes the optimiser; None = `default_optimizer`.
        scheduler: makes the schedule; None = a constant learning rate. `AfterValidation` steps a ReduceLROnPlateau.
        monitor: name of the logged value that a ReduceLROnPlateau sees.
    """
    made = (optimizer or default_optimizer)(parameters)
    schedule = None if scheduler is None else scheduler(made)
    use_fused_kernels(made)
    if schedule is None:
        return made
    when: dict[str, Any] = {"interval": "step"}
    if isinstance(schedule, ReduceLROnPlateau):
        when = {"interval": "epoch", "frequency": NEVER, "monitor": monitor}
    return {"optimizer": made, "lr_scheduler": {"scheduler": schedule, **when}}


def use_fused_kernels(optimizer: Optimizer) -> None:
    """Let torch's own optimisers update in one pass over each parameter, unless an argument says otherwise.

    The formula is the same; on a CPU it takes a third of the time of one operation after another, which is the default.
    """
    if type(optimizer) not in (SGD, Adagrad, Adam, AdamW):
        return
    for group in optimizer.param_groups:
        if group["fused"] is None and not (group["foreach"] or group["differentiable"]):
            group["fused"] = all(parameter.device.type in ("cpu", "cuda") for parameter in group["params"])


def clips_by_group(optimizer: Optimizer) -> bool:
    """Whether some group brings its `clip` and the optimiser does not clip by itself, as ClippedAdagrad does."""
    own = "clip" in optimizer.defaults
    return not own and any(group.get("clip") is not None for group in optimizer.param_groups)


def clip_groups(optimizer: Optimizer, *, others: float | None = None) -> None:
    """Bring the gradient norm of each group with a `clip` down to it, of groups with the same `clip_name` together.

    Args:
        optimizer: whose groups.
        others: largest norm of the gradient of all other groups together; None for any.
    """
    parts: dict[object, list[Tensor]] = {}
    limits: dict[object, float | None] = {None: others}
    for number, group in enumerate(optimizer.param_groups):
        part = None if group.get("clip") is None else group.get("clip_name") or number
        parts.setdefault(part, []).extend(group["params"])
        limits.setdefault(part, group.get("clip"))
    for part, parameters in parts.items():
        if limit := limits[part]:
            torch.nn.utils.clip_grad_norm_(parameters, limit)


class AfterValidation(Checkpoint):
    """Tells optimiser and schedule what a validation found, by the value that the phase is judged by.

    It steps each ReduceLROnPlateau. NT-ASGD's averaged weights are in place during the validation, so that they are
    measured and kept as the best. Lightning calls `Checkpoint`s after all other callbacks, and this one after `Phases`,
    which keeps the best weights, as the model brings them in this order.
    """

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Put averaged weights in place, where the optimiser keeps any."""
        for optimizer in _averaging(trainer):
            optimizer.swap()

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Step schedules, put the weights themselves back, and begin to average when validation stops improving."""
        if not validates_fit(trainer):
            return
        for config in trainer.lr_scheduler_configs:
            if isinstance(config.scheduler, ReduceLROnPlateau):
                config.scheduler.step(Phases.of(trainer).value(trainer))
        for optimizer in _averaging(trainer):
            optimizer.swap()
            if optimizer.validated(Phases.of(trainer).value(trainer)):
                logger.info("Weights are averaged from step %d on.", trainer.global_step)


def _averaging(trainer: L.Trainer) -> list[NTASGD]:
    if not validates_fit(trainer):
        return []
    return [optimizer for optimizer in trainer.optimizers if isinstance(optimizer, NTASGD)]
