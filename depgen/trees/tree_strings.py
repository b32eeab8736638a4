"""Trees as strings of words and labelled brackets (Choe & Charniak, 2016): `(S (NP the dog NP) (VP barks VP) S)`.

A symbol is a number: `WORD`, or the opening or closing bracket of a label, which is itself a number. One constituent
covers the whole sentence: its closing bracket is the end.
"""

from collections.abc import Iterable
from typing import Any

from depgen.errors import UserError

LabelledSpan = tuple[int, int, int]
"""First word, the word after the last, and number of the label; words count from 0."""
WORD = 0


def opening(label: int) -> int:
    """The symbol of a label's opening bracket.

    >>> opening(0), closing(0), opening(1), closing(1)
    (1, 2, 3, 4)
    """
    return 2 * label + 1


def closing(label: int) -> int:
    """The symbol of a label's closing bracket."""
    return 2 * label + 2


def label_of(symbols: Any) -> Any:  # noqa: ANN401, a number, or a tensor of numbers
    """The label of a bracket, or those of a tensor of brackets."""
    return (symbols - 1) // 2


def is_opening(symbols: Any) -> Any:  # noqa: ANN401
    """Whether a symbol is an opening bracket, or each of a tensor of symbols."""
    return (symbols > WORD) & (symbols % 2 == 1)


def is_closing(symbols: Any) -> Any:  # noqa: ANN401
    """Whether a symbol is a closing bracket, or each of a tensor of symbols."""
    return (symbols > WORD) & (symbols % 2 == 0)


def symbols_of(spans: Iterable[LabelledSpan], length: int) -> list[int]:
    """The string of a tree. Where no constituent covers all words, one with the first label is put around them.

    Spans are in top-down order, and of several over the same words the outermost first; there is at least one word.

    >>> symbols_of([(0, 3, 0), (0, 2, 1)], 3)  # (A (B . . B) . A)
    [1, 3, 0, 0, 4, 0, 2]
    """
    given = list(spans)
    if not given or given[0][:2] != (0, length):
        given.insert(0, (0, length, 0))
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


def constituents_of(symbols: Iterable[int]) -> list[LabelledSpan]:
    """The constituents of a string, in top-down order; those that are open at its end, end there.

    >>> constituents_of([1, 3, 0, 0, 4, 0, 2])
    [(0, 3, 0), (0, 2, 1)]
    """
    starts, ends, around, words = list[tuple[int, int]](), dict[int, int](), list[int](), 0
    for symbol in symbols:
        if symbol == WORD:
            words += 1
        elif is_opening(symbol):
            around.append(len(starts))
            starts.append((words, label_of(symbol)))
        else:
            place = around.pop()
            label = starts[place][1]
            assert label == label_of(symbol), f"expected the closing bracket of {label}, found {label_of(symbol)}"
            ends[place] = words
    return [(start, ends.get(place, words), label) for place, (start, label) in enumerate(starts)]
