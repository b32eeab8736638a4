"""Corpus, trees and vocabulary as token ids; and the data module that batches them item by item."""

import json
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Int, Shaped
from torch.utils.data import Dataset

from depgen.data.annotated import annotated_split
from depgen.data.batch import ItemBatch, Memo, TokenItem, collate_tokens
from depgen.data.corpus import Corpus, Split, drawn_splits
from depgen.data.module import Collate, EncodedData
from depgen.data.sampler import ResumableLoader, Share, TokenBudgetBatches
from depgen.data.vocabulary import VOCABULARY_FILE, AnyVocabulary, VocabularyBuilder, WordVocabulary, load_vocabulary
from depgen.errors import UserError, check_at_least
from depgen.locations import cache_root, lines_sha256, made_once, write_atomically
from depgen.trees.annotator import Annotator
from depgen.trees.joining import joined_heads
from depgen.trees.pieces import piece_heads
from depgen.trees.sentence import Document, Sentence

log = logging.getLogger(__name__)

FORMAT = "1"
"""Part of every cached vocabulary's key: raised when a builder changes what it makes."""

DocumentJoining = Literal["roots", "previous_sentence", "whole"]


@dataclass(frozen=True)
class EncodedSplit(Dataset[TokenItem]):
    """A split as flat arrays: item k's tokens are `ids[offsets[k]:offsets[k + 1]]`."""

    ids: Int[np.ndarray, " tokens"]
    offsets: Int[np.ndarray, " items_and_one"]
    heads: Int[np.ndarray, " tokens"] | None
    eos: int
    unk: int
    word_ends: Bool[np.ndarray, " tokens"] | None = None
    relations: Shaped[np.ndarray, " tokens"] | None = None
    mask_id: int | None = None
    memo: Memo = field(init=False, repr=False, compare=False, default_factory=Memo)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Int[np.ndarray, " items"]:
        """Target tokens of each item: its tokens and the end of sequence."""
        return np.diff(self.offsets) + 1

    def __getitem__(self, index: int) -> TokenItem:
        part = slice(int(self.offsets[index]), int(self.offsets[index + 1]))
        heads, ends, relations = (
            None if each is None else each[part] for each in (self.heads, self.word_ends, self.relations)
        )
        return TokenItem(int(index), self.ids[part], heads, ends, relations, self.memo)

    def __getitems__(self, share: Share) -> ItemBatch:
        """The items of one rank's share of a batch (called by torch's fetcher)."""
        items = [self[int(index)] for index in share.indices]
        return ItemBatch(items, share.global_tokens, self.eos, self.unk, mask_id=self.mask_id)


