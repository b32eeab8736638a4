"""Scores over the vocabulary without holding them all: one chunked log-sum-exp, and scores of single words by gathers.

A language model's loss needs, at each position, one normaliser `log Z = log sum_v exp(h . W_v + b_v)` and the scores of
a few words. The normaliser is computed for a chunk of positions at a time. The backward pass needs the softmax of each
position: of the first chunks it is kept, as far as `KEPT_BYTES` reach, of the others computed again, so that memory
stays bounded whatever the batch. With PyTorch's checkpoints of chunks in its place, a training step takes 1.4 times as
long on a CPU.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

Weight = Float[Tensor, "vocab width"]
Bias = Float[Tensor, " vocab"] | None
"""Of the output."""

CHUNK_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 26}
"""Scores computed at once: 16 MiB in fp32 stay near a CPU's caches, 256 MiB fill a GPU."""

ROW_BYTES = 64
"""Rows of scores begin at multiples of it, a line of a CPU's cache and what a GPU's matrix units ask for: products are
slow on rows that begin anywhere, as those of a vocabulary of 10,003 words would. Without, a training step of a small
Transformer in bf16 takes 1.06 times as long on a CPU."""

FEW = 512
"""Up to this number of positions, and without gradients, the output matrix is not padded: padding would take longer
than it saves. With 10 positions, GPT-2's width and its vocabulary it would take 200 ms in place of 55 on a CPU."""

KEPT_BYTES = {"cpu": 1 << 26, "cuda": 1 << 28}
"""Probabilities kept for the backward pass; without, a training step of a small Transformer takes 1.1 times as long."""


def vocabulary_logsumexp(
    hidden: Float[Tensor, "*positions width"], weight: Weight, bias: Bias = None, *, chunk: int | None = None
) -> Float[Tensor, "*positions"]:
    """The log-sum-exp of `hidden @ weight.T + bias` over the vocabulary, in fp32 (nats).

    Matrix products run in the autocast type where autocast is on, sums in fp32 (float64 for float64 input). Memory is
    O(chunk x vocab) and at most `KEPT_BYTES` more instead of O(positions x vocab), in the backward pass too. A chunk
    has as many positions as `CHUNK_ELEMENTS` scores allow, unless it is given.

    >>> vocabulary_logsumexp(torch.zeros(2, 3), torch.zeros(4, 3)).exp().tolist()
    [4.0, 4.0]
    """
    device = hidden.device.type
    rows = chunk or max(1, CHUNK_ELEMENTS.get(device, 1 << 24) // weight.shape[0])
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    needs_gradient = hidden.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
    trains, flat = torch.is_grad_enabled() and needs_gradient, hidden.flatten(0, -2)
    kept, pads = KEPT_BYTES.get(device, 0) if trains else 0, trains or len(flat) > FEW
    log_z: Tensor = _LogSumExp.apply(flat, weight, bias, rows, dtype, kept, pads)  # type: ignore[no-untyped-call]
    return log_z.view(hidden.shape[:-1])


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        rows: int,
        dtype: torch.dtype,
        kept_bytes: int,
        pads: bool,
    ) -> Tensor:
        matrix, words = weight.to(dtype), len(weight)
        matrix = _with_whole_lines(matrix) if pads else matrix
        kept: list[Tensor] = []
        log_z: list[Tensor] = []
        for states in hidden.to(dtype).split(rows):  # type: ignore[no-untyped-call]
            scores = _scores(states, matrix, words, bias)
            highest = scores.amax(-1, keepdim=True)
            powers = scores.sub_(highest).exp_()
            total = powers.sum(-1, keepdim=True)
            log_z.append((total.log() + highest)[:, 0])
            kept_bytes -= powers.numel() * dtype.itemsize
            if kept_bytes >= 0:
                kept.append(powers.div_(total).to(dtype))
            del scores, powers  # before there are those of the next chunk
        whole = torch.cat(log_z)
        ctx.save_for_backward(hidden, weight, bias, whole, *kept)
        ctx.rows, ctx.dtype = rows, dtype
        return whole

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        hidden, weight, bias, log_z, *kept = ctx.saved_tensors
        matrix, words = _with_whole_lines(weight.to(ctx.dtype)), len(weight)
        d_weight = torch.zeros_like(weight, dtype=log_z.dtype)
        d_bias = None if bias is None else torch.zeros_like(bias, dtype=log_z.dtype)
        d_hidden = []
        chunks = zip(*(each.split(ctx.rows) for each in (hidden, log_z[:, None], gradient[:, None])), strict=True)
        for number, (states, normaliser, weighing) in enumerate(chunks):
            if number < len(kept):
                probabilities = kept[number]
            else:
                probabilities = _probabilities(states.to(ctx.dtype), matrix, words, bias, normaliser)
            d_hidden.append(full_precision(probabilities @ matrix[:words]).mul_(weighing).to(hidden.dtype))
            weighed = (full_precision(states) * weighing).to(ctx.dtype)
            if ctx.dtype == d_weight.dtype:
                d_weight.addmm_(probabilities.T, weighed)  # no second matrix of the weights' size
            else:
                d_weight += probabilities.T @ weighed
            if d_bias is not None:
                d_bias += (weighing.to(ctx.dtype).T @ probabilities)[0]
            del probabilities  # before there are those of the next chunk
        of_bias = None if bias is None or d_bias is None else d_bias.to(bias.dtype)
        return torch.cat(d_hidden), d_weight.to(weight.dtype), of_bias, None, None, None, None


