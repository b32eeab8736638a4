"""What every recurrent step multiplies by, with the matrix's gradient taken once for all steps.

A step multiplies a handful of rows by a large matrix, and autograd would write the whole matrix's gradient at each of
them. Here the gradients of the products and what was multiplied are kept, and multiplied once.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable


class RecurrentProjection:
    """x_t + W h_t of each step in turn: call it once a step, from the first to the last.

    >>> projection = RecurrentProjection(torch.zeros(2, 1, 3), torch.eye(3))
    >>> projection(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[1., 2., 3.]])
    """

    def __init__(self, additive: Float[Tensor, "steps batch rows"], weight: Float[Tensor, "rows size"]) -> None:
        """x_t of all steps, contiguous for speed, and W; cast once, where autocast would cast them at each step."""
        device = additive.device.type
        if torch.is_autocast_enabled(device):
            additive = additive.to(torch.get_autocast_dtype(device))
        self._multiplied: list[Tensor] = []
        self._transposed = weight.detach().T.to(additive.dtype)
        self._steps = iter(_GradientAtOnce.apply(additive, weight, self._multiplied).unbind(0))  # type: ignore[no-untyped-call]

    def __call__(self, hidden: Float[Tensor, "batch size"]) -> Float[Tensor, "batch rows"]:
        """The sum at the next step."""
        if torch.is_grad_enabled():
            self._multiplied.append(hidden.detach())
        return torch.addmm(next(self._steps), hidden, self._transposed)


class _GradientAtOnce(torch.autograd.Function):
    """x as it is; in the backward pass, which comes here after all steps, W gets what all steps owe it."""

    @staticmethod
    def forward(ctx: Any, additive: Tensor, weight: Tensor, multiplied: list[Tensor]) -> Tensor:  # noqa: ANN401
        ctx.multiplied = multiplied
        return additive.view_as(additive)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:  # noqa: ANN401
        if not ctx.needs_input_grad[1]:
            return gradient, None, None
        hidden = torch.stack(ctx.multiplied).to(gradient.dtype)
        return gradient, gradient.flatten(0, 1).T @ hidden.flatten(0, 1), None
