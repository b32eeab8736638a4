"""What makes edges a graph over the words of a sentence, and graphs over some of its nodes."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from depgen.errors import UserError
from depgen.trees.sentence import Edge

PATH = ">"
"""Joins the labels of a path that has become one edge: `conj>nsubj`."""
Ends = tuple[np.ndarray, np.ndarray]
"""Heads and dependents of the edges of a graph."""


def sorted_edges(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """Edges in the order of `Sentence.edges`: by dependent, head and label.

    >>> sorted_edges([(3, 2, "obj"), (0, 3, "top"), (1, 2, "det")])
    ((1, 2, 'det'), (3, 2, 'obj'), (0, 3, 'top'))
    """
    return tuple(sorted(edges, key=lambda edge: (edge[1], edge[0], edge[2])))


def check_graph(
    edges: Sequence[Edge],
    length: int,
    where: str | Callable[[int], str],
    *,
    self_loops: bool = False,
    words: Sequence[str] | None = None,
) -> None:
    """Raises UserError unless the edges are a graph over the words; a word may have several heads or none. O(edges).

    Cycles, edges in both directions, and edges of several labels between the same two words are allowed.

    Args:
        edges: head, dependent and label of each; both 1-based, head 0 = root.
        length: number of words.
        where: the sentence's place, or a function from a 1-based token to its place, such as `corpus.sdp:1042`.
        self_loops: whether a word may be its own head, as where a path through an empty node leads back to it.
        words: forms to name in messages.

    >>> check_graph([(2, 1, "ARG1"), (3, 1, "ARG1"), (0, 3, "top")], 3, "here")
    >>> check_graph([(4, 1, "ARG1")], 3, "here:7", words="a b c".split())
    Traceback (most recent call last):
    depgen.errors.UserError: here:7: token 1 (a) has head 4, but the sentence has 3 words
    """

    def refuse(token: int, complaint: str) -> UserError:
        named = f"token {token} ({words[token - 1]})" if words and 1 <= token <= length else f"token {token}"
        known = min(max(token, 1), max(length, 1))  # a place for a token that there is not
        return UserError(f"{where if isinstance(where, str) else where(known)}: {named} {complaint}")

    seen: set[Edge] = set()
    for head, dependent, label in edges:
        if not 1 <= dependent <= length:
            raise refuse(dependent, f"has a head, but the sentence has {length} words, numbered from 1")
        if not 0 <= head <= length:
            raise refuse(dependent, f"has head {head}, but the sentence has {length} words")
        if head == dependent and not self_loops:
            raise refuse(dependent, "is its own head")
        if not label:
            raise refuse(dependent, f"hangs on {head} by an edge without a label")
        if (head, dependent, label) in seen:
            raise refuse(dependent, f"has head {head} with label {label} twice")
        seen.add((head, dependent, label))


def contract(
    edges: Iterable[Edge], gone: Collection[int], *, label: Callable[[Sequence[str]], str] = PATH.join
) -> tuple[Edge, ...]:
    """The edges between the nodes that stay; each path through nodes that go becomes an edge of its two ends.

    A path visits a node that goes at most once. It may end where it began, which gives a self-loop. The number of paths
    can be exponential in the number of nodes that go and are tied to one another.

    Args:
        edges: with the nodes that go among their ends.
        gone: the nodes that go.
        label: of the new edge, from the labels of its path, the edge to the dependent last.

    >>> contract([(0, 1, "root"), (1, 4, "conj"), (4, 3, "obj")], {4})  # node 4 is an empty node
    ((0, 1, 'root'), (1, 3, 'conj>obj'))
    """
    incoming: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for head, dependent, name in edges:
        incoming[dependent].append((head, name))
    found = {
        (head, dependent, label(labels))
        for dependent in list(incoming)
        if dependent not in gone
        for head, labels in _paths_to(dependent, incoming, gone)
    }
    return sorted_edges(found)


def without_relations(edges: Iterable[Edge], relations: Collection[str]) -> tuple[Edge, ...]:
    """The edges whose relation is none of these; a word may be left without a head.

    A relation includes its subtypes: `aux` drops `aux:pass`, `aux:pass` drops `aux:pass` and its own subtypes
    alone. Of an edge that a path has become (`conj>nsubj`), the relation to the dependent, the last, decides.

    >>> edges = [(3, 1, "cc:preconj"), (3, 2, "conj>aux"), (0, 3, "root"), (3, 4, "aux>nsubj"), (3, 5, "fixed-name")]
    >>> without_relations(edges, {"cc", "aux", "fixed"})
    ((0, 3, 'root'), (3, 4, 'aux>nsubj'), (3, 5, 'fixed-name'))
    """
    starts = tuple(f"{relation}:" for relation in relations)
    return tuple(edge for edge in edges if not f"{edge[2].rpartition(PATH)[2]}:".startswith(starts))


def _paths_to(
    dependent: int, incoming: dict[int, list[tuple[int, str]]], gone: Collection[int]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Start and labels of each path from a node that stays, through nodes that go, to a dependent."""
    pending: list[tuple[int, tuple[str, ...], frozenset[int]]] = [(dependent, (), frozenset())]
    while pending:
        node, labels, visited = pending.pop()
        for head, name in incoming.get(node, ()):
            if head not in gone:
                yield head, (name, *labels)
            elif head not in visited:
                pending.append((head, (name, *labels), visited | {head}))


def joined_edges(document: Sequence[Sequence[int]], graphs: Sequence[Sequence[Edge]], word: Sequence[int]) -> Ends:
    """Heads and dependents of the edges of a document's sentences, which are one sequence of words."""
    found, tokens, before = [], 0, 0
    for ids, edges in zip(document, graphs, strict=True):
        found += [(head + before if head else 0, dependent + before, *label) for head, dependent, *label in edges]
        tokens += len(ids)
        before = word[tokens]
    return ends_of(found)


def ends_of(edges: Sequence[Sequence[Any]]) -> Ends:
    """Heads and dependents of edges."""
    heads, dependents = np.array([edge[:2] for edge in edges], np.int64).reshape(-1, 2).T
    return heads, dependents