class CorpusData(EncodedData[EncodedSplit]):
    """A corpus's splits as token ids, with trees where an annotator is named; a subclass says how they are batched.

    Args:
        corpus: where the documents come from.
        annotator: what gives them trees; None for systems that need none.
        trees_for: the splits that get trees. By default not the test split: no system sees a tree when it is tested,
            and a run can be tested where its parser is not.
        vocabulary: how the vocabulary is built.
        vocabulary_splits: splits whose words it may see; the DMLM code's LSTM vocabularies saw all three.
        joining: how the trees of a document's sentences become one (notes in `depgen.trees.joining`).
        left_dependents: the piece of a word that a dependent on its left hangs on (`depgen.trees.pieces`).
        max_documents: use only the first `max_documents` documents of the training split; None for all.
        kwargs: the arguments of `EncodedData`.

    Raises:
        UserError: `max_documents` leaves nothing, or what `EncodedData` refuses.
    """

    def __init__(
        self,
        corpus: Corpus,
        annotator: Annotator | None = None,
        trees_for: Sequence[Split] = ("train", "valid"),
        vocabulary: VocabularyBuilder | None = None,
        vocabulary_splits: Sequence[Split] = ("train",),
        joining: DocumentJoining = "roots",
        left_dependents: Literal["last_piece", "first_piece"] = "last_piece",
        max_documents: int | None = None,
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(**kwargs)
        check_at_least(1, max_documents=max_documents)
        self.corpus, self.annotator, self.trees_for = corpus, annotator, tuple(trees_for)
        self.builder = vocabulary or WordVocabulary()
        self.vocabulary_splits = tuple(vocabulary_splits)
        self.joining, self.left_dependents, self.max_documents = joining, left_dependents, max_documents

    # -- vocabulary -----------------------------------------------------------------------------------------------

    def _own_vocabulary(self) -> AnyVocabulary:
        """Built once, remembered on disk under a file lock, so that all ranks share one."""
        keys = [self.corpus.fingerprint(split) for split in self.vocabulary_splits]
        splits = " ".join(self.vocabulary_splits)
        parts = [FORMAT, splits, *keys, self.builder.fingerprint(), str(self.max_documents)]
        folder = cache_root() / "vocabularies" / lines_sha256(parts)[:32]
        made_once(
            folder,
            lambda: self.builder.build(self._word_counts()).save(folder),
            is_made=(folder / VOCABULARY_FILE).is_file,
        )
        return load_vocabulary(folder)

    def save_into(self, run: Path) -> None:
        """Write into a run folder its vocabulary and, where a seed has drawn the splits, which document is where."""
        super().save_into(run)
        drawn = drawn_splits(self.corpus)
        if drawn:
            write_atomically(run / "splits.json", json.dumps(drawn, indent=1, ensure_ascii=False) + "\n")

    def _word_counts(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for split in self.vocabulary_splits:
            for index, document in enumerate(self.corpus.documents(split)):
                if split == "train" and self.max_documents is not None and index >= self.max_documents:
                    break
                counts.update(document.words())
        return counts

    # -- splits ---------------------------------------------------------------------------------------------------

    def prepare_data(self) -> None:
        """Annotate the splits that the trainer is about to use, on one process; the others read the cache.

        Without a trainer these are the splits of training; `setup("test")` annotates the test split.
        """
        for split in self._splits_of("fit" if self.trainer is None else self.trainer.state.fn):
            self._table(split)

    def _encoded(self, split: Split) -> EncodedSplit:
        """A split as token ids and heads."""
        encoded = self._encode(self._table(split))
        unknown = int((encoded.ids == self.vocabulary.unk).sum())
        log.info(
            "%s %s: %d items, %d tokens (%d with one <eos> an item), %.2f %% <unk>",
            self.corpus.name, split, len(encoded), len(encoded.ids), int(encoded.lengths.sum()),
            100 * unknown / max(1, len(encoded.ids)),
        )  # fmt: skip
        return encoded

    def documents(self, split: Split) -> int:
        """How many documents a split has, whatever the limit on those of training."""
        if self._limit(split) is not None:
            return sum(1 for _ in self.corpus.documents(split))
        return len(self._table(split))

    def _table(self, split: Split) -> Any:  # noqa: ANN401
        """The split's table; of the training split, at most `max_documents` rows."""
        return annotated_split(
            self.corpus,
            split,
            self.annotator if split in self.trees_for else None,
            whole_documents=self.joining == "whole",
            max_documents=self._limit(split),
        )

    def _limit(self, split: Split) -> int | None:
        """The largest number of documents that are used; None for all."""
        return self.max_documents if split == "train" else None

    def _encode(self, table: Any) -> EncodedSplit:  # noqa: ANN401
        """Flat arrays from an Arrow table; each word type is looked up once."""
        columns = table.with_format("arrow")[:]
        words = columns["words"].combine_chunks()
        word_offsets = words.offsets.to_numpy().astype(np.int64)
        coded = words.values.dictionary_encode()
        pieces = [self.vocabulary.pieces(word) for word in coded.dictionary.to_pylist()]
        counts = np.array([len(piece) for piece in pieces], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(counts)])
        flat = np.array([i for piece in pieces for i in piece], dtype=np.int32)
        types = coded.indices.to_numpy()
        per_word = counts[types]
        piece_offsets = np.concatenate([[0], np.cumsum(per_word)])
        within = np.arange(piece_offsets[-1]) - np.repeat(piece_offsets[:-1], per_word)
        ids = flat[np.repeat(starts[types], per_word) + within]
        offsets = piece_offsets[word_offsets]
        heads = relations = None
        if "heads" in columns.column_names:
            heads = self._joined_heads(table, per_word)
            relations = np.full(len(ids), "", dtype=object)
            relations[piece_offsets[:-1]] = _interned(columns["relations"])
        word_ends = None
        if len(ids) != len(types):
            word_ends = np.zeros(len(ids), dtype=bool)
            word_ends[piece_offsets[1:] - 1] = True
        special = self.vocabulary
        return EncodedSplit(ids, offsets, heads, special.eos, special.unk, word_ends, relations, special.mask_id)

    def _joined_heads(self, table: Any, pieces_of_word: Int[np.ndarray, " words"]) -> Int[np.ndarray, " tokens"]:  # noqa: ANN401
        """Heads over each document's tokens: sentences joined, words split into pieces."""
        rule = "roots" if self.joining == "whole" else self.joining
        joined: list[int] = []
        start = 0
        for row in table.select_columns(["words", "sentence_lengths", "heads"]):
            heads = joined_heads(_document(row), joining=rule)
            counts = pieces_of_word[start : start + len(heads)]
            start += len(heads)
            if (counts != 1).any():
                word_of_piece = np.repeat(np.arange(len(heads)), counts)
                heads = piece_heads(heads, word_of_piece.tolist(), left_dependents=self.left_dependents)
            joined.extend(heads)
        return np.array(joined, dtype=np.int32)

    # -- loaders --------------------------------------------------------------------------------------------------

    @property
    def plain_collate(self) -> Collate:
        """Padded sequences of tokens."""
        return collate_tokens

    def filled_split(self, split: Split) -> EncodedSplit:
        """A split as token ids and heads.

        Raises:
            UserError: it is empty.
        """
        data = self.split(split)
        if not len(data):
            raise UserError(f"The {split} split of {self.corpus.name} is empty.")
        return data

    def target_counts(self) -> Int[np.ndarray, " vocabulary"]:
        """How often each token is to be predicted in an epoch of training: one end an item.

        Raises:
            UserError: the training split is empty.
        """
        data = self.filled_split("train")
        counts = np.bincount(data.ids, minlength=self.vocabulary_size)
        counts[data.eos] += len(data)
        return counts


class TextData(CorpusData):
    """Token sequences of a corpus, one item a document, in batches of a budget of tokens; more in `CorpusData`.

    Args:
        corpus: where the documents come from.
        tokens_per_batch: budget of the global batch, padding included, whatever the number of devices; where it holds
            fewer items than there are devices, `depgen.data.sampler` says what happens.
        eval_tokens_per_batch: the same at validation and test.
        kwargs: the other arguments of `CorpusData`.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        tokens_per_batch: int = 8192,
        eval_tokens_per_batch: int = 16384,
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(corpus, **kwargs)
        self.tokens_per_batch, self.eval_tokens_per_batch = tokens_per_batch, eval_tokens_per_batch

    def joined_items(self, split: Split) -> int:
        """How many items are documents of several sentences, which become one sequence."""
        sentences = self._table(split).with_format("arrow")[:]["sentence_lengths"].combine_chunks()
        return int((np.diff(sentences.offsets.to_numpy()) > 1).sum())

    def train_dataloader(self, epoch: int | None = None) -> ResumableLoader:
        """Shuffled batches of an epoch; by default the trainer's current one, or the first without a trainer."""
        return self._loader("train", self.tokens_per_batch, shuffle=True, epoch=self._epoch(epoch))

    def val_dataloader(self) -> ResumableLoader:
        """The validation split, every item once."""
        return self._loader("valid", self.eval_tokens_per_batch)

    def test_dataloader(self) -> ResumableLoader:
        """The test split, every item once."""
        return self._loader("test", self.eval_tokens_per_batch)

    def predict_dataloader(self) -> ResumableLoader:
        """The test split, every document once; for systems that take each sentence by itself, every sentence once."""
        model = None if self.trainer is None else self.trainer.lightning_module
        if getattr(model, "sentences_alone", False):
            return self._batches_of(self._sentences("test"), self.eval_tokens_per_batch)
        return self.test_dataloader()

    def _sentences(self, split: Split) -> EncodedSplit:
        """A split as token ids, an item for each sentence, without trees."""
        table = annotated_split(self.corpus, split, None)
        data = self._encode(table)
        words = np.append(0, table.with_format("arrow")[:]["sentence_lengths"].combine_chunks().values).cumsum()
        ends = None if data.word_ends is None else np.append(0, np.flatnonzero(data.word_ends) + 1)
        return replace(data, offsets=words if ends is None else ends[words])

    def _loader(self, split: Split, budget: int, *, shuffle: bool = False, epoch: int = 0) -> ResumableLoader:
        data = self.filled_split(split)
        self._check_that_all_are_read(split, data)
        return self._batches_of(data, budget, shuffle=shuffle, epoch=epoch)

    def _batches_of(self, data: EncodedSplit, budget: int, *, shuffle: bool = False, epoch: int = 0) -> ResumableLoader:
        world, rank = self.processes
        batches = TokenBudgetBatches(
            data.lengths, tokens_per_batch=budget, seed=self.seed, epoch=epoch, shuffle=shuffle, world=world, rank=rank
        )
        return self.loader(data, batches)

    def _check_that_all_are_read(self, split: Split, data: EncodedSplit) -> None:
        """Whether the system has positions for the longest document, which else would stop an epoch on its way.

        Raises:
            UserError: it has not.
        """
        model = None if self.trainer is None else self.trainer.lightning_module
        limit = getattr(model, "longest_scored", None)
        lengths = data.lengths - 1
        over = [] if limit is None else np.flatnonzero(lengths > limit).tolist()
        if over:
            first = over[0]
            words = " ".join(self._table(split)[first]["words"][:5])
            raise UserError(
                f"{self.corpus.name}, {split}, document {first + 1} ({words!r} …): expected at most {limit} tokens, as "
                f"many as this {type(model).__name__} reads at once, found {lengths[first]}; {len(over)} such "
                "documents. Cut them, or train one with more positions (max_length of the model or of its backbone)."
            )


def _interned(column: Any) -> Shaped[np.ndarray, " words"]:  # noqa: ANN401
    """The strings of a column of lists, one object a type."""
    coded = column.combine_chunks().values.dictionary_encode()
    types = np.array(coded.dictionary.to_pylist(), dtype=object)
    found: np.ndarray = types[coded.indices.to_numpy()]
    return found


def _document(row: dict[str, Any]) -> Document:
    """The document of a row of an annotated table."""
    ends = np.cumsum(row["sentence_lengths"])
    parts = [slice(end - length, end) for end, length in zip(ends, row["sentence_lengths"], strict=True)]
    sentences = tuple(Sentence(tuple(row["words"][part]), heads=tuple(row["heads"][part])) for part in parts)
    return Document(sentences, "")
