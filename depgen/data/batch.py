"""Items of a split, and the batches of tokens, of words and of documents that are made of them.

Batches are frozen dataclasses with typed axes. A system that reads more has a batch of its own, in its file. Padding,
which no number depends on, is filled with `<eos>`, the one special token that every vocabulary has.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from depgen.data.vocabulary import UNK, Vocabulary
from depgen.errors import UserError
from depgen.nn.lengths import mask_of

NO_CONSTITUENTS = (
    "and these data have none: set data.init_args.annotator to depgen.annotation.controls.GoldTrees with structure: "
    "constituency, of a corpus that has them (depgen.data.formats.Brackets), or to "
    "depgen.annotation.supar.SuparConstituencyAnnotator; and trees_for so that the training split gets them."
)
"""What a system of constituents says where it is given none."""


@dataclass(frozen=True)
class Edges:
    """The edges of a sequence of tokens, by dependent, in CSR form.

    Attributes:
        offsets: the edges of token k are those from `offsets[k]` up to `offsets[k + 1]`.
        heads: 1-based token of each edge, 0 = root; -1 alone where no graph was given.
        labels: of each edge, strings; empty at the edge that ties a later piece of a word to the piece before.
    """

    offsets: Int[np.ndarray, " tokens_and_one"]
    heads: Int[np.ndarray, " edges"]
    labels: Shaped[np.ndarray, " edges"]


@dataclass(frozen=True)
class TokenItem:
    """One training item: a sentence, or a story as one sequence.

    Attributes:
        index: its place in the split.
        ids: token ids, without beginning and end.
        heads: 1-based head of each token (0 = root, -1 = not annotated), or None.
        word_ends: whether each token is the last piece of a word; None where each is a word.
        relations: the relation of each token to its head; empty for later pieces of a word; None without trees.
        edges: of the tokens' graph; None without graphs.
        view: what the trained system has of the item beside these (`SystemCollate`); None where it was not made ahead.
        spans: of its constituents, a row each: the first token and the one after the last, 0-based, in the order of
            `Sentence.spans`; None without constituents.
        span_labels: the label of each.
    """

    index: int
    ids: Int[np.ndarray, " length"]
    heads: Int[np.ndarray, " length"] | None = None
    word_ends: Bool[np.ndarray, " length"] | None = None
    relations: Shaped[np.ndarray, " length"] | None = None
    edges: Edges | None = None
    view: Mapping[str, np.ndarray] | None = None
    spans: Int[np.ndarray, "spans 2"] | None = None
    span_labels: Shaped[np.ndarray, " spans"] | None = None


@dataclass(frozen=True)
class StreamSlice:
    """A part of the stream that items make one after the other, each read from `<eos>` on and predicted up to `<eos>`.

    Attributes:
        index: its place in the split.
        items: those that it touches.
        start: its first position, counted from the beginning of the first item; `stop` is the one after its last.
    """

    index: int
    items: Sequence[TokenItem]
    start: int
    stop: int


@dataclass(frozen=True)
class ItemBatch:
    """The items of one rank's share of a global batch.

    Attributes:
        items: the items, `TokenItem` unless the data module gives others; or slices of a stream, one a row.
        global_tokens: target tokens of the whole global batch.
        vocabulary: whose ids the items hold.
        segment: see `TokenBatch`.
        learning_rate_scale: see `TokenBatch`.
        global_items: items of the whole global batch; None for slices of a stream.
    """

    items: Sequence[Any]
    global_tokens: int
    vocabulary: Vocabulary
    segment: int | None = None
    learning_rate_scale: float = 1.0
    global_items: int | None = None

    @property
    def slices(self) -> list[StreamSlice]:
        """The rows of the batch: an item is a slice by itself."""
        return [
            row if isinstance(row, StreamSlice) else StreamSlice(row.index, (row,), 0, len(row.ids) + 1)
            for row in self.items
        ]

    @property
    def sentences(self) -> list[TokenItem]:
        """The items of a batch that has one a row, and no slices of a stream."""
        if any(isinstance(row, StreamSlice) for row in self.items):
            raise UserError(
                "Graphs and trees are read sentence by sentence, found rows of a stream: take "
                "depgen.data.text.TextData instead of depgen.data.stream.StreamData."
            )
        return list(self.items)


def word_numbers(item: TokenItem, vocabulary: Vocabulary) -> Int[np.ndarray, " length"]:
    """The number of the word that each token belongs to, from 1."""
    if item.word_ends is not None:
        return np.concatenate([[0], np.cumsum(item.word_ends)[:-1]]).astype(np.int64)[: len(item.ids)] + 1
    return vocabulary.word_of_token(item.ids)


_Batch = TypeVar("_Batch", bound="Batch")


@dataclass(frozen=True)
class Batch:
    """Base of all batches: moves its tensors to a device.

    Attributes:
        on_cpu: fields that stay on the CPU, such as lengths: what a step takes from them needs no wait for a GPU.
    """

    on_cpu: ClassVar[frozenset[str]] = frozenset()

    def to(self: _Batch, device: torch.device | str, *, non_blocking: bool | None = None) -> _Batch:
        """The same batch on a device, without the fields `on_cpu`; for CUDA, the copies are not waited for."""
        device = torch.device(device)
        waits_not = device.type == "cuda" if non_blocking is None else non_blocking
        tensors = self._tensors()
        return replace(
            self,
            **{name: tensors[name].to(device, non_blocking=waits_not) for name in tensors if name not in self.on_cpu},
        )

    def pin_memory(self: _Batch) -> _Batch:
        """The same batch in pinned memory, from which copies to a GPU are fast; torch's loaders call it."""
        return replace(self, **{name: value.pin_memory() for name, value in self._tensors().items()})

    def _tensors(self) -> "dict[str, Tensor | Batch]":
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor | Batch)}


