"""Scores over the vocabulary without ever holding them all: one chunked log-sum-exp and the gathers beside it.

A language model's loss needs, at each position, one normaliser `log Z = log sum_v exp(h . W_v + b_v)` and the scores of
a few words. The normaliser is computed for a chunk of positions at a time and only its value is kept; the backward pass
computes the chunk again and weighs its softmax by the incoming gradient.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import FunctionCtx

CHUNK_ELEMENTS = {"cpu": 1 << 21, "cuda": 1 << 26}
"""Scores held at once: 8 MiB in fp32 stay near a CPU's caches (1.7x faster than 128 MiB), 256 MiB fill a GPU."""


def vocabulary_logsumexp(
    hidden: Float[Tensor, "*positions width"],
    weight: Float[Tensor, "vocab width"],
    bias: Float[Tensor, " vocab"] | None = None,
    *,
    chunk: int | None = None,
) -> Float[Tensor, "*positions"]:
    """The log-sum-exp of `hidden @ weight.T + bias` over the vocabulary, in fp32 (nats).

    Matrix products run in the autocast type where autocast is on, sums in fp32 (float64 for float64 input). Memory is
    O(chunk x vocab) instead of O(positions x vocab), in the backward pass too.

    Args:
        hidden: hidden states.
        weight: output matrix.
        bias: output bias.
        chunk: positions computed at once; by default as many as `CHUNK_ELEMENTS` scores allow.

    >>> vocabulary_logsumexp(torch.zeros(2, 3), torch.zeros(4, 3)).exp().tolist()
    [4.0, 4.0]
    """
    flat = hidden.reshape(-1, hidden.shape[-1])
    rows = chunk or max(1, CHUNK_ELEMENTS.get(hidden.device.type, 1 << 24) // weight.shape[0])
    device = hidden.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    log_z: Tensor = _VocabularyLogSumExp.apply(flat, weight, bias, rows, dtype)  # type: ignore[no-untyped-call]
    return log_z.reshape(hidden.shape[:-1])


class _VocabularyLogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx, hidden: Tensor, weight: Tensor, bias: Tensor | None, rows: int, dtype: torch.dtype
    ) -> Tensor:
        with torch.autocast(hidden.device.type, enabled=False):
            matrix = weight.to(dtype)
            log_z = torch.cat([_scores(part, matrix, bias).logsumexp(-1) for part in _chunks(hidden.to(dtype), rows)])
        ctx.save_for_backward(hidden, weight, log_z, *(() if bias is None else (bias,)))
        ctx.rows, ctx.dtype = rows, dtype  # type: ignore[attr-defined]
        return log_z

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, log_z, *rest = ctx.saved_tensors  # type: ignore[attr-defined]
        bias = rest[0] if rest else None
        rows, dtype = ctx.rows, ctx.dtype  # type: ignore[attr-defined]
        matrix, states = weight.to(dtype), hidden.to(dtype)
        d_hidden = torch.empty_like(hidden)
        d_weight = torch.zeros(weight.shape, dtype=log_z.dtype, device=weight.device)
        d_bias = None if bias is None else torch.zeros_like(bias, dtype=log_z.dtype)
        with torch.autocast(hidden.device.type, enabled=False):
            for start in range(0, hidden.shape[0], rows):
                part = slice(start, start + rows)
                # d log Z / d scores = softmax(scores), weighed by what flows in
                scores = _scores(states[part], matrix, bias)
                weighed = scores.sub_(log_z[part, None]).exp_().mul_(gradient[part, None])
                if d_bias is not None:
                    d_bias += weighed.sum(0)
                low = weighed.to(dtype)
                d_hidden[part] = low @ matrix
                if low.dtype == d_weight.dtype:
                    d_weight.addmm_(low.T, states[part])  # no second matrix of the weights' size
                else:
                    d_weight += low.T @ states[part]
        return (
            d_hidden,
            d_weight.to(weight.dtype),
            None if d_bias is None or bias is None else d_bias.to(bias.dtype),
            None,
            None,
        )


def _chunks(hidden: Tensor, rows: int) -> tuple[Tensor, ...]:
    return torch.split(hidden, rows) if hidden.shape[0] else (hidden,)


def _scores(hidden: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    scores = full_precision(hidden @ matrix.T)
    return scores if bias is None else scores.add_(bias)


def full_precision(values: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """The same in fp32, where sums are taken; float64 stays."""
    return values if values.dtype == torch.float64 else values.float()


def word_scores(
    hidden: Float[Tensor, "*positions width"],
    weight: Float[Tensor, "vocab width"],
    bias: Float[Tensor, " vocab"] | None,
    words: Int[Tensor, "*positions"],
) -> Float[Tensor, "*positions"]:
    """The score of one word a position, `hidden . weight[word] + bias[word]`, in fp32."""
    scores = full_precision(hidden).mul(F.embedding(words, weight)).sum(-1)
    return scores if bias is None else scores + bias[words]


def word_log_probs(
    hidden: Float[Tensor, "*positions width"],
    weight: Float[Tensor, "vocab width"],
    bias: Float[Tensor, " vocab"] | None,
    words: Int[Tensor, "*positions"],
) -> Float[Tensor, "*positions"]:
    """The log-probability (nats) of one word a position under the softmax over the vocabulary."""
    return word_scores(hidden, weight, bias, words) - vocabulary_logsumexp(hidden, weight, bias)


def log_softmax_over_vocabulary(
    hidden: Float[Tensor, "*positions width"],
    weight: Float[Tensor, "vocab width"],
    bias: Float[Tensor, " vocab"] | None,
) -> Float[Tensor, "*positions vocab"]:
    """All log-probabilities (nats), for decoding; costs O(positions x vocab) memory."""
    return full_precision(F.linear(hidden, weight, bias)).log_softmax(-1)
