"""Binary trees, and the vocabulary of systems that write them level by level."""

from collections.abc import Sequence

import numpy as np

from depgen.data.batch import TokenItem
from depgen.data.vocabulary import Vocabulary
from tests.toys.level_writer import depths_of

TREES = Vocabulary.of_words(
    "defghijk",
    specials=["[root]", "[left]", "[right]"],
    tables={"expansions": [["*"], ["*", "right"], ["left", "*"], ["left", "*", "right"]]},
)
"""Of systems that write binary trees level by level: an expansion is the relations of a word's dependents, `*` between
those at the left and those at the right."""


def levels_of(index: int, ids: Sequence[int]) -> list[tuple[TokenItem, int]]:
    """A text and its binary tree at each level: the items of systems that write level by level."""
    heads, relations = binary_tree(len(ids))
    item = TokenItem(index, np.array(ids), np.array(heads), relations=np.array(relations))
    return [(item, level) for level in range(1, int(depths_of(heads).max()) + 1)]


def binary_tree(length: int) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Heads and relations of words, the middle of which is the root, and so on at both sides."""
    arcs: dict[int, tuple[int, str]] = {}
    spans = [(0, length, 0, "root")]
    while spans:
        first, stop, head, relation = spans.pop()
        if first < stop:
            middle = (first + stop) // 2
            arcs[middle] = (head, relation)
            spans += [(first, middle, middle + 1, "left"), (middle + 1, stop, middle + 1, "right")]
    heads, relations = zip(*(arcs[word] for word in range(length)), strict=True)
    return heads, relations
