"""Products of recurrent steps, and torch's LSTM in mixed precision."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable


class RecurrentProjection:
    """x_t + W h_t of each step in turn, with W's gradient taken once for all: call it once a step, first to last.

    A step multiplies a handful of rows by a large matrix, and autograd would write the whole matrix's gradient at each
    of them. Here the gradients of the products and what was multiplied are kept, and multiplied once. Without, a
    training step of ON-LSTM takes 1.3 times as long on a CPU, one of PRPN 1.1 times.

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


def call_lstm(lstm: Callable[..., Any], inputs: Tensor, *arguments: Any) -> Any:  # noqa: ANN401
    """Returns what an `nn.LSTM` or `torch.lstm` returns, in fp32 where autocast is in bf16 and this CPU's LSTM is not.

    On a CPU without AVX-512, PyTorch's autocast still passes bf16 to oneDNN's LSTM, which then ends in `could not
    create a primitive descriptor for the LSTM forward propagation primitive`. Anywhere else the call is passed on
    unchanged.
    """
    autocast_to_bf16 = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    if inputs.device.type != "cpu" or not autocast_to_bf16 or bf16_supported():
        return lstm(inputs, *arguments)
    with torch.autocast("cpu", enabled=False):
        return lstm(*_in_fp32((inputs, *arguments)))


def bf16_supported() -> bool:
    """Whether this machine's CPU has the instructions that oneDNN's bf16 kernels need."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())  # PyTorch has no public name for this check


def _in_fp32(value: Any) -> Any:  # noqa: ANN401
    """The value with all its bf16 tensors in fp32."""
    if isinstance(value, (tuple, list)):
        return type(value)(_in_fp32(each) for each in value)
    return value.float() if isinstance(value, Tensor) and value.dtype == torch.bfloat16 else value
