"""A system that breaks every promise of one that scores and writes texts: each check of the contract must find it."""

import torch
from torch import nn

from depgen.data.batch import TokenBatch, collate_tokens
from depgen.language_models.left_to_right import LeftToRight


class Wrong(LeftToRight):
    """Scores a token by all tokens of its batch, not normalised, and writes by other scores."""

    collate = property(lambda self: collate_tokens)  # type: ignore[assignment]

    def __init__(self, vocabulary_size: int) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.table = nn.Parameter(torch.zeros(vocabulary_size))
        self.unsaved = torch.randn(vocabulary_size)  # not part of a checkpoint

    def log_probs(self, batch: TokenBatch) -> torch.Tensor:
        """Of each target."""
        scores = self.table + self.unsaved.to(self.table)
        return scores[batch.targets] + scores[batch.inputs].mean()

    def generation_step(self, tokens: torch.Tensor, padding: torch.Tensor | None, state: torch.Tensor | None) -> tuple:
        """The log-probabilities of each next token: those of the row in the batch."""
        rows = torch.arange(len(tokens))[:, None] + len(tokens)
        scores = (rows * torch.arange(len(self.table)) % 7).double()
        return scores.log_softmax(-1), tokens[:, :0] if state is None else state
