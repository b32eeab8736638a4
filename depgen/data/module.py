"""Data modules of corpora: texts as token ids, a vocabulary that a run keeps, loaders that can be resumed."""

import json
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
from jaxtyping import Int
from torch.utils.data import Dataset

from depgen.data.batch import ItemBatch, collate_tokens
from depgen.data.corpus import Corpus, Split, drawn_documents, form_of, splitter_of, tokens_of
from depgen.data.rows import document_of_row
from depgen.data.sampler import RankBatch, ResumableBatches, ResumableLoader, TokenBudgetBatches, drawn_epoch
from depgen.data.steps import has_single_sentences
from depgen.data.table import (
    AnnotatedSplit,
    DocumentJoining,
    EncodedSplit,
    attached_marks,
    encoded_table,
    first_words,
    open_ends,
    several_roots,
    sizes_of,
)
from depgen.data.vocabulary import (
    VOCABULARY_FILE,
    SubwordPieces,
    Vocabulary,
    VocabularyBuilder,
    WordVocabulary,
    load_vocabulary,
    vocabulary_of_checkpoint,
)
from depgen.errors import UserError, check_at_least, checked_seed
from depgen.locations import cache_root, lines_sha256, made_once, write_atomically
from depgen.trees.annotator import Annotator
from depgen.trees.pieces import LeftDependents

logger = logging.getLogger(__name__)

VOCABULARY_VERSION = "1"
"""Part of every cached vocabulary's key: raised when a builder changes what it makes."""

WRAPPED = 0.5
"""Share of lines that end within a sentence that only wrapped text has."""

Collate = Callable[[Any], object]
"""Makes a batch of the items of one rank's share; picklable, so that worker processes can run it."""


@dataclass(frozen=True)
class _BatchedItems(Dataset[Any]):
    """Items as a loader asks for them: all of a rank's share of a batch at once."""

    items: Any
    vocabulary: Vocabulary

    def __len__(self) -> int:
        return len(self.items.lengths)

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        return self.items[index]

    def __getitems__(self, share: RankBatch) -> ItemBatch:
        items = [self.items[int(index)] for index in share.indices]
        return ItemBatch(items, share.global_tokens, self.vocabulary, global_items=share.global_items)