def _with_whole_lines(matrix: Tensor) -> Tensor:
    """The matrix with zeros for further words, so that rows of scores begin at multiples of `ROW_BYTES`."""
    more = -len(matrix) % (ROW_BYTES // matrix.element_size())
    return F.pad(matrix, (0, 0, 0, more)) if more else matrix


def _scores(states: Tensor, matrix: Tensor, words: int, bias: Tensor | None) -> Tensor:
    """Scores of the first words of a matrix, in full precision."""
    scores = full_precision(states @ matrix.T)[:, :words]
    return scores if bias is None else scores.add_(bias)


def _probabilities(states: Tensor, matrix: Tensor, words: int, bias: Tensor | None, log_z: Tensor) -> Tensor:
    """The softmax over the first words of a matrix, in the type of the states."""
    return _scores(states, matrix, words, bias).sub_(log_z).exp_().to(states.dtype)


def full_precision(values: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """The same in fp32, where sums are taken; float64 stays."""
    return values if values.dtype == torch.float64 else values.float()


def word_scores(
    hidden: Float[Tensor, "*positions width"], weight: Weight, bias: Bias, tokens: Int[Tensor, "*positions"]
) -> Float[Tensor, "*positions"]:
    """The score of one word a position, `hidden . weight[word] + bias[word]`, in fp32."""
    scores = full_precision(hidden).mul(F.embedding(tokens, weight)).sum(-1)
    return scores if bias is None else scores + bias[tokens]


def word_log_probs(
    hidden: Float[Tensor, "*positions width"], weight: Weight, bias: Bias, tokens: Int[Tensor, "*positions"]
) -> Float[Tensor, "*positions"]:
    """The log-probability (nats) of one word a position under the softmax over the vocabulary."""
    return word_scores(hidden, weight, bias, tokens) - vocabulary_logsumexp(hidden, weight, bias)


def without(scores: Float[Tensor, "*positions vocab"], token: int) -> Float[Tensor, "*positions vocab"]:
    """The scores, or a bias, with -inf for a token.

    >>> without(torch.zeros(3), 1)
    tensor([0., -inf, 0.])
    """
    return scores.masked_fill(torch.arange(scores.size(-1), device=scores.device) == token, -torch.inf)


def log_softmax_over_vocabulary(
    hidden: Float[Tensor, "*positions width"], weight: Weight, bias: Bias
) -> Float[Tensor, "*positions vocab"]:
    """All log-probabilities (nats), for decoding; costs O(positions x vocab) memory."""
    return full_precision(F.linear(hidden, weight, bias)).log_softmax(-1)
