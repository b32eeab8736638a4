"""AdaGrad with a clipped gradient norm, in either order of the two.

Duchi, Hazan & Singer (2011); Pascanu, Mikolov & Bengio (2012), who clip the gradient before it is used. The
toolkit of document-context language models (2015) adds the *unclipped* gradient to the accumulator and clips the step
alone, whereby a large gradient shrinks the step twice. Clipped first, the accumulator grows no faster than the clip
allows. The paper names both methods and not their order; what difference it made is said in `depgen.models.dclm`, D7.
"""

from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from depgen.errors import UserError


class ClippedAdagrad(Optimizer):
    """step = lr * scale * g / sqrt(sum of g^2 + eps), where scale brings the norm of a group's gradient down to `clip`.

    Args:
        params: parameters, or groups of them, each clipped by itself.
        lr: learning rate.
        clip: largest norm of a group's gradient; None for any.
        accumulate_clipped: whether the accumulator sees the clipped gradient; false is the toolkit's order, the paper
            does not say which.
        eps: under the root.
    """

    def __init__(
        self,
        params: Iterable[Parameter] | Iterable[dict[str, Any]],
        lr: float = 0.1,
        clip: float | None = 5.0,
        accumulate_clipped: bool = False,
        eps: float = 1e-20,
    ) -> None:
        if lr <= 0 or (clip is not None and clip <= 0):
            raise UserError(f"ClippedAdagrad: expected lr and clip above 0, found lr {lr}, clip {clip}.")
        super().__init__(params, {"lr": lr, "clip": clip, "accumulate_clipped": accumulate_clipped, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # noqa: ANN401
        """One update; what the closure returns."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._step(group)
        return loss

    def _step(self, group: dict[str, Any]) -> None:
        parameters = tuple(parameter for parameter in group["params"] if parameter.grad is not None)
        if not parameters:
            return
        gradients = tuple(cast(Tensor, parameter.grad) for parameter in parameters)
        sums = tuple(self._sum_of_squares(parameter) for parameter in parameters)
        scale = gradients[0].new_ones(())
        if group["clip"] is not None:
            norm = torch.nn.utils.get_total_norm(gradients)
            scale = (group["clip"] / norm).clamp_max(1.0)  # inf where the norm is 0
        if group["accumulate_clipped"]:
            gradients, scale = torch._foreach_mul(gradients, scale), torch.ones_like(scale)
        torch._foreach_addcmul_(sums, gradients, gradients)
        roots = torch._foreach_sqrt(torch._foreach_add(sums, group["eps"]))
        steps = torch._foreach_mul(torch._foreach_div(gradients, roots), scale * -group["lr"])
        torch._foreach_add_(parameters, steps)

    def _sum_of_squares(self, parameter: Parameter) -> Tensor:
        state = self.state[parameter]
        if "sum" not in state:
            state["sum"] = torch.zeros_like(parameter)
        return cast(Tensor, state["sum"])