@dataclass(frozen=True)
class SystemCollate(ABC):
    """Makes a system's batches, of items of which it has a view of its own; its fields are the options of both.

    The view is made of each item alone, in a table of the cache (`depgen.data.table.EncodedSplit.viewed`) or, of texts
    that are in no corpus, when they are batched. The collate pads.

    Attributes:
        version: rises whenever the view of an item may change.
        reads: the column of the encoded table without which there is no view.
    """

    version: ClassVar[int]
    reads: ClassVar[Literal["heads", "span_starts"]]

    @abstractmethod
    def view(self, item: TokenItem, vocabulary: Vocabulary) -> Mapping[str, np.ndarray]:
        """What the system reads of an item, as arrays of one axis; the same names for every item.

        Where an item has no tree, the arrays are empty.
        """

    @abstractmethod
    def __call__(self, batch: ItemBatch) -> Any:  # noqa: ANN401  (the system's own batch)
        """The batch."""

    def view_of(self, item: TokenItem, vocabulary: Vocabulary) -> Mapping[str, np.ndarray]:
        """The view that was made ahead, or one that is made now."""
        return self.view(item, vocabulary) if item.view is None else item.view

    def fingerprint(self) -> str:
        """The version and the options, as a string."""
        return f"{type(self).__qualname__} {self.version} {self!r}"


@dataclass(frozen=True)
class Parts(Batch):
    """The parts of items that the rows of a stream's segment consist of, row by row, in the order of their targets.

    Attributes:
        items: the place in the split of the item that a part is of.
        lengths: number of its targets.
        words: number of words that end among these, `<eos>` counted as one.
    """

    on_cpu: ClassVar[frozenset[str]] = frozenset({"items", "lengths", "words"})

    items: Int[Tensor, " parts"]
    lengths: Int[Tensor, " parts"]
    words: Int[Tensor, " parts"]

    def sums(self, nll: Float[Tensor, " targets"]) -> Float[Tensor, " parts"]:
        """The nats of each part, from those of the targets of all parts one after the other."""
        part = torch.repeat_interleave(self.lengths).to(nll.device)
        return nll.new_zeros(len(self.lengths)).index_add_(0, part, nll)


@dataclass(frozen=True, kw_only=True)
class TokenBatch(Batch):
    """Sequences read from `<eos>` on and predicted up to `<eos>`, padded at the right.

    Attributes:
        inputs: `<eos>` and the tokens.
        targets: the tokens and `<eos>`.
        lengths: number of targets of each item.
        words: number of words that end among each item's targets, `<eos>` counted as one.
        items: each item's place in its split.
        parts: where rows are slices of a stream, the parts of items in them; None where each row is an item.
        global_tokens: targets in the global batch, over all devices: what a loss is divided by.
        unk: id of the unknown word, whose share is reported with every perplexity.
        segment: number of the segment, where rows are slices of a stream that continue those of the batch before;
            None where rows have nothing to do with the batch before.
        learning_rate_scale: factor of the learning rate at this step: a shorter segment gets a smaller step.
    """

    on_cpu: ClassVar[frozenset[str]] = frozenset({"lengths", "words", "items"})

    inputs: Int[Tensor, "batch length"]
    targets: Int[Tensor, "batch length"]
    lengths: Int[Tensor, " batch"]
    words: Int[Tensor, " batch"]
    items: Int[Tensor, " batch"]
    global_tokens: int
    unk: int = UNK
    parts: Parts | None = None
    segment: int | None = None
    learning_rate_scale: float = 1.0

    @property
    def is_word(self) -> Bool[Tensor, "batch length"]:
        """True where a target is a token and no padding."""
        return mask_of(self.lengths, self.targets.shape[1], device=self.targets.device)


