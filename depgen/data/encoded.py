"""A split as token ids with its trees, graphs and constituents: flat arrays, and the items that they hold."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Int, Shaped
from torch.utils.data import Dataset

from depgen.data.batch import Edges, Memo, TokenItem
from depgen.data.vocabulary import Vocabulary


@dataclass(frozen=True)
class Coded:
    """Strings as places in a table: `coded[part]` are the strings of a part."""

    codes: Int[np.ndarray, " strings"]
    table: Shaped[np.ndarray, " types"]

    def __getitem__(self, part: slice) -> Shaped[np.ndarray, " part"]:
        found: np.ndarray = self.table[self.codes[part]]
        return found


@dataclass(frozen=True)
class CodedEdges:
    """The edges of a split's tokens; heads are counted within each item, as `TokenItem.heads` are."""

    offsets: Int[np.ndarray, " tokens_and_one"]
    heads: Int[np.ndarray, " edges"]
    labels: Coded

    def __getitem__(self, part: slice) -> Edges:
        """The edges of some tokens; a slice of an item's."""
        offsets = self.offsets[part.start : part.stop + 1]
        edges = slice(int(offsets[0]), int(offsets[-1]))
        return Edges(offsets - offsets[0], self.heads[edges], self.labels[edges])


@dataclass(frozen=True)
class CodedSpans:
    """The constituents of a split's items, in tokens of each item; -1 where a sentence has none."""

    offsets: Int[np.ndarray, " items_and_one"]
    starts: Int[np.ndarray, " spans"]
    ends: Int[np.ndarray, " spans"]
    labels: Coded

    def __getitem__(
        self, index: int
    ) -> tuple[Int[np.ndarray, "spans 2"], Shaped[np.ndarray, " spans"]] | tuple[None, None]:
        """First tokens and those after the last, and labels, of an item's constituents; None if a sentence has none."""
        part = slice(int(self.offsets[index]), int(self.offsets[index + 1]))
        spans = np.stack([self.starts[part], self.ends[part]], axis=1)
        return (None, None) if (spans < 0).any() else (spans, self.labels[part])


@dataclass(frozen=True)
class EncodedSplit(Dataset[TokenItem]):
    """A split as flat arrays, which are read from their files as they are needed; an item is a document.

    Attributes:
        ids: token ids of all items: those of item k are `ids[offsets[k]:offsets[k + 1]]`.
        offsets: where each item begins in `ids`, and the end.
        heads: 1-based within the item; None without trees.
        vocabulary: whose ids they are.
        word_ends: whether a token is the last piece of a word; None where each is a word.
        relations: one a token, with heads.
        edges: None without graphs.
        sentences: where each sentence begins in `ids`, and the end.
        documents: which sentence each item begins with, and the number of sentences.
        spans: None without constituents.
        unknown: how many tokens are `<unk>`.
    """

    ids: Int[np.ndarray, " tokens"]
    offsets: Int[np.ndarray, " items_and_one"]
    heads: Int[np.ndarray, " tokens"] | None
    vocabulary: Vocabulary
    word_ends: Bool[np.ndarray, " tokens"] | None = None
    relations: Coded | None = None
    edges: CodedEdges | None = None
    sentences: Int[np.ndarray, " sentences_and_one"] | None = None
    documents: Int[np.ndarray, " items_and_one"] | None = None
    spans: CodedSpans | None = None
    unknown: int = 0
    memo: Memo = field(init=False, repr=False, compare=False, default_factory=Memo)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Int[np.ndarray, " items"]:
        """Target tokens of each item: its tokens and the end of sequence."""
        return np.diff(self.offsets) + 1

    def __getitem__(self, index: int) -> TokenItem:
        part = slice(int(self.offsets[index]), int(self.offsets[index + 1]))
        columns = (self.heads, self.word_ends, self.relations)
        heads, word_ends, relations = (None if each is None else each[part] for each in columns)
        edges = None if self.edges is None else self.edges[part]
        spans = (None, None) if self.spans is None else self.spans[int(index)]
        return TokenItem(int(index), self.ids[part], heads, word_ends, relations, edges, self.memo, *spans)
