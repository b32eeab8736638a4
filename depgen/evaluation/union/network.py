"""The network of UNION: an encoder, the probability that a story is human, and a head that says its tokens."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from depgen.errors import UserError
from depgen.evaluation.union.corruption import LONGEST_NGRAM
from depgen.hub import WeightsError, load_weights, quiet_transformers

Pooling = Literal["first", "first_mean_max"]
HEAD = "head.safetensors"
ENCODER = "encoder"


class UnionNetwork(nn.Module):
    """Logits of corrupted (0) and human (1) from an encoder's last hidden states.

    Args:
        encoder: a network of transformers' `AutoModel` kind.
        pooling: the first position's state, as published; or that with the mean and the maximum over all tokens, from
            which a network without pretraining learns sooner that a single place of a story is wrong.
        dropout: of the pooled state.
    """

    def __init__(self, encoder: Any, *, pooling: Pooling = "first", dropout: float = 0.1) -> None:  # noqa: ANN401
        super().__init__()
        self.encoder, self.pooling, self.dropout = encoder, pooling, nn.Dropout(dropout)
        width = int(encoder.config.hidden_size)
        self.dense = nn.Linear(width if pooling == "first" else 3 * width, width)
        self.output = nn.Linear(width, 2)

    def states(
        self, tokens: Int[Tensor, "batch length"], is_word: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length width"]:
        """The encoder's last hidden states; it gets segments where its configuration names the ends of sentences."""
        told: dict[str, Tensor] = {}
        if ends := getattr(self.encoder.config, "sentence_ends", None):
            told["token_type_ids"] = segments(tokens, ends, sentences=self.encoder.config.type_vocab_size // 3)
        states: Tensor = self.encoder(input_ids=tokens, attention_mask=is_word.long(), **told).last_hidden_state
        return states

    def classify(
        self, states: Float[Tensor, "batch length width"], is_word: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch 2"]:
        """Logits of corrupted and human."""
        pooled = states[:, 0]
        if self.pooling == "first_mean_max":
            mean = (states * is_word[..., None]).sum(1) / is_word.sum(1, keepdim=True)
            highest = states.masked_fill(~is_word[..., None], -torch.inf).amax(1)
            pooled = torch.cat((pooled, mean, highest), -1)
        hidden = torch.tanh(self.dense(self.dropout(pooled)))
        logits: Tensor = self.output(self.dropout(hidden))
        return logits

    def forward(
        self, tokens: Int[Tensor, "batch length"], is_word: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch 2"]:
        """Logits of corrupted and human; padding, where `is_word` is False, changes nothing."""
        return self.classify(self.states(tokens, is_word), is_word)

    def save(self, folder: Path) -> None:
        """Write the encoder as transformers does, and the head next to it."""
        from safetensors.torch import save_file

        with quiet_transformers():
            self.encoder.save_pretrained(folder / ENCODER)
        head = {name: value for name, value in self.state_dict().items() if not name.startswith("encoder.")}
        save_file({name: value.detach().cpu().contiguous() for name, value in head.items()}, folder / HEAD)

    @classmethod
    def load(cls, folder: Path, *, pooling: Pooling) -> "UnionNetwork":
        """The network of a folder that `save` wrote, in evaluation mode.

        Raises:
            UserError: files are missing or damaged.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file
        from transformers import AutoModel

        try:
            encoder = load_weights(AutoModel, folder / ENCODER, local_files_only=True, dtype=torch.float32)
            network = cls(encoder, pooling=pooling)
            head = load_file(folder / HEAD)
            network.dense.load_state_dict(
                {name[6:]: value for name, value in head.items() if name.startswith("dense.")}
            )
            network.output.load_state_dict(
                {name[7:]: value for name, value in head.items() if name.startswith("output.")}
            )
        except (OSError, RuntimeError, SafetensorError, WeightsError) as error:
            raise UserError(f"{folder}: expected a UNION scorer, found: {error}. Train it again.") from error
        return network.eval()


def segments(
    tokens: Int[Tensor, "batch length"], ends: Sequence[int], *, sentences: int
) -> Int[Tensor, "batch length"]:
    """The number of each token's sentence, from 0, and what of it was read before.

    `sentences` more where token and predecessor stood in the text before, twice `sentences` more in words that say the
    one to four just before them again. Sentences from the last number on count as one.

    >>> segments(torch.tensor([[2, 7, 5, 8, 5, 7, 5, 6]]), [5], sentences=3)
    tensor([[0, 0, 0, 1, 1, 2, 5, 2]])
    >>> segments(torch.tensor([[2, 7, 7, 8, 9, 8, 9, 5]]), [5], sentences=3)
    tensor([[0, 0, 6, 0, 0, 6, 6, 0]])
    """
    ending = torch.isin(tokens, torch.tensor(ends, device=tokens.device)).long()
    numbers = (ending.cumsum(1) - ending).clamp(max=sentences - 1)
    pairs = torch.stack((tokens[:, :-1], tokens[:, 1:]), -1)
    same = (pairs[:, :, None] == pairs[:, None]).all(-1)
    before = F.pad(same.tril(-1).any(-1), (1, 0))
    again = said_again(tokens)
    return numbers + sentences * torch.where(again, 2, before.long())


def said_again(tokens: Int[Tensor, "batch length"]) -> Bool[Tensor, "batch length"]:
    """True in the second of two equal runs of 1 to `LONGEST_NGRAM` tokens that are adjacent."""
    length = tokens.size(1)
    found = torch.zeros_like(tokens, dtype=torch.bool)
    for size in range(1, min(LONGEST_NGRAM, length // 2) + 1):
        equal = tokens[:, size:] == tokens[:, :-size]
        runs = equal.unfold(1, size, 1).all(
            -1
        )  # [batch, length - 2 size + 1]: whether a second run begins `size` later
        for step in range(size):
            found[:, size + step : length - size + 1 + step] |= runs
    return found


class TokenHead(nn.Module):
    """Logits over the vocabulary, tied to the encoder's embedding: BERT's own head of masked words."""

    def __init__(self, encoder: Any) -> None:  # noqa: ANN401
        super().__init__()
        width = int(encoder.config.hidden_size)
        embedding = encoder.get_input_embeddings().weight
        self.transform = nn.Linear(width, embedding.size(1))
        self.norm = nn.LayerNorm(embedding.size(1))
        self.bias = nn.Parameter(torch.zeros(embedding.size(0)))

    def forward(
        self, states: Float[Tensor, "*places width"], embedding: Float[Tensor, "vocab embedding"]
    ) -> Float[Tensor, "*places vocab"]:
        """Logits of the word that is, or should be, at each place."""
        logits: Tensor = self.norm(F.gelu(self.transform(states))) @ embedding.T + self.bias
        return logits
