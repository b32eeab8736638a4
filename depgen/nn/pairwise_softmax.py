"""Log-likelihoods of sentences for all pairs of one and a context that is added to the features of its positions.

The logits of position t with context c are a_t + b_c, of which a_t is the product of the position's own features with
the output matrix and b_c that of the context. The normalisers of all pairs, `sum_v exp(a_tv) exp(b_cv)`, are then a
product of two matrices again.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64, Int
from torch import Tensor

from depgen.nn.precise import precise

CHUNK_ELEMENTS = {"cpu": 1 << 19, "cuda": 1 << 25}
"""Logits held at once, in float64."""
LEAST_SUM = 1e-290
"""Sums below are taken again one by one: float64 ends at 1e-308, and what of a sum vanished there would count."""


def pairwise_log_likelihoods(
    own: Float[Tensor, "words features"],
    added: Float[Tensor, "contexts features"],
    weight: Float[Tensor, "vocab features"],
    bias: Float[Tensor, " vocab"] | None,
    targets: Int[Tensor, " words"],
    sentence_of: Int[Tensor, " words"],
) -> Float64[Tensor, "sentences contexts"]:
    """Sums of `log softmax((own[t] + added[c]) @ weight.T + bias)[targets[t]]` over each sentence's t, for all c; nats.

    O(words x vocab x (features + contexts)) where one pair after the other is O(words x contexts x vocab x features);
    memory is O((sentences + vocab) x contexts). Exponentials are taken in float64 below the highest logit of each
    factor; where these highest are of words so different that all products vanish, the pair's logits are added first.

    Args:
        own: features of positions by themselves.
        added: what contexts add to them.
        weight: output matrix.
        bias: output bias.
        targets: the word at each position.
        sentence_of: its sentence, from 0 on.

    >>> two = torch.tensor([0, 1])
    >>> pairwise_log_likelihoods(torch.eye(2), torch.eye(2), torch.eye(2), None, two, two).exp()
    tensor([[0.8808, 0.5000],
            [0.5000, 0.8808]], dtype=torch.float64)
    """
    context = precise(F.linear(added, weight))
    targets, sentence_of = targets.to(context.device), sentence_of.to(context.device)
    highest_context = context.amax(1)
    context_factor = (context - highest_context[:, None]).exp_().T
    rows = max(1, CHUNK_ELEMENTS.get(own.device.type, 1 << 23) // len(weight))
    sums = context.new_zeros(int(sentence_of.max()) + 1 if len(own) else 0, len(added))
    for start in range(0, len(own), rows):
        words = targets[start : start + rows]
        position = precise(F.linear(own[start : start + rows], weight, bias))
        highest = position.amax(1, keepdim=True)
        products = (position - highest).exp_() @ context_factor
        log_z = products.log() + highest + highest_context
        for pairs in torch.split((products < LEAST_SUM).nonzero(), rows):
            word, before = pairs.T
            log_z[word, before] = (position[word] + context[before]).logsumexp(1)
        log_probs = position.gather(1, words[:, None]) + context[:, words].T - log_z
        sums.index_add_(0, sentence_of[start : start + rows], log_probs)
    return sums