class CorpusData(L.LightningDataModule, ABC):
    """A corpus's splits as token ids, with trees where an annotator is named; a subclass says how they are batched.

    Its loaders work without a trainer too. In a trainer, each epoch of training has a new order.

    Args:
        corpus: where the documents come from.
        annotator: what gives them trees; None for systems that need none.
        trees_for: the splits that get trees. By default not the test split: no system sees a tree when it is tested,
            and a run can be tested where its parser is not.
        vocabulary: how the vocabulary is built, from the training split; by default pieces of words of raw text, which
            `tokens: rules` cuts, and every word of other text.
        joining: how the trees of a document's sentences become one (see `depgen.data.table.DocumentJoining`).
        left_dependents: the piece of a word that a dependent on its left hangs on (`depgen.trees.pieces`).
        max_documents: use only the first `max_documents` documents of the training split; None for all.
        workers: processes that collate; 0 collates in the training process. None: up to 4 where a GPU trains, one core
            left over, since the GPU then computes while they collate; else 0. On two CPU cores, a step of a small DMLM
            took 1.2 times as long with 1 or 2 workers as with none (measured once).
        seed: seed of the order of the training data.
        collate: makes a batch of the items of one rank's share. None: the trained model's own `collate`, or a plain one
            where there is no trainer or its model has none.
    """

    def __init__(
        self,
        corpus: Corpus,
        annotator: Annotator | None = None,
        trees_for: Sequence[Split] = ("train", "valid"),
        vocabulary: VocabularyBuilder | None = None,
        joining: DocumentJoining = "roots",
        left_dependents: LeftDependents = "last_piece",
        max_documents: int | None = None,
        *,
        workers: int | None = None,
        seed: int = 0,
        collate: Collate | None = None,
    ) -> None:
        super().__init__()
        check_at_least(0, workers=workers)
        check_at_least(1, max_documents=max_documents)
        self.corpus, self.annotator, self.trees_for = corpus, annotator, tuple(trees_for)
        self.builder = vocabulary or (SubwordPieces() if tokens_of(corpus) == "rules" else WordVocabulary())
        self.joining, self.left_dependents, self.max_documents = joining, left_dependents, max_documents
        self.workers, self.seed, self.collate = workers, checked_seed(seed), collate
        self._vocabulary: Vocabulary | None = None
        self._splits: dict[Split, EncodedSplit] = {}

    # -- vocabulary -----------------------------------------------------------------------------------------------

    @property
    def vocabulary(self) -> Vocabulary:
        """The data's own, or that of the run whose data these are."""
        if self._vocabulary is None:
            self._vocabulary = self._own_vocabulary()
        return self._vocabulary

    @property
    def vocabulary_size(self) -> int:
        """Number of token types; the command line links it to the model."""
        return self.vocabulary.size

    def _own_vocabulary(self) -> Vocabulary:
        """The vocabulary of a new run, built once for all ranks and kept in the cache."""
        with_trees = getattr(self.builder, "reads_trees", False)
        if with_trees and (self.annotator is None or "train" not in self.trees_for):
            raise UserError(
                "The vocabulary is built from trees, and the train split gets none: set data.init_args.annotator, and "
                "trees_for to the splits that are to get them."
            )
        source = self._annotated("train").fingerprint() if with_trees else self.corpus.fingerprint("train")
        key = [VOCABULARY_VERSION, source, self.builder.fingerprint(), str(self.max_documents)]
        file = cache_root() / "vocabularies" / f"{lines_sha256(key)[:32]}.json"

        def make() -> None:
            documents = islice(self.corpus.documents("train"), self.max_documents)
            self.builder.build(map(document_of_row, self._table("train")) if with_trees else documents).save(file)

        made_once(file, make, is_made=file.is_file)
        return load_vocabulary(file)

    def save_into(self, run: Path) -> None:
        """Write into a run folder its vocabulary and, where a seed has drawn the splits, which document is where."""
        self.vocabulary.save(run / VOCABULARY_FILE)
        drawn = drawn_documents(self.corpus)
        if drawn:
            write_atomically(run / "splits.json", json.dumps(drawn, indent=1, ensure_ascii=False) + "\n")

    def use_vocabulary(self, file: Path) -> None:
        """Take the vocabulary of a run folder; nothing is rebuilt."""
        self._vocabulary = load_vocabulary(file)
        self._splits.clear()

    @property
    def reading(self) -> dict[str, Any]:
        """How texts are given to a trained system, as arguments of `depgen.evaluation.reading.Reading`."""
        splitter = splitter_of(self.corpus) if has_single_sentences(self.corpus) else "lines"
        return {"form": form_of(self.corpus), "tokens": tokens_of(self.corpus), "splitter": splitter}

    def state_dict(self) -> dict[str, Any]:
        """The vocabulary and `reading`, so that a checkpoint can be used without its run folder."""
        return {"vocabulary": self.vocabulary.to_json(), "reading": self.reading}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the vocabulary of a checkpoint.

        Raises:
            UserError: the data already have another one.
        """
        loaded = vocabulary_of_checkpoint({"data": state_dict})
        if loaded is None:
            return
        if self._vocabulary is not None and self._vocabulary.to_json() != loaded.to_json():
            raise UserError(
                f"The checkpoint was trained with another vocabulary, of {loaded.size} types, than these data have, of "
                f"{self._vocabulary.size}. Take the data that it was trained with, or give these its vocabulary first "
                "(data.use_vocabulary(RUN/vocabulary.json))."
            )
        self._vocabulary = loaded

    # -- splits ---------------------------------------------------------------------------------------------------

    def prepare_data(self) -> None:
        """Annotate the splits that the trainer is about to use, on one process; the others read the cache.

        Without a trainer these are the splits of training; `setup("test")` annotates the test split.
        """
        for split in _splits_of("fit" if self.trainer is None else self.trainer.state.fn):
            self._table(split)

    def setup(self, stage: str | None = None) -> None:
        """Encode the splits that a stage needs; before training, warn of raw text and of an untrained `<unk>`."""
        for split in _splits_of(stage):
            self.split(split)
        if stage == "fit" and self.processes[1] == 0:
            self._warn_of_raw_text()
            self._warn_of_untrained_unk()

    def split(self, split: Split) -> EncodedSplit:
        """A split as token ids, with trees if it gets them; the log says what it holds."""
        if split in self._splits:
            return self._splits[split]
        table, name = self._table(split), f"{self.corpus.name} {split}"
        if self.annotator is not None and split in self.trees_for and self.annotator.leaves_out:
            sizes, scheme = sizes_of(table), self.annotator.scheme
            words = sizes.words - sizes.without_head
            logger.info("%s: %d of %d words are in trees (%s)", name, words, sizes.words, scheme)
            if not words and split == "train":
                raise UserError(
                    f"{self.corpus.name}, {split}: expected trees, found none in its {sizes.sentences} sentences "
                    f"({scheme}). If they are to come from a treebank, no sentence of it equals one of the corpus: are "
                    "both in the same form, such as by the step depgen.data.steps.BareWords?"
                )
        if self.annotator is not None and split in self.trees_for and self.annotator.structure == "tree":
            several, trees = several_roots(table)
            if several:
                logger.warning("%s: %d of %d sentences have several roots.", name, several, trees)
        encoded = self._splits[split] = self._encode(table)
        tokens = int(encoded.counts.sum())
        sentences = int(encoded.columns.counts("sentences").sum()) - len(encoded)
        logger.info(
            "%s: %d items of %d sentences, %d tokens, %.2f %% <unk>",
            name, len(encoded), sentences, tokens, 100 * self._unknown(encoded) / max(1, tokens),
        )  # fmt: skip
        return encoded

    def filled_split(self, split: Split) -> EncodedSplit:
        """`split` with the view of its items that the trained system has."""
        self._splits[split] = self.split(split).viewed(self._collate())
        return self._splits[split]

    def _annotated(self, split: Split) -> AnnotatedSplit:
        annotator = self.annotator if split in self.trees_for else None
        limit = self.max_documents if split == "train" else None
        return AnnotatedSplit(self.corpus, split, annotator, limit)

    def _table(self, split: Split) -> Any:  # noqa: ANN401
        return self._annotated(split).table()

    def _encode(self, table: Any) -> EncodedSplit:  # noqa: ANN401
        return encoded_table(table, self.vocabulary, joining=self.joining, left_dependents=self.left_dependents)

    def _unknown(self, encoded: EncodedSplit) -> int:
        """How many tokens are `<unk>`; 0 where the vocabulary has none."""
        return int(encoded.counts[self.vocabulary.unk]) if self.vocabulary.unk >= 0 else 0

    def _warn_of_raw_text(self) -> None:
        words = first_words(self._table("train"))
        if tokens_of(self.corpus) == "whitespace" and (marked := attached_marks(words)):
            logger.warning(
                "%s: %d of %d words of the training split end in a punctuation mark, as in raw text. Cut English into "
                "words by `tokens: rules` of the corpus's format, as depgen.data.corpora.RawText does.",
                self.corpus.name, marked, len(words),
            )  # fmt: skip
        if tokens_of(self.corpus) == "rules" and form_of(self.corpus) in (None, "as_is", "lower"):
            cut, documents = open_ends(self._table("train"))
            if cut > WRAPPED * documents:
                logger.warning(
                    "%s: %d of %d training documents end within a sentence, as in text whose lines are wrapped. A "
                    "document of raw text is a line: join the lines of each paragraph.",
                    self.corpus.name, cut, documents,
                )  # fmt: skip

    def _warn_of_untrained_unk(self) -> None:
        train, valid = self.split("train"), self.split("valid")
        unknown, tokens = self._unknown(valid), int(valid.counts.sum())
        if unknown and len(train) and not self._unknown(train):
            logger.warning(
                "%s: <unk> occurs nowhere in the training split, so its probability is never trained; %d of %d tokens "
                "(%.1f %%) of the validation split are <unk>. Set data.init_args.vocabulary.init_args.min_count to 2 "
                "or more, or max_size (of depgen.data.vocabulary.WordVocabulary): rarer words are then trained as "
                "<unk>.",
                self.corpus.name, unknown, tokens, 100 * unknown / tokens,
            )  # fmt: skip

    def target_counts(self) -> Int[np.ndarray, " vocabulary"]:
        """How often each token is to be predicted in an epoch of training: one end an item."""
        data = self.filled_split("train")
        counts = data.counts.copy()
        counts[self.vocabulary.eos] += len(data)
        return counts

    # -- loaders --------------------------------------------------------------------------------------------------

    @property
    def processes(self) -> tuple[int, int]:
        """How many processes train, and which of them this is."""
        return (1, 0) if self.trainer is None else (self.trainer.world_size, self.trainer.global_rank)

    @property
    def plain_collate(self) -> Collate:
        """Makes a batch where neither the caller nor a trained model says how: padded sequences of tokens."""
        return collate_tokens

    def _collate(self) -> Collate:
        if self.collate is not None:
            return self.collate
        model = None if self.trainer is None else self.trainer.lightning_module
        collate: Collate = getattr(model, "collate", self.plain_collate)
        return collate

    @abstractmethod
    def _batched(self, split: Split, epoch: int | None) -> ResumableLoader:
        """The batches of a split: in the order of an epoch of training, or (None) everything once, to evaluate."""

    def train_dataloader(self, epoch: int | None = None) -> ResumableLoader:
        """The batches of an epoch; by default the trainer's current one, or the first without a trainer."""
        return self._batched("train", drawn_epoch(self.trainer, epoch))

    def val_dataloader(self) -> ResumableLoader:
        """The validation split, everything once."""
        return self._batched("valid", None)

    def test_dataloader(self) -> ResumableLoader:
        """The test split, everything once."""
        return self._batched("test", None)

    def predict_dataloader(self) -> ResumableLoader:
        """The loader of the test split."""
        return self.test_dataloader()

    def _by_length(
        self,
        items: Any,  # noqa: ANN401
        budget: int,
        epoch: int | None,
        *,
        lengths: Int[np.ndarray, " items"] | None = None,
        tokens: Int[np.ndarray, " items"] | None = None,
    ) -> ResumableLoader:
        """Batches of items of like length within a budget: of an epoch of training, or (None) to evaluate.

        The budget counts the items' `lengths`, which are their own target tokens by default; `tokens` see
        `TokenBudgetBatches`.
        """
        world, rank = self.processes
        batches = TokenBudgetBatches(
            items.lengths if lengths is None else lengths, tokens_per_batch=budget, seed=self.seed, epoch=epoch or 0,
            shuffle=epoch is not None, world=world, rank=rank, tokens=tokens,
        )  # fmt: skip
        return self.loader(_BatchedItems(items, self.vocabulary), batches)

    def loader(self, data: Dataset[Any], batches: ResumableBatches) -> ResumableLoader:
        """What the trainer takes batches from."""
        on_gpu = self.trainer is not None and self.trainer.strategy.root_device.type == "cuda"
        workers = self.workers
        if workers is None:
            workers = min(4, (os.cpu_count() or 1) - 1) if on_gpu else 0
        return ResumableLoader(
            data,
            batch_sampler=batches,
            collate_fn=self._collate(),
            num_workers=workers,
            persistent_workers=False,
            pin_memory=on_gpu,  # copies to a GPU are fast from there
        )


def _splits_of(stage: str | None) -> tuple[Split, ...]:
    """The splits that a stage of a trainer reads; `predict_dataloader` encodes its own."""
    stages: dict[str | None, tuple[Split, ...]] = {
        "fit": ("train", "valid"), "validate": ("valid",), "test": ("test",), "predict": (),
    }  # fmt: skip
    return stages.get(stage, ("train", "valid", "test"))
