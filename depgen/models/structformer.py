"""StructFormer. Shen, Tay, Zheng, Bahri, Metzler & Courville (2021), ACL, "StructFormer: Joint Unsupervised Induction
of Dependency and Constituency Structure from Masked Language Modeling".

A convolutional parser gives every word a height and every boundary between two words a distance. A word reaches past
all boundaries around it whose distances lie below its height, and the highest word of those it reaches is its head. The
soft dependencies that follow decide where a Transformer's attention heads may look. All is trained by predicting masked
words.

    paper                     here
    delta_i, tau_i            `heights` of words, `distances` of boundaries
    distances against heights `calibrated`
    p(l | i), p(r | i)        `border_probabilities`
    p(j | l, r), p_D(j | i)   `head_distribution`
    dependency-constrained    `StructFormer.encode`: sigmoid(q k / sqrt(d)) times a mix of p and its transpose, a mix
    attention                 for each attention head of each layer

Deviations
    D1. Calibration lowers all distances by the largest amount by which some span of words, the whole sentence left
        out, has both its boundaries above all its words. In the authors' code that is the largest of the whole batch,
        so that a sentence's tree depends on those it is read with; here it is the sentence's own (`calibration:
        sentence`), the authors' by `batch`.
    D2. A border is reached with the smallest of the probabilities on the way to it, a running minimum, as in the code.
    D3. The parser has three layers, the default of the authors' command line; their class has four.
    D4. Dropout after the parser's layers and of its embeddings, learned positions, embedding dropout and attention
        without relative bias are those of the copy that UDGN was compared with; the first code has no dropout in
        the parser and none of embeddings.
    D5. p_D includes the word itself, the probability that it is the highest of those it reaches: "has no head". It is
        left out of masks and of trees, and not normalised again.
    D6. UDGN's evaluator decodes p like UDGN's, root included. The evaluation that the model's own paper uses takes
        each word's most probable head and the highest word for the root, with which every tree has its root right
        where heights do: `own_heads`. The first is the default everywhere, so that parsers are compared
        by one rule; the second is the model as it was published.
"""

from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from depgen.backbones.transformer import TransformerFactory
from depgen.language_models.masked import (
    HeadScores,
    LayerAttention,
    Lengths,
    MaskedLanguageModel,
    MaskedOutput,
    Tokens,
    without_own_place,
)
from depgen.nn.lengths import mask_of
from depgen.nn.precise import precise, restored
from depgen.nn.vocabulary import full_precision
from depgen.training.hyper_parameters import factory

KERNEL = 9
"""Words that a convolution of the parser sees."""
LOWEST = -300.0
"""Nats below its sentence's highest word at which a word's weight as a head ends: its square is still a double."""

Calibration = Literal["sentence", "batch"]


