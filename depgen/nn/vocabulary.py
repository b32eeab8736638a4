"""Scores over the vocabulary without holding them all: one chunked log-sum-exp, and scores of single words by gathers.

A language model's loss needs, at each position, one normaliser `log Z = log sum_v exp(h . W_v + b_v)` and the scores of
a few words. The normaliser is computed for a chunk of positions at a time. The backward pass weighs rows of the softmax
by the incoming gradient: of the first chunks their exponentials are kept for it, as far as `KEPT_BYTES` reach; of the
others they are computed again, so that memory stays bounded whatever the batch. Rows of scores begin at `ROW_BYTES`,
since matrix products are slow on rows that begin anywhere, as those of a vocabulary of 10,003 words would.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.flop_counter import register_flop_formula

CHUNK_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 26}
"""Scores computed at once: 16 MiB in fp32 stay near a CPU's caches, 256 MiB fill a GPU."""

ROW_BYTES = 64
"""Rows of scores begin at multiples of it: a line of a CPU's cache, and what a GPU's matrix units ask for."""

KEPT_BYTES = {"cpu": 1 << 26, "cuda": 1 << 28}
"""Exponentials kept for the backward pass, which saves it a third of its work."""


def vocabulary_logsumexp(
    hidden: Float[Tensor, "*positions width"],
    weight: Float[Tensor, "vocab width"],
    bias: Float[Tensor, " vocab"] | None = None,
    *,
    chunk: int | None = None,
) -> Float[Tensor, "*positions"]:
    """The log-sum-exp of `hidden @ weight.T + bias` over the vocabulary, in fp32 (nats).

    Matrix products run in the autocast type where autocast is on, sums in fp32 (float64 for float64 input). Memory is
    O(chunk x vocab) and at most `KEPT_BYTES` more instead of O(positions x vocab), in the backward pass too.

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
    needs = flat.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
    log_z: Tensor = _log_sums(flat, weight, bias, rows, dtype, torch.is_grad_enabled() and needs)[0]
    return log_z.reshape(hidden.shape[:-1])


@torch.library.custom_op("depgen::vocabulary_logsumexp", mutates_args=())
def _log_sums(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, rows: int, dtype: torch.dtype, keeps: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The log-sum-exp of each position, its highest score, and the exponentials of the first positions.

    One operation in the eyes of `torch.compile`, whose graphs would break at its chunks.
    """
    states, matrix = hidden.to(dtype), weight.to(dtype)
    kept = _room_for_powers(states, len(matrix), wanted=keeps)
    room = _aligned(states, min(len(states), rows), len(matrix))
    highest = torch.empty_like(full_precision(hidden[:, 0]))
    log_z = torch.empty_like(highest)
    with torch.autocast(hidden.device.type, enabled=False):
        for part in _parts(0, len(hidden), rows):
            scores = _scores(states[part], matrix, bias, room)
            highest[part] = scores.amax(-1)
            powers = scores.sub_(highest[part, None]).exp_()
            log_z[part] = powers.sum(-1).log_().add_(highest[part])
            kept[part] = powers[: len(kept[part])]
    return log_z, highest, kept


@_log_sums.register_fake
def _(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, rows: int, dtype: torch.dtype, keeps: bool
) -> tuple[Tensor, Tensor, Tensor]:
    log_z = torch.empty_like(full_precision(hidden[:, 0]))
    return log_z, torch.empty_like(log_z), _room_for_powers(hidden.to(dtype), len(weight), wanted=keeps)


