"""Learning-rate schedules, one step a batch: factors on the optimiser's own rate. YAML names them by class path."""

import math
from collections.abc import Callable

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from depgen.errors import UserError


def warmup_factor(step: int, warmup_steps: int) -> float:
    """Linear rise: 1/w at the first step (step 0), 1 from the w-th step on.

    >>> warmup_factor(0, 4), warmup_factor(3, 4), warmup_factor(9, 4), warmup_factor(0, 0)
    (0.25, 1.0, 1.0, 1.0)
    """
    return 1.0 if step >= warmup_steps else (step + 1) / warmup_steps


class _Schedule(LambdaLR):
    def __init__(self, optimizer: Optimizer, warmup_steps: int, after: Callable[[int], float]) -> None:
        if warmup_steps < 0:
            raise UserError(f"warmup_steps is {warmup_steps}; it must not be negative.")

        def factor(step: int) -> float:
            return warmup_factor(step, warmup_steps) * (1.0 if step < warmup_steps else after(step))

        super().__init__(optimizer, factor)


class Constant(_Schedule):
    """Warm-up, then the optimiser's rate unchanged."""

    def __init__(self, optimizer: Optimizer, warmup_steps: int = 0) -> None:
        """Rise over `warmup_steps` steps."""
        super().__init__(optimizer, warmup_steps, lambda step: 1.0)


class InverseSquareRoot(_Schedule):
    """Warm-up, then a fall with the root of the step; the optimiser's rate is the peak.

    Section 5.3 of Vaswani et al. (2017), whose factor of the width belongs to the optimiser's rate here.
    """

    def __init__(self, optimizer: Optimizer, warmup_steps: int = 4000) -> None:
        """Reach the peak at step `warmup_steps`."""
        start = max(warmup_steps, 1)
        super().__init__(optimizer, warmup_steps, lambda step: math.sqrt(start / (step + 1)))


class Cosine(_Schedule):
    """Warm-up, then half a cosine down to a fraction of the optimiser's rate, which is kept from there on."""

    def __init__(
        self, optimizer: Optimizer, total_steps: int, warmup_steps: int = 0, final_fraction: float = 0.0
    ) -> None:
        """Arrive at `final_fraction` at step `total_steps`, warm-up included."""
        if total_steps <= warmup_steps:
            raise UserError(f"total_steps is {total_steps}, but the warm-up alone takes {warmup_steps} steps.")

        def fall(step: int) -> float:
            progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
            return final_fraction + (1 - final_fraction) * 0.5 * (1 + math.cos(math.pi * progress))

        super().__init__(optimizer, warmup_steps, fall)
