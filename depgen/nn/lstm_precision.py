"""Torch's LSTM in bf16 autocast on CPUs whose LSTM kernel has no bf16.

On a CPU without AVX-512, PyTorch's autocast still passes bf16 to oneDNN's LSTM, which then ends in `could not create a
primitive descriptor for the LSTM forward propagation primitive`.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def call_lstm(lstm: Callable[..., Any], inputs: Tensor, *arguments: Any) -> Any:  # noqa: ANN401
    """Returns `lstm(inputs, *arguments)`, computed in fp32 where autocast is in bf16 and this CPU's LSTM is not.

    Anywhere else (GPUs, CPUs with bf16 kernels, no autocast) the call is passed on unchanged.

    Args:
        lstm: an `nn.LSTM` or `torch.lstm`.
        inputs: its first argument.
        arguments: its other arguments: states, weights (fp32) and options.
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