@torch.library.custom_op("depgen::vocabulary_logsumexp_backward", mutates_args=())
def _gradients(
    gradient: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None, highest: Tensor, log_z: Tensor,
    kept: Tensor, rows: int, dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of hidden states, weight and bias; the last is empty without one."""
    matrix, states = weight.to(dtype), hidden.to(dtype)
    # d log Z / d scores = softmax(scores) = powers / sum of powers, weighed by what flows in
    weighing = gradient * (highest - log_z).exp_()
    weighed_states = (full_precision(hidden) * weighing[:, None]).to(dtype)
    d_hidden = torch.empty_like(hidden)
    d_weight = torch.zeros(weight.shape, dtype=log_z.dtype, device=weight.device)
    d_bias = log_z.new_zeros(0 if bias is None else len(bias))
    room = _aligned(states, min(len(states) - len(kept), rows), len(matrix))
    with torch.autocast(hidden.device.type, enabled=False):
        for part in (slice(0, len(kept)), *_parts(len(kept), len(hidden), rows)):
            powers = kept
            if part.start >= len(kept):
                scores = _scores(states[part], matrix, bias, room)
                powers = room[: len(scores)].copy_(scores.sub_(highest[part, None]).exp_())
            d_hidden[part] = full_precision(powers @ matrix).mul_(weighing[part, None])
            if dtype == d_weight.dtype:
                d_weight.addmm_(powers.T, weighed_states[part])  # no second matrix of the weights' size
            else:
                d_weight += powers.T @ weighed_states[part]
            if bias is not None:
                d_bias += weighing[part].to(dtype) @ powers
    return d_hidden, d_weight.to(weight.dtype), d_bias if bias is None else d_bias.to(bias.dtype)


@_gradients.register_fake
def _(
    gradient: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None, highest: Tensor, log_z: Tensor,
    kept: Tensor, rows: int, dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    d_weight = torch.empty(weight.shape, dtype=weight.dtype, device=weight.device)
    return torch.empty_like(hidden), d_weight, log_z.new_empty(0) if bias is None else torch.empty_like(bias)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:  # noqa: ANN401
    """Keep what `_gradients` takes; no gradient flows into the two other outputs."""
    hidden, weight, bias, ctx.rows, ctx.dtype, _ = inputs
    log_z, highest, kept = output
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(highest, kept)
    ctx.save_for_backward(hidden, weight, bias, highest, log_z, kept)


@once_differentiable
def _backward(ctx: Any, gradient: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    if gradient is None:
        return (None,) * 6
    hidden, weight, bias, highest, log_z, kept = ctx.saved_tensors
    d_hidden, d_weight, d_bias = _gradients(gradient, hidden, weight, bias, highest, log_z, kept, ctx.rows, ctx.dtype)
    return d_hidden, d_weight, None if bias is None else d_bias, None, None, None


_log_sums.register_autograd(_backward, setup_context=_keep)


@register_flop_formula(torch.ops.depgen.vocabulary_logsumexp)
def _flops(hidden: Sequence[int], weight: Sequence[int], *_: Any, **__: Any) -> int:  # noqa: ANN401
    """Of the product that makes the scores, from the shapes of the arguments."""
    return 2 * hidden[0] * weight[0] * weight[1]


@register_flop_formula(torch.ops.depgen.vocabulary_logsumexp_backward)
def _backward_flops(
    gradient: Sequence[int], hidden: Sequence[int], weight: Sequence[int], bias: Sequence[int] | None,
    highest: Sequence[int], log_z: Sequence[int], kept: Sequence[int], *_: Any, **__: Any,  # noqa: ANN401
) -> int:  # fmt: skip
    """Of two products, and of the scores that are computed again."""
    return 2 * (3 * hidden[0] - kept[0]) * weight[0] * weight[1]


def _room_for_powers(states: Tensor, words: int, *, wanted: bool) -> Tensor:
    """Room for the exponentials of the first positions, none where no gradient is wanted."""
    held = KEPT_BYTES.get(states.device.type, 0) // (_row(states, words) * states.element_size())
    return _aligned(states, min(len(states), held) if wanted else 0, words)


def _aligned(states: Tensor, rows: int, columns: int) -> Tensor:
    """Room for scores; each row begins at a multiple of `ROW_BYTES`."""
    return states.new_empty(rows, _row(states, columns))[:, :columns]


def _row(states: Tensor, columns: int) -> int:
    """From the beginning of an aligned row to that of the next, in elements."""
    step = ROW_BYTES // states.element_size()
    return -(-columns // step) * step


def _parts(start: int, stop: int, rows: int) -> Iterator[slice]:
    return (slice(first, min(first + rows, stop)) for first in range(start, stop, rows))


def _scores(hidden: Tensor, matrix: Tensor, bias: Tensor | None, room: Tensor) -> Tensor:
    """Scores in full precision; those that are so from the beginning lie in the room that was given."""
    scores = full_precision(torch.mm(hidden, matrix.T, out=room[: len(hidden)]))
    return scores if bias is None else scores.add_(bias)


def full_precision(values: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """The same in fp32, where sums are taken; float64 stays."""
    return values if values.dtype == torch.float64 else values.float()


def word_scores(
    hidden: Float[Tensor, "*positions width"],
    weight: Float[Tensor, "vocab width"],
    bias: Float[Tensor, " vocab"] | None,
    tokens: Int[Tensor, "*positions"],
) -> Float[Tensor, "*positions"]:
    """The score of one word a position, `hidden . weight[word] + bias[word]`, in fp32."""
    scores = full_precision(hidden).mul(F.embedding(tokens, weight)).sum(-1)
    return scores if bias is None else scores + bias[tokens]


def word_log_probs(
    hidden: Float[Tensor, "*positions width"],
    weight: Float[Tensor, "vocab width"],
    bias: Float[Tensor, " vocab"] | None,
    tokens: Int[Tensor, "*positions"],
) -> Float[Tensor, "*positions"]:
    """The log-probability (nats) of one word a position under the softmax over the vocabulary."""
    return word_scores(hidden, weight, bias, tokens) - vocabulary_logsumexp(hidden, weight, bias)


def log_softmax_over_vocabulary(
    hidden: Float[Tensor, "*positions width"],
    weight: Float[Tensor, "vocab width"],
    bias: Float[Tensor, " vocab"] | None,
) -> Float[Tensor, "*positions vocab"]:
    """All log-probabilities (nats), for decoding; costs O(positions x vocab) memory."""
    return full_precision(F.linear(hidden, weight, bias)).log_softmax(-1)
