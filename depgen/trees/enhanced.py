"""The DEPS column of CoNLL-U: an enhanced graph over words and empty nodes, as a graph over words alone.

Empty nodes (`8.1`) are no words. A path through them becomes one edge, its labels joined by `>` (`conj>nsubj`), as by
the script of the IWPT 2020 shared task. A path visits an empty node at most once. It may lead back to the word that it
began at. An empty node without a head, or one that nothing hangs on, goes with its edges.
"""

from collections.abc import Callable, Sequence

from depgen.errors import UserError
from depgen.trees.graph import check_graph, contract, sorted_edges
from depgen.trees.sentence import Edge


def read_deps(
    rows: Sequence[Sequence[str]],
    where: Callable[[int], str],
    *,
    words: Sequence[str] | None = None,
) -> tuple[Edge, ...] | None:
    """The graph of a sentence's DEPS; None where all of them are `_`.

    Args:
        rows: number and DEPS of each word and each empty node, in the order of the file.
        where: the place of a row, by its 0-based index.
        words: forms to name in messages.
    """
    if all(deps == "_" for _, deps in rows):
        return None
    words_first = sorted((number for number, _ in rows), key=lambda number: not number.isdecimal())
    number_of = {number: index + 1 for index, number in enumerate(words_first)}
    row_of = {number_of[number]: index for index, (number, _) in enumerate(rows)}
    if len(row_of) < len(rows):
        index = next(index for index, (number, _) in enumerate(rows) if row_of[number_of[number]] != index)
        raise UserError(f"{where(index)}: expected one node of each number, found {rows[index][0]} twice")
    length = sum(number.isdecimal() for number in number_of)
    edges = []
    for index, (number, deps) in enumerate(rows):
        for head, label in _cells(deps, f"{where(index)}: node {number}"):
            if head != "0" and head not in number_of:
                raise UserError(f"{where(index)}: node {number} has head {head}, which is no node of the sentence")
            edges.append((number_of.get(head, 0), number_of[number], label))
    check_graph(edges, len(rows), lambda node: where(row_of[node]), words=words)
    return contract(edges, range(length + 1, len(rows) + 1)) if length < len(rows) else sorted_edges(edges)


def _cells(deps: str, where: str) -> list[tuple[str, str]]:
    if deps == "_":
        return []
    found = []
    for cell in deps.split("|"):
        head, colon, label = cell.partition(":")
        if not colon or not head or not label.strip():
            raise UserError(f"{where}: expected DEPS as head:label, separated by |, or _, found {deps!r}")
        found.append((head, label))
    return found


def format_deps(edges: Sequence[Edge], length: int) -> list[str]:
    """The DEPS of each word, `_` for a word without a head.

    >>> format_deps([(2, 1, "nsubj"), (3, 1, "conj>nsubj"), (0, 2, "root")], 3)
    ['2:nsubj|3:conj>nsubj', '0:root', '_']
    """
    cells: list[list[str]] = [[] for _ in range(length)]
    for head, dependent, label in edges:
        if not label.strip() or any(character in label for character in "|\t\n"):
            raise UserError(f"DEPS: expected labels without |, tabs and line ends, found {label!r}.")
        cells[dependent - 1].append(f"{head}:{label}")
    return ["|".join(each) or "_" for each in cells]
