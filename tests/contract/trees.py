"""Binary trees, and the vocabulary of systems that write them level by level."""

from collections.abc import Sequence

import numpy as np

from depgen.data.batch import TokenItem
from depgen.data.levels import LevelItem, with_placeholders
from depgen.data.vocabulary import Vocabulary
from depgen.trees.binarization import depths

TREES = with_placeholders(
    Vocabulary.of_words("abcdefghijk"),
    ["ROOT", "left", "right"],
    {
        "expansions": [
            ["<pad>"], ["<unk>"], ["HEAD"], ["HEAD", "right"], ["left", "HEAD"], ["left", "HEAD", "right"],
        ],
        "binarization": ["left-right"],
    },
)  # fmt: skip
"""Of systems that write binary trees level by level."""


def levels_of(index: int, ids: Sequence[int]) -> list[LevelItem]:
    """A text and its binary tree at each level: the items of systems that write level by level."""
    heads, relations = binary_tree(len(ids))
    item = TokenItem(index, np.array(ids), np.array(heads), relations=np.array(relations))
    return [LevelItem(item, level) for level in range(1, int(depths(heads).max()) + 1)]


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
