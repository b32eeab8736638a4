"""Penalties on the activations of a recurrent network.

Merity, McCann & Socher (2017), "Revisiting Activation Regularization for Language RNNs"; as in AWD-LSTM.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class ActivationRegularizer:
    """alpha mean(m * h^2) + beta mean((h_t+1 - h_t)^2) of the last layer's outputs: AR and TAR.

    Args:
        activation: alpha, weight of AR (paper 2).
        temporal: beta, weight of TAR (paper 1), always of the undropped outputs.
        of: what AR sees: outputs after dropout m (AWD-LSTM) or before ("undropped": ON-LSTM's code).
    """

    activation: float = 2.0
    temporal: float = 1.0
    of: Literal["dropped", "undropped"] = "dropped"

    def __call__(
        self,
        dropped: Float[Tensor, "batch length width"],
        undropped: Float[Tensor, "batch length width"],
        is_word: Bool[Tensor, "batch length"],
    ) -> Float[Tensor, ""]:
        """The penalty; means run over the entries at tokens, TAR's over neighbouring pairs of tokens.

        >>> hidden, is_word = torch.tensor([[[1.0], [3.0]]]), torch.ones(1, 2, dtype=torch.bool)
        >>> ActivationRegularizer(activation=2.0, temporal=1.0)(hidden, hidden, is_word)
        tensor(14.)
        """
        seen = dropped if self.of == "dropped" else undropped
        penalty = self.activation * _mean(seen.float().square().mean(-1), is_word)
        steps = undropped[:, 1:].float() - undropped[:, :-1].float()
        return penalty + self.temporal * _mean(steps.square().mean(-1), is_word[:, 1:])


def _mean(values: Tensor, is_word: Tensor) -> Tensor:
    return torch.where(is_word, values, 0).sum() / is_word.sum().clamp_min(1)
