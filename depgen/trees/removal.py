"""Trees, graphs and constituents over some of a sentence's words.

What hung on a word left out hangs on the nearest that stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Literal

from depgen.trees.graph import contract
from depgen.trees.sentence import Constituent, Edge, Sentence

Orphans = Literal["one_root", "roots"]
"""What becomes of words none of whose ancestors stays."""


def keep_words(sentence: Sentence, kept: Sequence[bool], *, orphans: Orphans = "one_root") -> Sentence:
    """The sentence without the words that are not kept, its tree and its graph closed over the gaps.

    A kept word hangs on its nearest kept ancestor. A head of -1 (not annotated) stays. O(n) for trees of bounded depth.
    In a graph a kept word gets each head that a path through words left out leads to, with the label of its last edge.
    Constituents lose the words; those of nothing else go.

    Args:
        sentence: with a tree, a graph, constituents, any of these or none.
        kept: whether each word stays.
        orphans: what becomes of a word without such an ancestor, because the root went. "one_root": the first of them
            becomes the root, with relation `root`, and the others hang on it; if a tree of several roots keeps one,
            they all hang on the first of those. So no tree gets more roots than it had, and one with a single root
            keeps one as long as any word stays. "roots": each becomes a root and keeps its relation, as in the code of
            Shen et al. (2022).

    >>> cut = Sentence(("--", "Ada", "Lovelace", "!"), (0, 1, 1, 1)), [False, True, True, False]
    >>> keep_words(*cut).heads, keep_words(*cut, orphans="roots").heads
    ((0, 1), (0, 0))
    """
    assert len(kept) == len(sentence), f"{len(sentence)} words, {len(kept)} marks"
    numbers = {0: 0, -1: -1}  # old positions, 1-based, to new ones
    for position in (position for position, keep in enumerate(kept, start=1) if keep):
        numbers[position] = len(numbers) - 1

    def remaining(column: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if column is None else tuple(value for value, keep in zip(column, kept, strict=True) if keep)

    words, relations = remaining(sentence.words) or (), remaining(sentence.relations)
    edges = None if sentence.edges is None else _kept_edges(sentence.edges, kept, numbers)
    spans = None if sentence.spans is None else kept_constituents(sentence.spans, kept)
    others: dict[str, Any] = {"words": words, "tags": remaining(sentence.tags), "edges": edges, "spans": spans}
    if sentence.heads is None:
        return replace(sentence, relations=relations, **others)
    old = [position for position in numbers if position > 0]
    heads = [numbers[_kept_ancestor(position, sentence.heads, kept)] for position in old]
    roots = [i for i, position in enumerate(old) if sentence.heads[position - 1] == 0]
    rootless = [i for i, position in enumerate(old) if heads[i] == 0 and sentence.heads[position - 1] != 0]
    if rootless and orphans == "one_root":
        root = (roots or rootless)[0]
        for orphan in rootless:
            heads[orphan] = 0 if orphan == root else root + 1
        if relations is not None and not roots:
            relations = (*relations[:root], "root", *relations[root + 1 :])
    return replace(sentence, heads=tuple(heads), relations=relations, **others)


def _kept_edges(edges: Sequence[Edge], kept: Sequence[bool], numbers: Mapping[int, int]) -> tuple[Edge, ...]:
    gone = {position for position, keep in enumerate(kept, start=1) if not keep}
    found = contract(edges, gone, label=lambda labels: labels[-1])
    return tuple(
        (numbers[head], numbers[dependent], label)
        for head, dependent, label in found
        if head != dependent or (head, dependent, label) in edges  # a graph without self-loops gets none
    )


def kept_constituents(constituents: Sequence[Constituent], kept: Sequence[bool]) -> tuple[Constituent, ...]:
    """The constituents over the words that stay, numbered from 0 on; those of no such word go.

    >>> kept_constituents([(0, 3, "S"), (0, 1, "NP"), (1, 3, "VP")], [False, True, True])
    ((0, 2, 'S'), (0, 2, 'VP'))
    """
    before = [0, *accumulate(map(int, kept))]  # kept words before each position
    moved = ((before[start], before[end], label) for start, end, label in constituents)
    return tuple(sorted((each for each in moved if each[0] < each[1]), key=lambda each: (each[0], -each[1])))


def _kept_ancestor(position: int, heads: Sequence[int], kept: Sequence[bool]) -> int:
    head = heads[position - 1]
    while head > 0 and not kept[head - 1]:
        head = heads[head - 1]
    return head


def put_words_back(heads: Sequence[int], kept: Sequence[bool]) -> list[int]:
    """Heads over all words of a sentence, of a tree over those that were kept: the inverse of leaving words out.

    A word that was left out hangs on the last kept word before it, or, where there is none, on the first kept word; a
    projective tree stays projective, and the roots stay as they are. If no word was kept, the first is the root and the
    others hang on it. O(n).

    Args:
        heads: one head a kept word, 1-based among these, 0 = root.
        kept: whether each word was kept.

    >>> put_words_back([2, 0], [False, True, False, True, False])  # " Ada , Lovelace "
    [2, 4, 2, 0, 4]
    """
    places = [place for place, keep in enumerate(kept, start=1) if keep]
    assert len(places) == len(heads), f"{len(heads)} heads, {len(places)} kept words"
    if not places:
        return [0, *[1] * (len(kept) - 1)] if kept else []
    everywhere, nearest = [], places[0]
    of_kept = iter(heads)
    for place, keep in enumerate(kept, start=1):
        if keep:
            head, nearest = next(of_kept), place
            everywhere.append(places[head - 1] if head > 0 else head)
        else:
            everywhere.append(nearest)
    return everywhere
