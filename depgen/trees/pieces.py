"""From heads and edges over words to those over the pieces into which a subword vocabulary cuts them."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Int

from depgen.errors import UserError

LeftDependents = Literal["last_piece", "first_piece"]
"""The piece of a word that a dependent on its left hangs on."""


def piece_heads(
    heads: Sequence[int] | np.ndarray,
    word_of_piece: Sequence[int] | np.ndarray,
    *,
    left_dependents: LeftDependents = "last_piece",
) -> list[int]:
    """Heads over pieces, 1-based, 0 = root, -1 = not annotated.

    A word's first piece carries the word's own arc, each later piece hangs under the piece before it, and arcs *to* a
    word go to its last piece.

    Args:
        heads: one head a word, 1-based, 0 = root, -1 = not annotated.
        word_of_piece: the 0-based word of each piece, ascending, every word at least once.
        left_dependents: the piece of a head that dependents on its left attach to: the last as in the code of Yang &
            Wan (2022), or the first as in that of Casas et al. (2020).

    >>> piece_heads([2, 0, 2], [0, 1, 1, 2])  # the head word 2 is pieces 2 and 3
    [3, 0, 2, 3]
    >>> piece_heads([2, 0, 2], [0, 1, 1, 2], left_dependents="first_piece")
    [2, 0, 2, 3]
    """
    arcs = np.asarray(heads, dtype=np.int64)
    _, result, _ = piece_edges(np.arange(len(arcs) + 1), arcs, word_of_piece, left_dependents=left_dependents)
    return [int(piece) for piece in result]


def piece_tree(
    heads: Sequence[int] | np.ndarray,
    relations: Sequence[str],
    word_of_piece: Sequence[int] | np.ndarray,
    *,
    left_dependents: LeftDependents = "last_piece",
) -> tuple[list[int], list[str]]:
    """Heads and relations over pieces, see `piece_heads`; later pieces of a word have the relation "".

    >>> piece_tree([2, 0, 2], ["det", "root", "obj"], [0, 1, 1, 2])
    ([3, 0, 2, 3], ['det', 'root', '', 'obj'])
    """
    is_first = np.diff(word_of_piece, prepend=-1) > 0
    names = [relations[word] if first else "" for word, first in zip(word_of_piece, is_first, strict=True)]
    return piece_heads(heads, word_of_piece, left_dependents=left_dependents), names


def piece_edges(
    offsets: Int[np.ndarray, " words_and_one"],
    heads: Int[np.ndarray, " edges"],
    word_of_piece: Sequence[int] | np.ndarray,
    *,
    left_dependents: LeftDependents = "last_piece",
) -> tuple[Int[np.ndarray, " pieces_and_one"], Int[np.ndarray, " piece_edges"], Int[np.ndarray, " piece_edges"]]:
    """Edges over pieces in CSR form, by the rules of `piece_heads`: offsets, heads, and the edge that each comes from.

    A word's first piece carries the word's edges. Each later piece has one edge, from the piece before it, which comes
    from none (-1).

    Args:
        offsets: the edges of word k, as dependent, are those from `offsets[k]` up to `offsets[k + 1]`.
        heads: of each edge, 1-based, 0 = root, -1 = not annotated.
        word_of_piece: see `piece_heads`.
        left_dependents: see `piece_heads`.

    >>> piece_edges(np.array([0, 2, 3]), np.array([2, 0, 1]), [0, 1, 1])
    (array([0, 2, 3, 4]), array([3, 0, 1, 2]), array([ 0,  1,  2, -1]))
    """
    counts, pieces = np.diff(offsets), len(word_of_piece)
    words, first = np.unique(np.asarray(word_of_piece, dtype=np.int64), return_index=True)
    if not np.array_equal(words, np.arange(len(counts))) or (np.diff(word_of_piece) < 0).any():
        raise UserError(
            f"Expected pieces of each of {len(counts)} words in order, found pieces of {list(word_of_piece)}"
        )
    counts_of_pieces = np.ones(pieces, dtype=np.int64)
    counts_of_pieces[first] = counts
    of_piece = np.concatenate([[0], np.cumsum(counts_of_pieces)])
    carried = np.repeat(of_piece[first] - offsets[:-1], counts) + np.arange(len(heads))  # where a word's edges lie now
    later = np.ones(pieces, dtype=bool)
    later[first] = False
    result, edge_of = np.empty(of_piece[-1], dtype=np.int64), np.full(of_piece[-1], -1)
    result[of_piece[:-1][later]] = np.flatnonzero(later)  # the piece before, 1-based
    if len(heads):
        last = np.append(first[1:], pieces)  # 1-based already, as the next word's first, 0-based
        word = np.maximum(heads, 1) - 1
        attached = last[word]
        if left_dependents == "first_piece":
            dependents = np.repeat(np.arange(1, len(counts) + 1), counts)
            attached = np.where(heads > dependents, first[word] + 1, attached)
        result[carried] = np.where(heads > 0, attached, heads)
    edge_of[carried] = np.arange(len(heads))
    return of_piece, result, edge_of
