"""Metrics whose sums are float64 on every machine."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torchmetrics import MeanMetric, Metric

from depgen.nn.precise import precise_device


class PreciseMetric(Metric):  # type: ignore[misc]
    """A metric with float64 states, which stay on the CPU where the model's device has no float64."""

    def __init__(self) -> None:
        with torch.device("cpu"):  # whatever the default device is: a model's `.to` moves the states
            super().__init__()

    def _apply(self, fn: Callable[[Tensor], Tensor], exclude_state: Sequence[str] = "") -> "PreciseMetric":
        device = fn(torch.zeros((), device=self.device)).device
        if precise_device(device) != device:
            return self
        super()._apply(fn, exclude_state)
        return self


class PreciseMean(PreciseMetric, MeanMetric):  # type: ignore[misc]
    """A weighted mean in float64; what it is updated with lies on `depgen.nn.precise.precise_device`."""

    def __init__(self) -> None:
        super().__init__()
        self.set_dtype(torch.float64)