def padded(rows: Sequence[np.ndarray], fill: int) -> Int[Tensor, "rows length"]:
    """Rows of whole numbers, filled up at the right."""
    filled = np.full((len(rows), max(map(len, rows))), fill, dtype=np.int64)
    for place, row in enumerate(rows):
        filled[place, : len(row)] = row
    return torch.from_numpy(filled)


def collate_tokens(batch: ItemBatch) -> TokenBatch:
    """A padded batch of sequences."""
    slices, eos = batch.slices, batch.vocabulary.eos
    texts = [
        np.concatenate([[batch.vocabulary.start], *(np.append(item.ids, eos) for item in row.items)]) for row in slices
    ]
    parts = [_parts(row) for row in slices]
    columns = None
    if batch.segment is not None:
        columns = Parts(*(torch.from_numpy(np.concatenate(column)) for column in zip(*parts, strict=True)))
    return TokenBatch(
        inputs=padded([text[row.start : row.stop] for text, row in zip(texts, slices, strict=True)], eos),
        targets=padded([text[row.start + 1 : row.stop + 1] for text, row in zip(texts, slices, strict=True)], eos),
        lengths=torch.tensor([row.stop - row.start for row in slices]),
        words=torch.tensor([int(words.sum()) for _, _, words in parts]),
        items=torch.tensor([row.index for row in slices]),
        global_tokens=batch.global_tokens,
        unk=batch.vocabulary.unk,
        parts=columns,
        segment=batch.segment,
        learning_rate_scale=batch.learning_rate_scale,
    )


