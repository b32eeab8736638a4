"""Binary bracketings as one decision a token: how many constituents the token closes (Murty et al., 2023).

A bracketing is read from left to right on a stack of constituents. Each token is first pushed; then it may be joined
with the constituents on top of the stack, one by one. Its *attachment* is the last token of the leftmost constituent
that it is joined with, or the token itself where it is joined with none.

Tokens count from 0; a span (start, end) covers the tokens from `start` up to, not including, `end`.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, UInt8

from depgen.errors import UserError
from depgen.trees.constituency import Span

DEEPEST = 255
"""The largest depth that a tape holds; greater ones are written as this."""


def binary_constituents(spans: Iterable[Sequence[int | str]], length: int) -> list[Span]:
    """The spans of two tokens or more, and those that make each constituent of more than two parts binary.

    The parts after the first are joined from the right, as by nltk's `chomsky_normal_form`: (a b c) is (a (b c)).
    Constituents over the same tokens are one. Where no span covers all tokens, the whole is left open. O(length log
    length).

    Of a span, only start and end are read.

    Raises:
        UserError: a span outside the sentence, or two that cross.

    >>> binary_constituents([(0, 4, "S"), (0, 2, "NP"), (0, 1, "N")], 4)
    [(0, 2), (0, 4), (2, 4)]
    """
    distinct = {(int(start), int(end)) for start, end, *_ in spans}
    outside = next((span for span in sorted(distinct) if not 0 <= span[0] < span[1] <= length), None)
    if outside is not None:
        raise UserError(f"Expected spans within a sentence of {length} tokens, found {outside}.")
    ends = {token: token + 1 for token in range(length)}  # of what begins at a token and is joined so far
    binary = set[Span]()
    for start, end in sorted(distinct, key=lambda span: span[1] - span[0]):
        parts = [start]
        while ends.get(parts[-1], end) < end:
            parts.append(ends[parts[-1]])
        if ends.get(parts[-1]) != end:
            raise UserError(f"Expected a tree, found {(start, end)}, which crosses another span.")
        binary |= {(part, end) for part in parts[:-1]}
        for part in parts[1:]:
            del ends[part]
        ends[start] = end
    return sorted(binary)


def with_words(spans: Iterable[Span], word_ends: Bool[np.ndarray, " tokens"]) -> list[Span]:
    """Spans of tokens, and those of the words that have several; `word_ends`: whether a token is the last of a word.

    >>> with_words([(0, 3)], np.array([True, False, True]))
    [(0, 3), (1, 3)]
    """
    bounds = [0, *(np.flatnonzero(word_ends) + 1).tolist()]
    return [*spans, *((start, end) for start, end in pairwise(bounds) if end - start > 1)]


def cuts_of(spans: Iterable[Span]) -> list[tuple[int, int, int]]:
    """Start, cut and end of each span of a binary bracketing; its second part begins at the cut.

    >>> cuts_of([(0, 4), (0, 2), (2, 4)])
    [(0, 1, 2), (0, 2, 4), (2, 3, 4)]
    """
    found, part = list[tuple[int, int, int]](), dict[int, int]()  # where the largest span so far from a token ends
    for start, end in sorted(spans):
        found.append((start, part.get(start, start + 1), end))
        part[start] = end
    return found


def attachments_of(spans: Iterable[Span], length: int) -> list[int]:
    """The attachment of each token of a binary bracketing, which may be open at its top.

    >>> attachments_of([(0, 4), (0, 2), (2, 4)], 4)  # ((a b) (c d))
    [0, 0, 2, 1]
    """
    labels = list(range(length))
    for _, cut, end in reversed(cuts_of(spans)):  # of spans with the same end, the largest comes last
        labels[end - 1] = cut - 1
    return labels


def spans_of_joins(joins: Sequence[int]) -> list[Span]:
    """The spans of two tokens or more, from the number of constituents that each token is joined with.

    >>> spans_of_joins([0, 1, 0, 2])  # ((a b) (c d))
    [(0, 2), (0, 4), (2, 4)]
    """
    starts, spans = list[int](), list[Span]()
    for token, count in enumerate(joins):
        start = token
        for _ in range(count):
            start = starts.pop()
            spans.append((start, token + 1))
        starts.append(start)
    return sorted(spans)


def depth_tape(attachments: Sequence[int]) -> UInt8[np.ndarray, "length length"]:
    """How often each token (column) has been joined with others once each token (row) is attached; 0 at later tokens.

    Row i is what token i sees as a query: its own attachment is in. O(length^2).

    >>> depth_tape([0, 0, 2, 1]).tolist()
    [[0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [2, 2, 2, 2]]
    """
    length = len(attachments)
    tape, depths = np.zeros((length, length), dtype=np.uint8), np.zeros(length, dtype=np.int64)
    stack: list[Span] = []
    for token, label in enumerate(attachments):
        start = token
        while stack and stack[-1][1] > label and label != token:
            start, _ = stack.pop()
            depths[start : token + 1] += 1
        stack.append((start, token + 1))
        tape[token] = np.minimum(depths, DEEPEST)
    return tape


def closed_at_the_end(spans: Iterable[Span], length: int) -> list[Span]:
    """An open bracketing once the end of the sentence joins all that is on the stack, from the right.

    >>> closed_at_the_end([(0, 2)], 4)  # (a b) c d
    [(0, 2), (0, 4), (2, 4)]
    """
    return binary_constituents([*spans, *([(0, length)] if length > 1 else [])], length)
