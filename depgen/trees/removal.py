"""Trees over some of a sentence's words: what hung on a word left out hangs on the nearest ancestor that stays."""

from collections.abc import Sequence
from dataclasses import replace

from depgen.trees.sentence import Sentence


def keep_words(sentence: Sentence, kept: Sequence[bool]) -> Sentence:
    """The sentence without the words that are not kept, its tree closed over the gaps; its graph is dropped.

    A kept word hangs on its nearest kept ancestor. Where there is none, because the root went, the first such word
    becomes the root, with relation `root`, and the others hang on it; if a tree of several roots keeps one, they all
    hang on the first of those. No tree gets more roots than it had, and one with a single root keeps one as long as any
    word stays. A head of -1 (not annotated) stays. O(n) for trees of bounded depth.

    >>> keep_words(Sentence(("--", "Ada", "Lovelace", "!"), (0, 3, 1, 1)), [False, True, True, False]).heads
    (2, 0)
    """
    assert len(kept) == len(sentence), f"{len(sentence)} words, {len(kept)} marks"
    numbers = {0: 0, -1: -1}  # old positions, 1-based, to new ones
    for position in (position for position, keep in enumerate(kept, start=1) if keep):
        numbers[position] = len(numbers) - 1

    def remaining(column: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if column is None else tuple(value for value, keep in zip(column, kept, strict=True) if keep)

    words, relations = remaining(sentence.words) or (), remaining(sentence.relations)
    if sentence.heads is None:
        return replace(sentence, words=words, relations=relations, tags=remaining(sentence.tags), edges=None)
    old = [position for position in numbers if position > 0]
    heads = [numbers[_kept_ancestor(position, sentence.heads, kept)] for position in old]
    roots = [i for i, position in enumerate(old) if sentence.heads[position - 1] == 0]
    orphans = [i for i, position in enumerate(old) if heads[i] == 0 and sentence.heads[position - 1] != 0]
    if orphans:
        root = (roots or orphans)[0]
        for orphan in orphans:
            heads[orphan] = 0 if orphan == root else root + 1
        if relations is not None and not roots:
            relations = (*relations[:root], "root", *relations[root + 1 :])
    return replace(
        sentence, words=words, heads=tuple(heads), relations=relations, tags=remaining(sentence.tags), edges=None
    )


def _kept_ancestor(position: int, heads: Sequence[int], kept: Sequence[bool]) -> int:
    head = heads[position - 1]
    while head > 0 and not kept[head - 1]:
        head = heads[head - 1]
    return head
