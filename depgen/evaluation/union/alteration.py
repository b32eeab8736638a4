"""Which words of a corrupted story are not those that the human wrote there: what a small scorer learns to point at.

UNION has no such objective. A story gives its classifier one bit, which is little to learn from where no pretraining
came before; each word is classified as human or altered, as ELECTRA's replaced tokens are (Clark et
al., 2020), the same stories give forty.
"""

from bisect import bisect_right
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Any

from depgen.evaluation.union.corruption import Story

LIKE = 0.6
"""Sentences that match in a smaller share of their words (`difflib`'s ratio) have nothing to do with one another."""


def altered_words(human: Story, corrupted: Story) -> list[bool]:
    """For each word of the corrupted story, in order, whether the human wrote another there.

    Sentences are compared place by place. Of a sentence that resembles the human one, words that came in are altered,
    and those before which something was left out; of any other all are. Case does not count.
    """
    altered: list[bool] = []
    for original, changed in zip(human, corrupted, strict=True):
        before, after = [word.lower() for word in original.words], [word.lower() for word in changed.words]
        altered += [False] * len(after) if before == after else _altered(before, after)
    return altered


def _altered(before: Sequence[str], after: Sequence[str]) -> list[bool]:
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < LIKE:
        return [True] * len(after)
    marks = [False] * len(after)
    for operation, _, _, start, stop in matcher.get_opcodes():
        if operation != "equal":
            for index in range(start, max(stop, start + 1)):
                marks[min(index, len(after) - 1)] = True
    return marks


def marks_of_tokens(words: Sequence[str], marks: Sequence[bool], offsets: Sequence[tuple[int, int]]) -> list[bool]:
    """The mark of each token's word; the encoder's own tokens, which cover no character, have none.

    Args:
        words: of a text in which a space separates them.
        marks: one a word.
        offsets: the characters of the text that each token covers.

    >>> marks_of_tokens(["a", "bcd", "e"], [False, True, False], [(0, 0), (0, 1), (2, 4), (4, 5), (6, 7), (0, 0)])
    [False, False, True, True, False, False]
    """
    starts = list(accumulate((len(word) + 1 for word in words), initial=0))[: len(words)]
    return [stop > start and marks[bisect_right(starts, start) - 1] for start, stop in offsets]


def offsets_of(tokenizer: Any, texts: Sequence[str], *, max_length: int) -> list[list[tuple[int, int]]]:  # noqa: ANN401
    """The characters of each text that its tokens cover, the encoder's marks included, cut at `max_length`."""
    offsets: list[list[tuple[int, int]]] = tokenizer(
        list(texts), truncation=True, max_length=max_length, return_offsets_mapping=True
    )["offset_mapping"]
    return offsets