def _parts(row: StreamSlice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each item in a slice: its place in the split, the number of its targets there and of words that they end."""
    ends = np.cumsum([0, *(len(item.ids) + 1 for item in row.items)])
    bounds = ends.clip(row.start, row.stop)
    flags = [np.ones(len(item.ids), bool) if item.word_ends is None else item.word_ends for item in row.items]
    words_before = np.concatenate([[0], np.cumsum(np.concatenate([np.append(flag, True) for flag in flags]))])
    places = np.array([item.index for item in row.items], dtype=np.int64)
    lengths = np.diff(bounds)
    touched = lengths > 0
    return places[touched], lengths[touched], np.diff(words_before[bounds])[touched]


@dataclass(frozen=True, kw_only=True)
class WordBatch(Batch):
    """Sentences as they are, nothing before or after them, padded at the right.

    Attributes:
        tokens: the words' ids; `<eos>` at padding, which the mask tells from words.
        lengths: number of words of each item.
        items: each item's place in its split.
        unk: id of the unknown word, which is never masked.
        mask_id: id of `<mask>`, which replaces a masked word.
        heads: 1-based head of each word, 0 = root, -1 = not annotated and at padding; None without trees.
        known: True at words other than `<unk>`, which may be masked; by default computed from `tokens`.
    """

    on_cpu: ClassVar[frozenset[str]] = frozenset({"lengths", "items", "known"})

    tokens: Int[Tensor, "batch length"]
    lengths: Int[Tensor, " batch"]
    items: Int[Tensor, " batch"]
    unk: int
    mask_id: int
    heads: Int[Tensor, "batch length"] | None = None
    known: Bool[Tensor, "batch length"] | None = None

    def __post_init__(self) -> None:
        if self.known is None:
            object.__setattr__(self, "known", (self.is_word & (self.tokens != self.unk)).cpu())

    @property
    def is_word(self) -> Bool[Tensor, "batch length"]:
        """True at words, False at padding."""
        return mask_of(self.lengths, self.tokens.shape[1], device=self.tokens.device)


def collate_words(batch: ItemBatch) -> WordBatch:
    """A padded batch of sentences, with their trees where all of them have one."""
    vocabulary = batch.vocabulary
    if vocabulary.mask_id is None:
        raise UserError(
            "A masked language model needs a vocabulary with <mask>: set data.init_args.vocabulary to "
            "depgen.data.vocabulary.WordVocabulary with masks: true."
        )
    items = batch.sentences
    annotated = all(item.heads is not None for item in items)
    return WordBatch(
        tokens=padded([item.ids for item in items], vocabulary.eos),
        lengths=torch.tensor([len(item.ids) for item in items]),
        items=torch.tensor([item.index for item in items]),
        unk=vocabulary.unk,
        mask_id=vocabulary.mask_id,
        heads=padded([item.heads for item in items if item.heads is not None], -1) if annotated else None,
    )


@dataclass(frozen=True)
class SegmentItem:
    """Some sentences of a document, one after the other, as token ids without beginning and end; none is empty."""

    index: int
    sentences: Sequence[Int[np.ndarray, " _"]]


@dataclass(frozen=True, kw_only=True)
class DocumentBatch(Batch):
    """Segments of documents, padded after the words of each sentence and after the last sentence.

    Attributes:
        inputs: the beginning and the words of each sentence; its end is never an input.
        targets: the words and the end of each sentence.
        lengths: targets of each sentence; 0 where a segment has no more.
        items: each segment's place in its split.
        global_tokens: targets in the global batch, over all devices.
        global_items: segments in it.
        unk: id of the unknown word.
    """

    on_cpu: ClassVar[frozenset[str]] = frozenset({"lengths", "items"})

    inputs: Int[Tensor, "batch sentence word"]
    targets: Int[Tensor, "batch sentence word"]
    lengths: Int[Tensor, "batch sentence"]
    items: Int[Tensor, " batch"]
    global_tokens: int
    global_items: int
    unk: int = UNK

    @property
    def is_word(self) -> Bool[Tensor, "batch sentence word"]:
        """True where a target is a token and no padding."""
        return mask_of(self.lengths, self.targets.shape[2], device=self.targets.device)

    @property
    def places(self) -> Int[Tensor, " words"]:
        """Places of the targets that are no padding, counted through the whole batch."""
        places = mask_of(self.lengths, self.targets.shape[2]).flatten().nonzero()[:, 0]
        return places.to(self.targets.device, non_blocking=True)

    def rows(self, first: int, last: int) -> "DocumentBatch":
        """Some segments, without the padding that the others made them have."""
        rows, sentences = slice(first, last), slice(int((self.lengths[first:last] > 0).sum(1).max()))
        lengths = self.lengths[rows, sentences]
        words = slice(int(lengths.max()))
        return replace(
            self,
            inputs=self.inputs[rows, sentences, words],
            targets=self.targets[rows, sentences, words],
            lengths=lengths,
            items=self.items[rows],
        )


def collate_documents(batch: ItemBatch) -> DocumentBatch:
    """Padded segments, each sentence read from its beginning on and predicted up to its end."""
    assert batch.global_items is not None, "segments are items and no stretches"
    most = max(len(item.sentences) for item in batch.items)
    lengths = np.zeros((len(batch.items), most), dtype=np.int64)
    for row, item in enumerate(batch.items):
        lengths[row, : len(item.sentences)] = [len(ids) + 1 for ids in item.sentences]
    inputs = np.full((*lengths.shape, int(lengths.max())), batch.vocabulary.start, dtype=np.int64)
    targets = np.full_like(inputs, batch.vocabulary.eos)
    for row, item in enumerate(batch.items):
        for place, ids in enumerate(item.sentences):
            inputs[row, place, 1 : len(ids) + 1] = ids
            targets[row, place, : len(ids)] = ids
    return DocumentBatch(
        inputs=torch.from_numpy(inputs),
        targets=torch.from_numpy(targets),
        lengths=torch.from_numpy(lengths),
        items=torch.tensor([item.index for item in batch.items]),
        global_tokens=batch.global_tokens,
        global_items=batch.global_items,
        unk=batch.vocabulary.unk,
    )


def whole_documents(documents: Sequence[Sequence[Sequence[int]]], vocabulary: Vocabulary) -> DocumentBatch:
    """A batch of documents whose sentences are given as token ids, without beginning and end."""
    items = [
        SegmentItem(place, [np.array(ids, dtype=np.int64) for ids in sentences])
        for place, sentences in enumerate(documents)
    ]
    tokens = sum(len(ids) + 1 for item in items for ids in item.sentences)
    return collate_documents(ItemBatch(items, tokens, vocabulary, global_items=len(items)))
