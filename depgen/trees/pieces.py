"""From heads over words to heads over the pieces into which a subword vocabulary cuts them."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from depgen.errors import UserError


def piece_heads(
    heads: Sequence[int] | np.ndarray,
    word_of_piece: Sequence[int] | np.ndarray,
    *,
    left_dependents: Literal["last_piece", "first_piece"] = "last_piece",
) -> list[int]:
    """Heads over pieces, 1-based, 0 = root, -1 = not annotated.

    A word's first piece carries the word's own arc, each later piece hangs under the piece before it, and arcs *to* a
    word go to its last piece.

    Args:
        heads: one head a word, 1-based, 0 = root, -1 = not annotated.
        word_of_piece: the 0-based word of each piece, ascending, every word at least once.
        left_dependents: the piece of a head that dependents on its left attach to: the last as in the code of Yang &
            Wan (2022), or the first as in that of Casas et al. (2020).

    Raises:
        UserError: a word without pieces, or pieces out of order.

    >>> piece_heads([2, 0, 2], [0, 1, 1, 2])  # the head word 2 is pieces 2 and 3
    [3, 0, 2, 3]
    >>> piece_heads([2, 0, 2], [0, 1, 1, 2], left_dependents="first_piece")
    [2, 0, 2, 3]
    """
    head = np.asarray(heads, dtype=np.int64)
    words, first = np.unique(np.asarray(word_of_piece, dtype=np.int64), return_index=True)
    if not np.array_equal(words, np.arange(len(head))) or any(np.diff(word_of_piece) < 0):
        raise UserError(f"Expected pieces of each of {len(head)} words in order, found pieces of {list(word_of_piece)}")
    last = np.append(first[1:], len(word_of_piece))[: len(first)]  # 1-based already, as the next word's first, 0-based
    attached = last[np.maximum(head, 1) - 1] if len(head) else head
    if left_dependents == "first_piece":
        on_the_left = head > np.arange(1, len(head) + 1)
        attached = np.where(on_the_left, first[np.maximum(head, 1) - 1] + 1, attached)
    result = np.arange(len(word_of_piece))  # the piece before, 1-based
    result[first] = np.where(head > 0, attached, head)
    return [int(piece) for piece in result]
