"""Contexts of a document's sentences: the last state of the sentence before, where sentences are encoded in turn."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def last_states(
    states: Float[Tensor, "rows word size"], lengths: Int[Tensor, " rows"], *, otherwise: Tensor | None = None
) -> Float[Tensor, "rows size"]:
    """The states at each row's last word; `otherwise`, or anything, where there is none.

    >>> last_states(torch.arange(6.0).view(2, 3, 1), torch.tensor([2, 3]))
    tensor([[1.],
            [5.]])
    """
    rows, lengths = torch.arange(len(states), device=states.device), lengths.to(states.device, non_blocking=True)
    found = states[rows, (lengths - 1).clamp_min(0)]
    return found if otherwise is None else torch.where((lengths > 0)[:, None], found, otherwise)


def longest_of_each(lengths: Int[Tensor, "batch sentence"]) -> list[int]:
    """The largest length of each sentence of a batch, at least 1.

    >>> longest_of_each(torch.tensor([[2, 0], [3, 0]]))
    [3, 1]
    """
    found: list[int] = lengths.amax(0).clamp_min(1).tolist()
    return found


def encode_in_turn(
    encode: Callable[[int, int, Float[Tensor, "batch size"]], Float[Tensor, "batch longest size"]],
    lengths: Int[Tensor, "batch sentence"],
    longest: int,
    first: Float[Tensor, " size"],
) -> Float[Tensor, "batch sentence {longest} size"]:
    """States of sentences that are encoded one after another, each given the last state of the one before.

    Args:
        encode: from a sentence's number, its largest length and the context of each document to states.
        lengths: of the sentences; one of length 0 passes its context on.
        longest: length of what is returned, at least that of the longest sentence.
        first: the context of the first sentence.
    """
    context, found = first.expand(len(lengths), -1), []
    for sentence, reach in enumerate(longest_of_each(lengths)):
        states = encode(sentence, reach, context)
        context = last_states(states, lengths[:, sentence], otherwise=context)
        found.append(F.pad(states, (0, 0, 0, longest - reach)))
    return torch.stack(found, 1)


def sentence_end_states(
    states: Float[Tensor, "batch sentence word size"],
    lengths: Int[Tensor, "batch sentence"],
    first: Float[Tensor, " size"],
) -> Float[Tensor, "batch before size"]:
    """The context at a document's beginning (0), and the last state of each of its sentences (from 1 on)."""
    last = last_states(states.flatten(0, 1), lengths.flatten()).view(*lengths.shape, -1)
    return torch.cat((first.expand(len(last), 1, -1), last), 1)
