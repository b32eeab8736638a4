"""A layer of the Transformer: self-attention and a feed-forward network, with layer norms before or after."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from depgen.nn.attention import KeyValues, Scores, SelfAttention, Visibility, Weigh
from depgen.nn.dropout import Dropout

ACTIVATIONS = {"relu": torch.relu, "gelu": F.gelu, "leaky_relu": F.leaky_relu}


class TransformerLayer(nn.Module):
    """A layer that normalises before each part (pre-LN) or after each residual sum (post-LN).

    Args:
        width: size of a hidden state.
        attention_heads: number of heads.
        feedforward: size of the feed-forward network's inner layer.
        dropout: of what each part adds to the residual.
        attention_dropout: of attention probabilities.
        activation_dropout: inside the feed-forward network.
        activation: a key of `ACTIVATIONS`.
        norm_first: pre-LN.
        affine_norms: the layer norms have trained gains and biases.
        attention_bias: the projections of the attention have biases.
    """

    def __init__(
        self,
        width: int,
        attention_heads: int,
        *,
        feedforward: int,
        dropout: float,
        attention_dropout: float,
        activation_dropout: float,
        activation: str,
        norm_first: bool,
        affine_norms: bool = True,
        attention_bias: bool = True,
    ) -> None:
        super().__init__()
        self.attention = SelfAttention(width, attention_heads, dropout=attention_dropout, bias=attention_bias)
        self.attention_norm = nn.LayerNorm(width, elementwise_affine=affine_norms)
        self.expand = nn.Linear(width, feedforward)
        self.contract = nn.Linear(feedforward, width)
        self.feedforward_norm = nn.LayerNorm(width, elementwise_affine=affine_norms)
        self.dropout = Dropout(dropout)
        self.activation_dropout = Dropout(activation_dropout)
        self.activation = ACTIVATIONS[activation]
        self.norm_first = norm_first

    def forward(
        self,
        hidden: Float[Tensor, "batch length width"],
        visibility: Visibility,
        *,
        past: KeyValues | None = None,
        scores: Scores | None = None,
        weigh: Weigh | None = None,
        query_bias: Float[Tensor, "attention_heads size"] | None = None,
        with_attention: bool = False,
        carry: bool = False,
    ) -> tuple[
        Float[Tensor, "batch length width"],
        Float[Tensor, "batch attention_heads length context"] | None,
        KeyValues | None,
    ]:
        """Hidden states after the layer, and what else `SelfAttention.forward` returns."""
        source = self.attention_norm(hidden) if self.norm_first else hidden
        mixed, attention, present = self.attention(
            source, visibility, past=past, scores=scores, weigh=weigh, query_bias=query_bias,
            with_attention=with_attention, carry=carry,
        )  # fmt: skip
        hidden = hidden + self.dropout(mixed)
        if not self.norm_first:
            hidden = self.attention_norm(hidden)
        inner = self.activation(self.expand(self.feedforward_norm(hidden) if self.norm_first else hidden))
        inner = self.activation_dropout(inner)
        hidden = hidden + self.dropout(self.contract(inner))
        if not self.norm_first:
            hidden = self.feedforward_norm(hidden)
        return hidden, attention, present
