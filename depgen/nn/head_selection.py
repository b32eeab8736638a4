"""A parser that selects each word's head by a softmax over the other words, from words alone.

Shen et al. (2022), Eq. 2 to 5: a bidirectional LSTM, a vector of each word as head and one as dependent, and the
products of these.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from depgen.nn.dropout import dropped
from depgen.nn.lstm_precision import call_lstm
from depgen.nn.vocabulary import full_precision


class HeadSelection(nn.Module):
    """Scores of every word as every other's head.

    Args:
        vocabulary_size: number of token types.
        width: of the embeddings, which are the parser's own, and of head and dependent vectors.
        layers: of the LSTM.
        hidden_size: of the LSTM, in each direction.
        tags: trainable tag embeddings that word types mix, beside one that is zero; 0 for none. They are in the paper's
            Table 6 and gone from the authors' last code; without context they give the embeddings a shared part of low
            rank.
        dropout: of embeddings, between layers and of the LSTM's output.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        width: int = 512,
        layers: int = 3,
        hidden_size: int = 512,
        tags: int = 0,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.embedding = nn.Embedding(vocabulary_size, width)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.tag_logits: nn.Parameter | None = None
        if tags:
            self.tag_logits = nn.Parameter(torch.zeros(vocabulary_size, tags + 1))
            self.tag_vectors = nn.Parameter(torch.empty(tags, width).uniform_(-0.1, 0.1))
        self.lstm = nn.LSTM(
            width, hidden_size, layers, batch_first=True, bidirectional=True, dropout=dropout if layers > 1 else 0.0
        )
        self.arcs = nn.Linear(2 * hidden_size, 2 * width)
        nn.init.xavier_uniform_(self.arcs.weight)
        nn.init.zeros_(self.arcs.bias)

    def forward(
        self, tokens: Int[Tensor, "batch length"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch dependents heads"]:
        """The score of each word (second axis of words) as the head of each (first axis); any number at padding."""
        embedded = self.embedding(tokens)
        if self.tag_logits is not None:
            embedded = embedded + F.embedding(tokens, self.tag_logits).softmax(-1)[..., 1:] @ self.tag_vectors
        embedded = dropped(embedded, self.dropout, training=self.training)
        states = dropped(self._contextual(embedded, lengths), self.dropout, training=self.training)
        head, dependent = self.arcs(states).chunk(2, -1)  # Eq. 2, 3
        scores: Tensor = dependent @ head.mT * head.shape[-1] ** -0.5  # Eq. 4
        return scores

    def _contextual(
        self, embedded: Float[Tensor, "batch length width"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch length states"]:
        """The LSTM's states; sentences of one length need no packing, and on a CPU none do."""
        length = embedded.shape[1]
        if bool((lengths == length).all()):
            return call_lstm(self.lstm, embedded)[0]  # type: ignore[no-any-return]
        if embedded.device.type == "cpu":
            return self._turned(embedded, lengths)
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=length)
        return states

    def _turned(
        self, embedded: Float[Tensor, "batch length width"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch length states"]:
        """The LSTM read layer by layer, once over sentences and once over sentences turned round.

        Both then meet padding last. Torch's fused kernel for CPUs takes no packed sequences; without it the LSTM takes
        1.4 times as long in full precision, 1.75 times as long in bf16.
        """
        lstm, places = self.lstm, torch.arange(embedded.shape[1], device=embedded.device)
        last = lengths[:, None] - 1
        rows = torch.arange(len(embedded), device=embedded.device)[:, None] * embedded.shape[1]
        order = rows + torch.where(places <= last, last - places, places)
        start = embedded.new_zeros(1, len(embedded), lstm.hidden_size)
        states = embedded
        for layer in range(lstm.num_layers):
            read = []
            for suffix in ("", "_reverse"):
                names = (f"{kind}_l{layer}{suffix}" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
                weights = [getattr(lstm, name) for name in names]
                source = F.embedding(order, states.flatten(0, 1)) if suffix else states
                options = (True, 1, 0.0, self.training, False, True)
                seen = call_lstm(torch.lstm, source, (start, start), weights, *options)[0]
                read.append(F.embedding(order, seen.flatten(0, 1)) if suffix else seen)
            states = torch.cat(read, 2)
            if layer + 1 < lstm.num_layers:
                states = dropped(states, lstm.dropout, training=self.training)
        return states


def head_log_softmax(
    scores: Float[Tensor, "batch dependents heads"], words: Bool[Tensor, "batch length"]
) -> Float[Tensor, "batch dependents heads"]:
    """Eq. 5: log-probabilities over the words of a sentence, its own place included (no head); -inf at padding.

    In fp32, where scores are of less; float64 stays.
    """
    return full_precision(scores).masked_fill(~words[:, None, :], -torch.inf).log_softmax(-1)


def without_own_place(
    probabilities: Float[Tensor, "batch dependents heads"], words: Bool[Tensor, "batch length"]
) -> Float[Tensor, "batch dependents heads"]:
    """The same, 0 on the diagonal and at padding; not normalised again: what a word gives itself says "no head"."""
    others = ~torch.eye(words.shape[1], dtype=torch.bool, device=words.device)
    return probabilities.masked_fill(~(others & words[:, :, None] & words[:, None, :]), 0)


def undirected(probabilities: Float[Tensor, "batch dependents heads"]) -> Float[Tensor, "batch length length"]:
    """Eq. 6: the probability that either of two words is the other's head, p + p^T - p p^T."""
    transposed = probabilities.mT
    return probabilities + transposed - probabilities * transposed
