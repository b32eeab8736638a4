"""Marginals of the arcs of spanning trees by Kirchhoff's theorem. Koo, Globerson, Carreras & Collins (2007)."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from depgen.nn.precise import precise, restored

DEPTH = 24.0
"""Nats below its word's best arc from where on an arc counts as being just so far below. Two words that take each other
for heads by more than 36 would make a matrix that is singular in float64, as no tree has such a cycle."""


def tree_marginals(
    scores: Float[Tensor, "batch dependents heads"],
    root_scores: Float[Tensor, "batch dependents"],
    is_word: Bool[Tensor, "batch length"],
) -> tuple[Float[Tensor, "batch dependents heads"], Float[Tensor, "batch dependents"]]:
    """How probable each arc and each root is where a tree's weight is exp of its arcs' and its one root's scores.

    The trees are all non-projective ones with a single root. In float64, returned in the scores' precision; 0 at
    padding and on the diagonal. `scores[b, i, j]` is that of word i depending on word j; the diagonal is ignored. One
    inverse a sentence, O(n^3); differentiable.
    """
    length = scores.shape[1]
    arcs, roots = precise(scores), precise(root_scores)
    is_word, diagonal = is_word.to(arcs.device), torch.eye(length, dtype=torch.bool, device=arcs.device)
    possible = is_word[:, :, None] & is_word[:, None, :] & ~diagonal
    arcs, roots = arcs.masked_fill(~possible, -torch.inf), roots.masked_fill(~is_word, -torch.inf)
    # neither a constant a word nor one for all roots changes how probable a tree is: each word's best arc weighs 1, and
    # so does the best root
    highest = arcs.amax(2).detach()
    highest = highest.masked_fill(highest.isneginf(), 0)
    below = arcs - highest[:, :, None]
    weights = torch.where(below.isneginf(), below, below.clamp_min(-DEPTH)).exp()
    roots = roots - highest
    root_weights = (roots - roots.amax(1, keepdim=True).detach()).exp()
    laplacian = torch.diag_embed(weights.sum(2)) - weights
    laplacian = torch.cat((root_weights[:, :, None], laplacian[:, :, 1:]), 2)
    laplacian = laplacian + torch.diag_embed((~is_word).double())
    inverse = torch.linalg.inv(laplacian)
    first = torch.arange(length, device=arcs.device) == 0
    own = inverse.diagonal(dim1=1, dim2=2).masked_fill(first, 0)
    other = inverse.masked_fill(first[:, None], 0)  # [k, i]: 0 in the first row
    marginals = weights * (own[:, :, None] - other.mT)
    return restored(marginals, scores), restored(root_weights * inverse[:, 0], scores)
