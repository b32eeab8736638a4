"""Future dependents: the words after a position that an arc ties to its word, the targets of dependency modelling."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int32, Int64

from depgen.errors import UserError


def future_dependents(
    heads: Sequence[int] | np.ndarray,
) -> tuple[Int64[np.ndarray, " positions_plus_one"], Int32[np.ndarray, " targets"]]:
    """The set Z of each input position in CSR form, Sec. 2.1 of Yang & Wan (2022).

    The targets of position j are `targets[offsets[j] : offsets[j + 1]]`; position 0 reads BOS and position j
    word j, so n words make n+1 positions. An arc between words i < j makes j a target of position i, whichever of the
    two is the head. As in the authors' code, root words are targets of position 0, and eos, as index n+1, is one of the
    last word. Targets ascend within a position. O(n log n).

    Args:
        heads: one head a word, 1-based, 0 = root, -1 = not annotated (no arc).

    Raises:
        UserError: a word that is its own head, or a head beyond the sentence.

    >>> offsets, targets = future_dependents([2, 0, 2])
    >>> [targets[a:b].tolist() for a, b in zip(offsets, offsets[1:])]
    [[2], [2], [3], [4]]
    """
    head = np.asarray(heads, dtype=np.int64)
    count = len(head)
    word = np.arange(1, count + 1)
    if (wrong := (head == word) | (head > count)).any():
        token = int(wrong.argmax()) + 1
        raise UserError(f"Expected a tree over {count} words, found token {token} with head {head[token - 1]}")
    arc = head >= 0
    position = np.append(np.minimum(head, word)[arc], count)
    target = np.append(np.maximum(head, word)[arc], count + 1)
    offsets = np.concatenate(([0], np.bincount(position, minlength=count + 1).cumsum())).astype(np.int64)
    return offsets, target[np.lexsort((target, position))].astype(np.int32)
