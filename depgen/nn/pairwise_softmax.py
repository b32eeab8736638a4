"""Word log-probabilities for all pairs of a position and a context that is added to its features.

The logits of position t with context c are a_t + b_c, of which a_t is the product of the position's own features with
the output matrix and b_c that of the context. The normalisers of all pairs, `sum_v exp(a_tv) exp(b_cv)`, are then a
product of two matrices again.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64, Int
from torch import Tensor

from depgen.nn.vocabulary import CHUNK_ELEMENTS


def pairwise_word_log_probs(
    own: Float[Tensor, "words features"],
    added: Float[Tensor, "contexts features"],
    weight: Float[Tensor, "vocab features"],
    bias: Float[Tensor, " vocab"] | None,
    targets: Int[Tensor, " words"],
) -> Float64[Tensor, "words contexts"]:
    """`log softmax((own[t] + added[c]) @ weight.T + bias)[targets[t]]` for all t and c, in nats.

    O(words x vocab x (features + contexts)) where one pair after the other is O(words x contexts x vocab x features).
    Exponentials are taken in float64 below the highest logit of each factor, so that none vanishes unless logits lie
    more than 700 nats apart.

    Args:
        own: features of positions by themselves.
        added: what contexts add to them.
        weight: output matrix.
        bias: output bias.
        targets: the word at each position.

    >>> pairwise_word_log_probs(torch.eye(2), torch.eye(2), torch.eye(2), None, torch.tensor([0, 1])).exp()
    tensor([[0.8808, 0.5000],
            [0.5000, 0.8808]], dtype=torch.float64)
    """
    context = F.linear(added, weight).double()
    highest_context = context.amax(1)
    context_factor = (context - highest_context[:, None]).exp_().T
    rows = max(1, CHUNK_ELEMENTS.get(own.device.type, 1 << 24) // (2 * len(weight)))
    found = []
    for start in range(0, max(1, len(own)), rows):
        words = targets[start : start + rows]
        position = F.linear(own[start : start + rows], weight, bias).double()
        highest = position.amax(1, keepdim=True)
        of_target = position.gather(1, words[:, None]) + context[:, words].T
        log_z = (position.sub_(highest).exp_() @ context_factor).log_() + highest + highest_context
        found.append(of_target - log_z)
    return torch.cat(found)