class DistanceParser(nn.Module):
    """Heights of words and distances of the boundaries after them, by convolutions over word embeddings.

    A layer is a convolution, a normalisation without gain and bias, and tanh.
    """

    def __init__(self, width: int, *, layers: int, dropout: float) -> None:
        super().__init__()
        self.width, self.dropout = width, nn.Dropout(dropout)
        self.layers = nn.ModuleList(nn.Conv1d(width, width, KERNEL, padding=KERNEL // 2) for _ in range(layers))
        self.pairs = nn.Conv1d(width, width, 2)
        for convolution in (*self.layers, self.pairs):
            assert isinstance(convolution, nn.Conv1d)
            assert convolution.bias is not None
            nn.init.xavier_uniform_(convolution.weight)
            nn.init.zeros_(convolution.bias)
        self.distance = nn.Linear(width, 1)
        self.words, self.height = nn.Linear(width, width), nn.Linear(width, 1)

    def forward(
        self, embedded: Float[Tensor, "batch length width"], is_word: Bool[Tensor, "batch length"]
    ) -> tuple[Float[Tensor, "batch length"], Float[Tensor, "batch length"]]:
        """Heights, and distances between each word and the next, at least in fp32; any number beyond the words."""
        states = self.dropout(embedded)
        for layer in self.layers:
            states = self._activated(_convolved(layer, states.masked_fill(~is_word[:, :, None], 0)))
            states = self.dropout(states)
        heights = self.height(self._activated(self.words(states)))
        distances = self.distance(self._activated(_convolved(self.pairs, F.pad(states, (0, 0, 0, 1)))))
        return full_precision(heights[:, :, 0]), full_precision(distances[:, :, 0])

    def _activated(self, states: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        return F.layer_norm(states, (self.width,)).tanh()


def _convolved(layer: nn.Module, states: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch _ width"]:
    convolved: Tensor = layer(states.mT)
    return convolved.mT


def inner_boundaries(is_word: Bool[Tensor, "batch length"]) -> Bool[Tensor, "batch length"]:
    """True where the boundary after a word lies between two words of the sentence."""
    return F.pad(is_word[:, 1:], (0, 1))


def calibrated(
    heights: Float[Tensor, "batch length"],
    distances: Float[Tensor, "batch length"],
    is_word: Bool[Tensor, "batch length"],
    calibration: Calibration = "sentence",
) -> Float[Tensor, "batch length"]:
    """Distances, lowered until no constituent but the sentence has both boundaries above all its words. O(n^2).

    By max over spans i..j of min(relu(distance_(i-1) - h_ij), relu(distance_j - h_ij)), h_ij the greatest height in the
    span and the distance before and after the sentence infinite.
    """
    length = heights.shape[1]
    spans = torch.ones(length, length, dtype=torch.bool, device=heights.device).triu()
    highest = torch.where(spans, heights[:, None, :], -torch.inf).cummax(-1).values
    edges = distances.masked_fill(~inner_boundaries(is_word), torch.inf)
    left = (F.pad(edges[:, :-1], (1, 0), value=torch.inf)[:, :, None] - highest).relu()
    right = (edges[:, None, :] - highest).relu()
    inside = spans & is_word[:, None, :]
    inside[:, 0] &= inner_boundaries(is_word)  # not the whole sentence
    margins = torch.minimum(left, right).masked_fill(~inside, 0).amax((1, 2))
    return distances - (margins.max() if calibration == "batch" else margins[:, None])


def border_probabilities(
    heights: Float[Tensor, "batch length"],
    distances: Float[Tensor, "batch length"],
    is_word: Bool[Tensor, "batch length"],
    scale: Float[Tensor, ""],
) -> tuple[Float[Tensor, "batch length borders"], Float[Tensor, "batch length borders"]]:
    """p(l | i) and p(r | i): the first and the last word of the constituent that word i reaches, where its head is."""
    crosses = ((heights[:, :, None] - distances[:, None, :]) * scale).sigmoid()  # that word i reaches past boundary j
    crosses = crosses.masked_fill(~inner_boundaries(is_word)[:, None, :], 0)
    ones = torch.ones_like(crosses)
    # p(l <= j | i) = min of what crosses boundaries j, ..., i - 1
    reached = (crosses.tril(-1) + ones.triu()).flip(-1).cummin(-1).values.flip(-1)
    left = (reached - F.pad(reached[:, :, :-1], (1, 0))).tril()
    # p(r >= j | i) = min of what crosses boundaries i, ..., j - 1
    passed = (crosses.triu() + ones.tril(-1)).cummin(-1).values
    reached = F.pad(passed[:, :, :-1], (1, 0), value=1.0)
    right = (reached - F.pad(reached[:, :, 1:], (0, 1))).triu()
    return left, right


def head_distribution(
    heights: Float[Tensor, "batch length"],
    left: Float[Tensor, "batch length borders"],
    right: Float[Tensor, "batch length borders"],
    is_word: Bool[Tensor, "batch length"],
    scale: Float[Tensor, ""],
) -> HeadScores:
    """p_D(h | i), the sum over l <= i <= r of p(l | i) p(r | i) p(h | l, r), the last a softmax of heights in l..r.

    p(h | l, r) = w_h / Z_lr, and of l <= h <= r one half holds by itself on either side of i: what is left is a matrix
    product and a running sum, O(n^3) time and O(n^2) memory. In float64, since Z spans many orders.
    """
    logits = precise(heights * scale)
    logits = logits.masked_fill(~is_word.to(logits.device), torch.finfo(torch.float64).min)
    weights = (logits - logits.amax(-1, keepdim=True).detach()).clamp_min(LOWEST).exp()  # w_h
    length = heights.shape[1]
    spans = torch.ones(length, length, dtype=torch.bool, device=logits.device).triu()
    totals = torch.where(spans, weights[:, None, :], 0.0).cumsum(-1)  # Z_lr
    inverse = torch.where(spans, totals, 1.0).reciprocal() * spans
    first, last = precise(left), precise(right)
    # h <= i: sum over l <= h of p(l | i) times sum over r of p(r | i) / Z_lr; h >= i: the same from the right
    before = (first * (last @ inverse.mT)).cumsum(-1)
    after = (last * (first @ inverse)).flip(-1).cumsum(-1).flip(-1)
    return restored(torch.where(spans, after, before) * weights[:, None, :], heights)


class StructFormer(MaskedLanguageModel):
    """A parser by distances and heights, and a masked Transformer whose attention its dependencies constrain.

    Args:
        backbone: makes the Transformer from the vocabulary size, as for `MaskedTransformer`; the parser reads its
            embeddings and is as wide as it.
        vocabulary_size: number of token types; linked from the data.
        parser_layers: convolutions of the parser (D3).
        parser_dropout: of embeddings where the parser reads them, and after its layers; 0 in the first code (D4).
        calibration: `sentence`, or `batch` as published (D1).
        kwargs: see `MaskedLanguageModel`.
    """

    def __init__(
        self,
        backbone: TransformerFactory,
        vocabulary_size: int,
        *,
        parser_layers: int = 3,
        parser_dropout: float = 0.1,
        calibration: Calibration = "sentence",
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        self.save_hyperparameters()
        self.use_backbone(factory(backbone, TransformerFactory)(vocabulary_size))
        self.parser = DistanceParser(self.backbone.width, layers=parser_layers, dropout=parser_dropout)
        self.calibration = calibration
        self.log_scales = nn.Parameter(torch.zeros(2))  # of heights against distances, and among heights
        relations = self.backbone.attention_layers, self.backbone.attention_heads, 2
        self.relation_logits = nn.Parameter(torch.empty(relations).normal_(std=0.1))

    # -- the parser -----------------------------------------------------------------------------------------------

    def parser_parameters(self) -> Iterator[nn.Parameter]:
        """The parser's, the scales of its heights, and the embeddings that it shares with the Transformer."""
        yield from self.parser.parameters()
        yield from self.backbone.embedding.parameters()
        yield self.log_scales

    def heights_and_distances(
        self, tokens: Tokens, lengths: Lengths
    ) -> tuple[Float[Tensor, "batch length"], Float[Tensor, "batch length"]]:
        """Of each word, and of the boundary after it, calibrated; any number beyond the words."""
        is_word = mask_of(lengths, tokens.shape[1], device=tokens.device)
        heights, distances = self.parser(self.backbone.embedding(tokens), is_word)
        return heights, calibrated(heights, distances, is_word, self.calibration)

    def _head_distribution(self, tokens: Tokens, lengths: Lengths) -> HeadScores:
        """p_D, at least fp32; a word's own place is "no head"."""
        heights, distances = self.heights_and_distances(tokens, lengths)
        scales = self.log_scales.exp()
        with torch.autocast(tokens.device.type, enabled=False):
            is_word = mask_of(lengths, tokens.shape[1], device=tokens.device)
            left, right = border_probabilities(heights, distances, is_word, scales[0])
            return head_distribution(heights, left, right, is_word, scales[1])

    def head_probabilities(self, tokens: Tokens, lengths: Lengths) -> HeadScores:
        """p_D without the diagonal (`HeadNetwork`)."""
        return without_own_place(
            self._head_distribution(tokens, lengths), mask_of(lengths, tokens.shape[1], device=tokens.device)
        )

    def own_heads(self, tokens: Tokens, lengths: Lengths) -> Int[Tensor, "batch length"]:
        """Heads as the model's own paper decodes them (D6): the highest word is the root; 1-based, -1 at padding.

        Nothing forbids cycles among the others, and equal heights make several roots.
        """
        is_word = mask_of(lengths, tokens.shape[1], device=tokens.device)
        heights = self.heights_and_distances(tokens, lengths)[0].masked_fill(~is_word, -torch.inf)
        heads = self.head_probabilities(tokens, lengths).argmax(-1) + 1
        return heads.masked_fill(heights == heights.amax(-1, keepdim=True), 0).masked_fill(~is_word, -1)

    # -- dependency-constrained attention -----------------------------------------------------------------------------

    def encode(
        self,
        tokens: Tokens,
        lengths: Lengths,
        *,
        heads: Tokens | None = None,
        attention: bool = False,
        all_layers: bool = False,
    ) -> MaskedOutput:
        """Last states of a Transformer that looks along the parser's dependencies; see `MaskedLanguageModel.encode`."""
        is_word, seen = mask_of(lengths, tokens.shape[1], device=tokens.device), list[LayerAttention]()
        to_head = self.head_probabilities(tokens, lengths)
        directions = torch.stack((to_head, to_head.mT))
        mixes = self.relation_logits.softmax(-1)

        def weigh(layer: int, scores: Tensor) -> Tensor:
            dependency_mask = torch.einsum("hr,rbij->bhij", mixes[layer], directions)  # w_head p_ij + w_child p_ji
            before = scores.sigmoid()
            after = before * dependency_mask
            if attention:
                seen.append(LayerAttention(before, after))
            return after

        output = self.backbone(tokens, padding=~is_word, weigh=weigh, all_layers=all_layers)
        return MaskedOutput(output.hidden, attention=tuple(seen) if attention else None, layers=output.layers)
