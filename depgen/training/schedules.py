"""Learning-rate schedules, one step a batch: factors on the optimiser's own rate. YAML names them by class path."""

import logging
import math
from collections.abc import Callable

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, OneCycleLR, PolynomialLR

from depgen.errors import UserError

logger = logging.getLogger(__name__)


def warmup_factor(step: int, warmup_steps: int) -> float:
    """Linear rise: 1/w at the first step (step 0), 1 from the w-th step on.

    >>> warmup_factor(0, 4), warmup_factor(3, 4), warmup_factor(9, 4), warmup_factor(0, 0)
    (0.25, 1.0, 1.0, 1.0)
    """
    return 1.0 if step >= warmup_steps else (step + 1) / warmup_steps


class _Schedule(LambdaLR):
    def __init__(self, optimizer: Optimizer, warmup_steps: int, after: Callable[[int], float]) -> None:
        def factor(step: int) -> float:
            return warmup_factor(step, warmup_steps) * (1.0 if step < warmup_steps else after(step))

        super().__init__(optimizer, factor)


class Constant(_Schedule):
    """Warm-up, then the optimiser's rate unchanged."""

    def __init__(self, optimizer: Optimizer, warmup_steps: int = 0) -> None:
        super().__init__(optimizer, warmup_steps, lambda step: 1.0)


class InverseSquareRoot(_Schedule):
    """Warm-up, then a fall with the root of the step; the optimiser's rate is the peak, at step `warmup_steps`.

    Section 5.3 of Vaswani et al. (2017), whose factor of the width belongs to the optimiser's rate here.
    """

    def __init__(self, optimizer: Optimizer, warmup_steps: int = 4000) -> None:
        start = max(warmup_steps, 1)
        super().__init__(optimizer, warmup_steps, lambda step: math.sqrt(start / (step + 1)))


class Cosine(_Schedule):
    """Warm-up, then half a cosine down to a fraction of the optimiser's rate, which is kept from there on.

    Args:
        optimizer: whose rates.
        total_steps: at which the fraction is reached, warm-up included; None: as many as the phase has, also when a
            resumed run is given more epochs.
        warmup_steps: of the linear rise.
        final_fraction: of the optimiser's rate.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        total_steps: int | None = None,
        warmup_steps: int = 0,
        final_fraction: float = 0.0,
    ) -> None:
        self.total_steps, self.warmup_steps = total_steps, warmup_steps
        self.length = total_steps
        self._refuse_short()

        def fall(step: int) -> float:
            if self.length is None:
                assert step == 0, "a trainer tells the length of the phase by `take_length`, before its first step"
                return 1.0
            progress = min(1.0, (step - warmup_steps) / (self.length - warmup_steps))
            return final_fraction + (1 - final_fraction) * 0.5 * (1 + math.cos(math.pi * progress))

        super().__init__(optimizer, warmup_steps, fall)

    def _refuse_short(self) -> None:
        if self.length is not None and self.length <= self.warmup_steps:
            raise UserError(f"total_steps is {self.length}, but the warm-up alone takes {self.warmup_steps} steps.")

    def end_with_phase(self, steps: float) -> None:
        """End at the phase's last step, unless `total_steps` says otherwise."""
        if self.total_steps is not None:
            return
        if math.isinf(steps):
            raise UserError("Cosine: give total_steps, or trainer.max_epochs or max_steps: the training has no end.")
        self.length = int(steps)
        self._refuse_short()
        factors = [factor(self.last_epoch) for factor in self.lr_lambdas]
        self._last_lr = [base * factor for base, factor in zip(self.base_lrs, factors, strict=True)]
        for group, rate in zip(self.optimizer.param_groups, self._last_lr, strict=True):
            group["lr"] = rate


def take_length(schedule: object, steps: float, phase: str) -> None:
    """Let a schedule end with its phase, which has `steps` optimiser steps; the log names one that ends before.

    Raises:
        UserError: a `OneCycleLR` that ends before, which takes no further step.
    """
    if isinstance(schedule, Cosine):
        schedule.end_with_phase(steps)
    length = getattr(schedule, "total_steps", None) or getattr(schedule, "T_max", None)
    if isinstance(schedule, PolynomialLR):
        length = schedule.total_iters
    if length is None or length >= steps:
        return
    short = f"{type(schedule).__name__} ends after {length} steps, but phase {phase} has about {steps:.0f}."
    if isinstance(schedule, OneCycleLR):
        raise UserError(
            f"{short} Give it as many, or take depgen.training.schedules.Cosine, which ends with the phase."
        )
    logger.warning(short)
