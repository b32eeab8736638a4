"""Trees as strings of words and labelled brackets (Choe & Charniak, 2016): `(S (NP the dog NP) (VP barks VP) S)`.

A symbol is a number: `WORD`, or the opening or closing bracket of a label, which is itself a number. One constituent
covers the whole sentence: its closing bracket is the end.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Int

from depgen.errors import UserError

LabelledSpan = tuple[int, int, int]
"""First word, the word after the last, and number of the label; words count from 0."""
WORD = 0
NOTHING = -1
"""No symbol, no label."""
NEVER = np.iinfo(np.int32).max
"""Later than any position."""
ROWS = ("symbols", "targets", "depths", "leaves", "closable", "openings", "words")
"""The rows of `positions_of`."""


def opening(label: int) -> int:
    """The symbol of a label's opening bracket.

    >>> opening(0), closing(0), opening(1), closing(1)
    (1, 2, 3, 4)
    """
    return 2 * label + 1


def closing(label: int) -> int:
    """The symbol of a label's closing bracket."""
    return 2 * label + 2


def label_of(symbol: int) -> int:
    """The label of a bracket."""
    return (symbol - 1) // 2


def is_opening(symbol: int) -> bool:
    """Whether a symbol is an opening bracket."""
    return symbol > WORD and symbol % 2 == 1


def symbols_of(spans: Iterable[LabelledSpan], length: int, *, root: int = 0) -> list[int]:
    """The string of a tree. Where no constituent covers all words, one is put around them.

    Args:
        spans: in top-down order, and of several over the same words the outermost first.
        length: number of words, at least one.
        root: the label of a constituent that is put around all.

    Raises:
        UserError: spans outside the sentence, out of order, or across another.

    >>> symbols_of([(0, 3, 0), (0, 2, 1)], 3)  # (A (B . . B) . A)
    [1, 3, 0, 0, 4, 0, 2]
    """
    given = list(spans)
    if not given or given[0][:2] != (0, length):
        given.insert(0, (0, length, root))
    symbols, around = list[int](), list[LabelledSpan]()
    begun = 0
    for word in range(length):
        while begun < len(given) and given[begun][0] == word:
            start, end, label = given[begun]
            if end <= start or end > (around[-1][1] if around else length):
                raise UserError(
                    f"Expected a tree over {length} words, found {(start, end)}, which crosses or is empty."
                )
            around.append(given[begun])
            symbols.append(opening(label))
            begun += 1
        symbols.append(WORD)
        while around and around[-1][1] == word + 1:
            symbols.append(closing(around.pop()[2]))
    if begun < len(given):
        raise UserError(f"Expected spans of a tree over {length} words in top-down order, found {given[begun][:2]}.")
    return symbols


def spans_of(symbols: Iterable[int]) -> list[LabelledSpan]:
    """The constituents of a string, in top-down order; those that are open at its end, end there.

    >>> spans_of([1, 3, 0, 0, 4, 0, 2])
    [(0, 3, 0), (0, 2, 1)]
    """
    found, around, words = list[LabelledSpan](), list[int](), 0
    for symbol in symbols:
        if symbol == WORD:
            words += 1
        elif is_opening(symbol):
            around.append(len(found))
            found.append((words, words, label_of(symbol)))
        else:
            start, _, label = found[around[-1]]
            assert label == label_of(symbol), f"expected the closing bracket of {label}, found {label_of(symbol)}"
            found[around.pop()] = start, words, label
    for place in around:
        start, _, label = found[place]
        found[place] = start, words, label
    return found


def positions_of(symbols: Sequence[int]) -> Int[np.ndarray, "rows positions"]:
    """What a network reads of a string, position by position: a row each of `ROWS`.

    Position 0 is the beginning. A closing bracket takes two positions: the first composes its constituent, the second
    predicts what follows. The last bracket, after which nothing comes, takes none.

    - symbols: the symbol at the position, `NOTHING` at the beginning.
    - targets: the symbol that comes next; `NOTHING` where a bracket composes.
    - depths: how many brackets are open around it, the position's own included.
    - leaves: the position that takes it off the stack, or `NEVER`; the position itself where it is not put there.
    - closable: the label of the bracket that may be closed next; `NOTHING` where none may.
    - openings: how many brackets were opened since the last word.
    - words: how many words there are so far.

    >>> dict(zip(ROWS, positions_of([1, 3, 0, 4, 0, 2]).tolist()))["targets"]  # BOS (A (B . B) B) . -> A)
    [1, 3, 0, 4, -1, 0, 2]
    """
    found = [[NOTHING, symbols[0], 0, NEVER, NOTHING, 0, 0]]
    stack, around, openings, words = [0], list[int](), 0, 0
    for symbol, target in pairwise(symbols):
        closes = symbol > WORD and not is_opening(symbol)
        if closes:
            first, place = around.pop(), len(found)
            while stack[-1] >= first:
                found[stack.pop()][3] = place
            stack.append(place)
            found.append([symbol, NOTHING, len(around) + 1, NEVER, NOTHING, openings, words])
        place, depth = len(found), len(around) + 1
        if not closes:
            stack.append(place)
        if symbol == WORD:
            openings, words = 0, words + 1
        elif not closes:
            around.append(place)
            openings += 1
        closable = NOTHING if stack[-1] == around[-1] else label_of(found[around[-1]][0])
        found.append([symbol, target, depth, place if closes else NEVER, closable, openings, words])
    return np.array(found, dtype=np.int32).T
