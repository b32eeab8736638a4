"""Corpus, trees and vocabulary as token ids; and the data module that batches them item by item."""

import json
import logging
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Int

from depgen.data.batch import TokenItem, collate_tokens
from depgen.data.corpus import Corpus, Split, drawn_documents, form_of
from depgen.data.module import Collate, EncodedData, Items
from depgen.data.rows import document_of_row
from depgen.data.sampler import ResumableLoader
from depgen.data.table import AnnotatedSplit, DocumentJoining, EncodedSplit, encoded_table, sizes_of
from depgen.data.vocabulary import (
    VOCABULARY_FILE,
    Vocabulary,
    VocabularyBuilder,
    WordVocabulary,
    load_vocabulary,
    reads_trees,
)
from depgen.errors import UserError, check_at_least
from depgen.locations import cache_root, lines_sha256, made_once, write_atomically
from depgen.trees.annotator import Annotator, leaves_out
from depgen.trees.pieces import LeftDependents
from depgen.trees.sentence import Document

log = logging.getLogger(__name__)

FORMAT = "1"
"""Part of every cached vocabulary's key: raised when a builder changes what it makes."""


class CorpusData(EncodedData[EncodedSplit]):
    """A corpus's splits as token ids, with trees where an annotator is named; a subclass says how they are batched.

    Args:
        corpus: where the documents come from.
        annotator: what gives them trees; None for systems that need none.
        trees_for: the splits that get trees. By default not the test split: no system sees a tree when it is tested,
            and a run can be tested where its parser is not.
        vocabulary: how the vocabulary is built.
        vocabulary_splits: splits whose words it may see; the DMLM code's LSTM vocabularies saw all three.
        joining: how the trees of a document's sentences become one (see `depgen.data.table.DocumentJoining`).
        left_dependents: the piece of a word that a dependent on its left hangs on (`depgen.trees.pieces`).
        max_documents: use only the first `max_documents` documents of the training split; None for all.
        kwargs: the arguments of `EncodedData`.

    Raises:
        UserError: `max_documents` leaves nothing, or what `EncodedData` refuses.
    """

    one_end: ClassVar[Literal["item", "sentence"]] = "item"
    """What ends in one end of sequence: for the number of tokens in the log."""

    def __init__(
        self,
        corpus: Corpus,
        annotator: Annotator | None = None,
        trees_for: Sequence[Split] = ("train", "valid"),
        vocabulary: VocabularyBuilder | None = None,
        vocabulary_splits: Sequence[Split] = ("train",),
        joining: DocumentJoining = "roots",
        left_dependents: LeftDependents = "last_piece",
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

    def _own_vocabulary(self) -> Vocabulary:
        """Built once, remembered on disk under a file lock, so that all ranks share one.

        Raises:
            UserError: the builder reads trees, and a split that the vocabulary may see gets none.
        """
        keys = [self._vocabulary_source(split) for split in self.vocabulary_splits]
        splits = " ".join(self.vocabulary_splits)
        parts = [FORMAT, splits, *keys, self.builder.fingerprint(), str(self.max_documents)]
        folder = cache_root() / "vocabularies" / lines_sha256(parts)[:32]
        made_once(
            folder,
            lambda: self.builder.build(self._vocabulary_documents()).save(folder),
            is_made=(folder / VOCABULARY_FILE).is_file,
        )
        return load_vocabulary(folder)

    def save_into(self, run: Path) -> None:
        """Write into a run folder its vocabulary and, where a seed has drawn the splits, which document is where."""
        super().save_into(run)
        drawn = drawn_documents(self.corpus)
        if drawn:
            write_atomically(run / "splits.json", json.dumps(drawn, indent=1, ensure_ascii=False) + "\n")

    @property
    def reading(self) -> dict[str, Any]:
        """How texts are given to a trained system, as arguments of `depgen.evaluation.reading.Reading`."""
        return {"form": form_of(self.corpus)}

    def state_dict(self) -> dict[str, Any]:
        """The vocabulary and `reading`."""
        return {**super().state_dict(), "reading": self.reading}

    def _vocabulary_source(self, split: Split) -> str:
        """The digest of what the builder sees of a split."""
        if not reads_trees(self.builder):
            return self.corpus.fingerprint(split)
        if self.annotator is None or split not in self.trees_for:
            raise UserError(
                f"The vocabulary is built from trees, and the {split} split gets none: set data.init_args.annotator, "
                "and trees_for to all of vocabulary_splits."
            )
        return self._annotated(split).fingerprint()

    def _vocabulary_documents(self) -> Iterator[Document]:
        """What the builder sees: the documents of its splits, with their trees if it reads them."""
        for split in self.vocabulary_splits:
            if reads_trees(self.builder):
                yield from map(document_of_row, self._table(split))
            else:
                yield from islice(self.corpus.documents(split), self._limit(split))

    # -- splits ---------------------------------------------------------------------------------------------------

    def prepare_data(self) -> None:
        """Annotate the splits that the trainer is about to use, on one process; the others read the cache.

        Without a trainer these are the splits of training; `setup("test")` annotates the test split.
        """
        for split in self._splits_of("fit" if self.trainer is None else self.trainer.state.fn):
            self._table(split)

    def _encoded(self, split: Split) -> EncodedSplit:
        """A split as token ids and heads."""
        table = self._table(split)
        if self.annotator is not None and split in self.trees_for and leaves_out(self.annotator):
            self._say_with_trees(table, split, self.annotator.scheme)
        encoded = self._encoding(table)
        items, tokens = len(encoded), int(encoded.counts.sum())
        sentences = int(encoded.columns.counts("sentences").sum()) - items
        ends = items if self.one_end == "item" else sentences
        log.info(
            "%s %s: %d items of %d sentences, %d tokens (%d with one <eos> %s), %.2f %% <unk>",
            self.corpus.name, split, items, sentences, tokens, tokens + ends,
            "an item" if self.one_end == "item" else "a sentence", 100 * self._unknown(encoded) / max(1, tokens),
        )  # fmt: skip
        return encoded

    def _unknown(self, encoded: EncodedSplit) -> int:
        """How many tokens are `<unk>`; 0 where the vocabulary has none."""
        return int(encoded.counts[self.vocabulary.unk]) if self.vocabulary.unk >= 0 else 0

    def _say_with_trees(self, table: Any, split: Split, scheme: str) -> None:  # noqa: ANN401
        """Log how many words are in sentences that were given a tree, a graph or constituents.

        Raises:
            UserError: none of the training split.
        """
        sizes = sizes_of(table)
        words = sizes.words - sizes.without_head
        log.info("%s %s: %d of %d words are in trees (%s)", self.corpus.name, split, words, sizes.words, scheme)
        if not words and split == "train":
            raise UserError(
                f"{self.corpus.name}, train: expected trees, found none in its {sizes.sentences} sentences ({scheme}). "
                "If they are to come from a treebank, no sentence of it equals one of the corpus: are both in the same "
                "form, such as by the step depgen.data.steps.BareWords?"
            )

    def setup(self, stage: str | None = None) -> None:
        """Encode the splits that a stage needs; before training, warn of a `<unk>` that is never trained."""
        super().setup(stage)
        if stage == "fit" and self.processes[1] == 0:
            self._warn_of_untrained_unk()

    def _warn_of_untrained_unk(self) -> None:
        """Warn if validation has `<unk>` and training has none."""
        train, valid = self.split("train"), self.split("valid")
        unknown, tokens = self._unknown(valid), int(valid.counts.sum())
        if unknown and len(train) and not self._unknown(train):
            log.warning(
                "%s: <unk> occurs nowhere in the training split, so its probability is never trained; %d of %d tokens "
                "(%.1f %%) of the validation split are <unk>. Set data.init_args.vocabulary.init_args.min_count to 2 "
                "or more, or max_size (of depgen.data.vocabulary.WordVocabulary): rarer words are then trained as "
                "<unk>.",
                self.corpus.name, unknown, tokens, 100 * unknown / tokens,
            )  # fmt: skip

    def _encoding(self, table: Any) -> EncodedSplit:  # noqa: ANN401
        return encoded_table(table, self.vocabulary, joining=self.joining, left_dependents=self.left_dependents)

    def documents(self, split: Split) -> int:
        """How many documents a split has, whatever the limit on those of training."""
        if self._limit(split) is not None:
            return sum(1 for _ in self.corpus.documents(split))
        return len(self._table(split))

    def _table(self, split: Split) -> Any:  # noqa: ANN401
        """The split's table; of the training split, at most `max_documents` rows."""
        return self._annotated(split).table()

    def _annotated(self, split: Split) -> AnnotatedSplit:
        annotator = self.annotator if split in self.trees_for else None
        return AnnotatedSplit(self.corpus, split, annotator, self.joining == "whole", self._limit(split))

    def _limit(self, split: Split) -> int | None:
        """The largest number of documents that are used; None for all."""
        return self.max_documents if split == "train" else None

    # -- loaders --------------------------------------------------------------------------------------------------

    @property
    def plain_collate(self) -> Collate:
        """Padded sequences of tokens."""
        return collate_tokens

    def filled_split(self, split: Split) -> EncodedSplit:
        """A split as token ids and heads, with the view of its items that the trained system has.

        Raises:
            UserError: it is empty.
        """
        data = self.split(split)
        if not len(data):
            raise UserError(f"The {split} split of {self.corpus.name} is empty.")
        self._splits[split] = data.viewed(self._collate())
        return self._splits[split]

    def target_counts(self) -> Int[np.ndarray, " vocabulary"]:
        """How often each token is to be predicted in an epoch of training: one end an item.

        Raises:
            UserError: the training split is empty.
        """
        data = self.filled_split("train")
        counts = data.counts.copy()
        counts[self.vocabulary.eos] += len(data)
        return counts


class SentenceItems:
    """The sentences of a split's documents as items, without trees."""

    def __init__(self, documents: EncodedSplit) -> None:
        self.documents = documents
        self._places = [
            (document, begin, end)
            for document in range(len(documents))
            for begin, end in pairwise(documents.sentences(document).tolist())
        ]

    @property
    def lengths(self) -> Int[np.ndarray, " sentences"]:
        """Target tokens of each sentence: its tokens and the end of sequence."""
        return np.array([end - begin + 1 for _, begin, end in self._places])

    def __getitem__(self, index: int) -> TokenItem:
        document, begin, end = self._places[index]
        item = self.documents[document]
        word_ends = None if item.word_ends is None else item.word_ends[begin:end]
        return TokenItem(index, item.ids[begin:end], word_ends=word_ends)


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

    def items(self, split: Split) -> Items:
        """What is batched: one item a document. A subclass may give other samples, such as sentences."""
        return self.filled_split(split)

    def joined_items(self, split: Split) -> int:
        """How many items are documents of several sentences, which become one sequence."""
        return int((self.split(split).columns.counts("sentences") > 2).sum())

    def predict_dataloader(self) -> ResumableLoader:
        """The test split, every document once; for systems that take each sentence by itself, every sentence once."""
        model = None if self.trainer is None else self.trainer.lightning_module
        if getattr(model, "sentence_context", None) == "none":
            return self._by_length(self._sentences("test"), self.eval_tokens_per_batch, None)
        return self.test_dataloader()

    def _sentences(self, split: Split) -> "SentenceItems":
        """A split as token ids, an item for each sentence, without trees."""
        return SentenceItems(self._encoding(AnnotatedSplit(self.corpus, split, None).table()))

    def _batched(self, split: Split, epoch: int | None) -> ResumableLoader:
        """Shuffled items of an epoch; at validation and test every item once."""
        items = self.items(split)
        self._check_that_all_are_read(split, items)
        return self._by_length(items, self._budget(epoch), epoch)

    def _budget(self, epoch: int | None) -> int:
        return self.eval_tokens_per_batch if epoch is None else self.tokens_per_batch

    def _check_that_all_are_read(self, split: Split, items: Items) -> None:
        """Whether the system has positions for the longest item, which else would stop an epoch on its way.

        Raises:
            UserError: it has not.
        """
        model = None if self.trainer is None else self.trainer.lightning_module
        limit = getattr(model, "longest_scored", None)
        lengths = items.lengths - 1
        over = [] if limit is None else np.flatnonzero(lengths > limit).tolist()
        if over:
            first = over[0]
            place = f"item {first + 1}"
            if isinstance(items, EncodedSplit):
                words = " ".join(self._table(split)[first]["words"][:5])
                place = f"document {first + 1} ({words!r} …)"
            raise UserError(
                f"{self.corpus.name}, {split}, {place}: expected at most {limit} tokens, as "
                f"many as this {type(model).__name__} reads at once, found {lengths[first]}; {len(over)} are too "
                "long. Cut them, or train one with more positions (max_length of the model or of its backbone)."
            )
