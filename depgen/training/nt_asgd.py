"""NT-ASGD: gradient descent that begins to average its weights when validation stops improving.

Merity, Keskar & Socher (2018), "Regularizing and Optimizing LSTM Language Models" (ICLR), Algorithm 1. The average is
what is validated and kept as the best checkpoint; training continues from the weights themselves.

Deviations
    D1. A step uses the learning rate that holds at it, and the average takes in all weights from its first step on.
        PyTorch's ASGD, which the authors' code switches to, settles both a step too late: a segment's rate is that of
        the segment before, and the weights after the first step are left out.
    D2. `patience` counts validations (Algorithm 1's n of logging intervals); the authors' code validates once an epoch.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import SGD

from depgen.errors import check_at_least


class NTASGD(SGD):
    """SGD with L2 weight decay; from its trigger on, it also keeps the mean of the weights after every step.

    Args:
        params: what is trained.
        lr: learning rate, constant (paper 30).
        weight_decay: factor of the L2 penalty's gradient (paper 1.2e-6).
        patience: averaging starts when a validation loss is above the least one this many validations ago or earlier
            (paper 5).
        restart_at: begin a fresh average after this many validations, if averaging by then (DMLM's code: at half of its
            1000 epochs); None: never.
    """

    def __init__(
        self,
        params: Iterable[Parameter],
        lr: float = 30.0,
        weight_decay: float = 1.2e-6,
        patience: int = 5,
        restart_at: int | None = None,
    ) -> None:
        check_at_least(1, patience=patience, restart_at=restart_at)
        super().__init__(params, lr=lr, weight_decay=weight_decay)
        self.patience, self.restart_at = patience, restart_at
        # in the first group, so that state_dict holds it
        self.param_groups[0].update(averaging=False, averaged_steps=0, losses=[])

    @property
    def averaging(self) -> bool:
        """Whether an average is kept."""
        return bool(self.param_groups[0]["averaging"])

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # noqa: ANN401
        """One step of gradient descent; the average takes the new weights in."""
        loss = super().step(closure)
        if self.averaging:
            steps = self.param_groups[0]["averaged_steps"] = self.param_groups[0]["averaged_steps"] + 1
            weights = self._weights()
            if steps == 1:
                for weight in weights:
                    self.state[weight]["average"] = weight.detach().clone()
            else:
                torch._foreach_lerp_(self._averages(weights), weights, 1 / steps)
        return loss

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange weights and average; called again, it brings the weights back. Without an average, nothing."""
        if not self.averaging or not self.param_groups[0]["averaged_steps"]:
            return
        weights = self._weights()
        for weight, average in zip(weights, self._averages(weights), strict=True):
            former = weight.clone()
            weight.copy_(average)
            average.copy_(former)

    def validated(self, loss: float) -> bool:
        """Take in a validation loss; whether a new average begins with the next step."""
        first = self.param_groups[0]
        earlier = first["losses"][: -self.patience]
        begins = not self.averaging and bool(earlier) and loss > min(earlier)
        first["losses"].append(loss)
        restarts = self.averaging and len(first["losses"]) == self.restart_at
        if begins or restarts:
            first.update(averaging=True, averaged_steps=0)
        return begins or restarts

    def _weights(self) -> list[Tensor]:
        return [weight for group in self.param_groups for weight in group["params"]]

    def _averages(self, weights: list[Tensor]) -> list[Tensor]:
        return [self.state[weight]["average"] for weight in weights]
