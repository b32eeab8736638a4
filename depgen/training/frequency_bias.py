"""An output bias that starts at the frequency of each token in the training data.

The first thing that a language model learns is the frequencies of tokens, whose logarithms span some ten nats. States
that are small at first, as an LSTM's are, leave this to the output bias, which an optimiser of the Adam family moves by
little more than its rate a step: for hundreds of steps the network learns hardly anything else.
"""

from typing import Any

import lightning as L
import torch
from torch import Tensor

from depgen.errors import UserError


class FrequencyBias(L.Callback):
    """Begins a model's output biases at log((n + 1) / (N + V)), for a token that is n of N targets in V types.

    For `trainer.callbacks`, with any model that has an output bias and data of a corpus. A masked system, which
    predicts neither ends nor unknown words, has these two to unlearn. A resumed run keeps what it has learnt.
    """

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Set the biases before a resumed run gets its weights back."""
        if stage != "fit":
            return
        biases: list[Tensor] = getattr(pl_module, "output_biases", [])
        if not biases:
            raise UserError(
                f"FrequencyBias found no output bias in {type(pl_module).__name__}: give its network one, or take the "
                "callback out of trainer.callbacks."
            )
        data: Any = trainer.datamodule  # type: ignore[attr-defined]
        counts = torch.from_numpy(data.target_counts()).to(torch.float64) + 1
        with torch.no_grad():
            for bias in biases:
                bias.copy_((counts / counts.sum()).log())
