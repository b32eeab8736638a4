"""The losses of a graph that is learnt word by word: GiLT (Huang et al., 2026), Eq. 6."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.nn.graph_scorer import GraphScores


def graph_losses(
    scores: GraphScores,
    from_earlier: Bool[Tensor, "batch words nodes"],
    to_earlier: Bool[Tensor, "batch words nodes"],
    counts: Int[Tensor, "batch words"],
    lengths: Int[Tensor, " batch"],
    *,
    self_loops: bool = True,
) -> tuple[Float[Tensor, " batch"], Float[Tensor, "batch words"]]:
    """The cross-entropy (nats) of each sentence's arcs, summed over pairs, and of each word's count (Eq. 6).

    Args:
        scores: of all pairs.
        from_earlier: whether word i has an arc from j, at `[i - 1, j]`.
        to_earlier: whether it has one to j.
        counts: of each word's arcs with earlier words.
        lengths: number of words of each sentence.
        self_loops: whether the pair of a word and itself counts.
    """
    words = counts.size(1)
    node = torch.arange(words + 1, device=counts.device)
    word = node[1:, None]
    is_word = (node[1:] <= lengths[:, None].to(counts.device))[..., None]
    before = is_word & (node < word)
    with_itself = is_word & (node <= word) if self_loops else before
    nll = F.binary_cross_entropy_with_logits(
        scores.from_earlier, from_earlier.to(scores.counts.dtype), reduction="none"
    )
    arcs = nll.masked_fill(~before, 0).sum((1, 2))
    nll = F.binary_cross_entropy_with_logits(scores.to_earlier, to_earlier.to(scores.counts.dtype), reduction="none")
    arcs = arcs + nll.masked_fill(~(with_itself & (node > 0)), 0).sum((1, 2))
    chosen = scores.counts.log_softmax(-1).gather(-1, counts[..., None])[..., 0]
    return arcs, -chosen.masked_fill(~is_word[..., 0], 0)
