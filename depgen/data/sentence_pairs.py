"""Pairs of sentences in batches, encoded by the vocabulary of the run that is fine-tuned."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.data.batch import Batch, ItemBatch
from depgen.data.corpus import Corpus, Split
from depgen.data.encoder_run import EncoderRun
from depgen.data.module import Collate, EncodedData
from depgen.data.sampler import ResumableLoader
from depgen.data.sts import SentencePair
from depgen.errors import UserError, check_at_least

log = logging.getLogger(__name__)


@runtime_checkable
class PairCorpus(Corpus, Protocol):
    """A corpus of judged pairs of sentences; as a `Corpus`, each pair is a document of two sentences."""

    def pairs(self, split: Split) -> Iterator[SentencePair]:
        """The pairs of a split, in file order."""
        ...


@dataclass(frozen=True, kw_only=True)
class PairBatch(Batch):
    """Pairs of sentences, padded at the right: the first sentence of every pair, and then the second of every pair.

    Attributes:
        tokens: the words' ids; `<unk>` at padding.
        lengths: number of words of each sentence, at least 1.
        scores: the similarity of each pair.
        items: each pair's place in its split.
        test_sets: see `SentencePair`.
        seen: see `SentencePair`.
        global_pairs: pairs in the global batch, over all devices: what a loss is divided by.
        unk: id of the unknown word.
    """

    on_cpu: ClassVar[frozenset[str]] = frozenset({"lengths", "items", "test_sets", "seen"})

    tokens: Int[Tensor, "sentences length"]
    lengths: Int[Tensor, " sentences"]
    scores: Float[Tensor, " pairs"]
    items: Int[Tensor, " pairs"]
    test_sets: Int[Tensor, " pairs"]
    seen: Bool[Tensor, " pairs"]
    global_pairs: int
    unk: int


@dataclass(frozen=True)
class EncodedPair:
    """A pair as token ids, and its place in the split."""

    index: int
    first: Int[np.ndarray, " first"]
    second: Int[np.ndarray, " second"]
    score: float
    test_set: int
    seen: bool


def collate_pairs(batch: ItemBatch) -> PairBatch:
    """A padded batch of pairs."""
    pairs, unk = batch.items, batch.vocabulary.unk
    assert batch.global_items is not None, "pairs are items and no stretches"
    sentences = [pair.first for pair in pairs] + [pair.second for pair in pairs]
    lengths = np.array([len(ids) for ids in sentences], dtype=np.int64)
    tokens = np.full((len(sentences), int(lengths.max())), unk, dtype=np.int64)
    for row, ids in enumerate(sentences):
        tokens[row, : len(ids)] = ids
    return PairBatch(
        tokens=torch.from_numpy(tokens),
        lengths=torch.from_numpy(lengths),
        scores=torch.tensor([pair.score for pair in pairs]),
        items=torch.tensor([pair.index for pair in pairs]),
        test_sets=torch.tensor([pair.test_set for pair in pairs]),
        seen=torch.tensor([pair.seen for pair in pairs]),
        global_pairs=batch.global_items,
        unk=unk,
    )


@dataclass(frozen=True)
class PairSplit:
    """A split as ids, in the corpus's order."""

    pairs: Sequence[EncodedPair]

    @cached_property
    def lengths(self) -> Int[np.ndarray, " pairs"]:
        """Words of each pair, of both sentences."""
        return np.array([len(pair.first) + len(pair.second) for pair in self.pairs], dtype=np.int64)

    @cached_property
    def longest(self) -> Int[np.ndarray, " pairs"]:
        """Words of the longer sentence of each pair."""
        return np.array([max(len(pair.first), len(pair.second)) for pair in self.pairs], dtype=np.int64)

    def __getitem__(self, index: int) -> EncodedPair:
        return self.pairs[index]


class SentencePairs(EncoderRun, EncodedData[PairSplit]):
    """Judged pairs of sentences, as ids of the vocabulary of a trained run.

    Args:
        corpus: where the pairs come from.
        encoder: the run that is fine-tuned: its folder, its experiment's name (its newest run) or a
            checkpoint in it. Its vocabulary is the data's, and travels on with the new run.
        pairs_per_batch: of the global batch, whatever the number of devices; drawn at random.
        eval_tokens_per_batch: budget of tokens at validation and test, padding included; sentences of like length.
        kwargs: the arguments of `EncodedData`.
    """

    annotator = None

    def __init__(
        self,
        corpus: PairCorpus,
        encoder: str,
        *,
        pairs_per_batch: int = 128,
        eval_tokens_per_batch: int = 16384,
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(**kwargs)
        check_at_least(1, pairs_per_batch=pairs_per_batch)
        self.corpus, self.encoder = corpus, encoder
        self.pairs_per_batch, self.eval_tokens_per_batch = pairs_per_batch, eval_tokens_per_batch

    # -- splits ---------------------------------------------------------------------------------------------------

    def _encoded(self, split: Split) -> PairSplit:
        """A split as ids; a sentence without words is one `<unk>`.

        Raises:
            UserError: it is empty.
        """
        pairs, unk = list(self.corpus.pairs(split)), self.vocabulary.unk
        if not pairs:
            raise UserError(f"The {split} split of {self.corpus.name} is empty.")
        encoded = [
            EncodedPair(place, self._ids(pair.first), self._ids(pair.second), pair.score, pair.test_set, pair.seen)
            for place, pair in enumerate(pairs)
        ]
        data = PairSplit(encoded)
        unknown = sum(int((ids == unk).sum()) for pair in encoded for ids in (pair.first, pair.second))
        words = int(data.lengths.sum())
        empty = sum(not pair.first or not pair.second for pair in pairs)
        log.info(
            "%s %s: %d pairs (%d with a sentence without words), %d words, %.2f %% <unk>",
            self.corpus.name, split, len(pairs), empty, words, 100 * unknown / words,
        )  # fmt: skip
        return data

    def _ids(self, words: Sequence[str]) -> Int[np.ndarray, " length"]:
        pieces = [i for word in words for i in self.vocabulary.pieces(word)] or [self.vocabulary.unk]
        return np.array(pieces, dtype=np.int32)

    # -- loaders --------------------------------------------------------------------------------------------------

    def _batched(self, split: Split, epoch: int | None) -> ResumableLoader:
        """Shuffled pairs of an epoch; at validation and test every pair once, the test sets one after the other."""
        data = self.split(split)
        if epoch is None:
            return self._by_length(data, self.eval_tokens_per_batch, None, lengths=2 * data.longest)
        ones = np.ones(len(data.pairs), dtype=np.int64)  # the unit of a batch is a pair, however long
        return self._by_length(data, self.pairs_per_batch, epoch, lengths=ones)

    @property
    def plain_collate(self) -> Collate:
        """Padded pairs."""
        return collate_pairs

    def _collate(self) -> Collate:
        return self.collate or self.plain_collate  # no system has its own view of pairs
