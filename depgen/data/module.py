"""What data modules of ids share: a vocabulary that a run keeps, splits encoded on demand, loaders that resume."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import lightning as L
import numpy as np
from jaxtyping import Int
from torch.utils.data import Dataset

from depgen.data.batch import ItemBatch
from depgen.data.corpus import Split
from depgen.data.sampler import ResumableBatches, ResumableLoader, Share, TokenBudgetBatches, drawn_epoch
from depgen.data.vocabulary import Vocabulary, load_vocabulary, vocabulary_of_checkpoint
from depgen.errors import UserError, check_at_least
from depgen.seeds import checked_seed

Encoded = TypeVar("Encoded", bound="Items")
"""A split as token ids."""
Collate = Callable[[Any], object]
"""Makes a batch of the items of one rank's share; picklable, so that worker processes can run it."""


@runtime_checkable
class Items(Protocol):
    """What a data module batches: documents, sentences, or parts of these, as a system's collate reads them."""

    @property
    def lengths(self) -> Int[np.ndarray, " items"]:
        """Target tokens of each."""
        ...

    def __getitem__(self, index: int, /) -> Any:  # noqa: ANN401  (whatever the collate reads)
        ...


@dataclass(frozen=True)
class BatchedItems(Dataset[Any]):
    """Items as batches of a budget of tokens read them, with what the vocabulary says of special ids."""

    items: Items
    vocabulary: Vocabulary

    def __len__(self) -> int:
        return len(self.items.lengths)

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401
        return self.items[index]

    def __getitems__(self, share: Share) -> ItemBatch:
        """The items of one rank's share of a batch (called by torch's fetcher)."""
        items = [self.items[int(index)] for index in share.indices]
        return ItemBatch(items, share.global_tokens, self.vocabulary, global_items=share.global_items)


class EncodedData(L.LightningDataModule, ABC, Generic[Encoded]):
    """Splits as token ids; a subclass says where they and the vocabulary come from and how they are batched.

    Its loaders work without a trainer too. In a trainer, each epoch of training has a new order.

    Args:
        workers: processes that collate; 0 collates in the training process. None: up to 4 where a GPU trains, one core
            left over, since the GPU then computes while they collate; else 0. On two CPU cores, a step of a small DMLM
            took 1.2 times as long with 1 or 2 workers as with none (measured once).
        seed: seed of the order of the training data.
        collate: makes a batch of the items of one rank's share. None: the trained model's own `collate`, or a plain one
            where there is no trainer or its model has none.

    Raises:
        UserError: fewer than no workers, or a seed is out of range.
    """

    def __init__(self, *, workers: int | None = None, seed: int = 0, collate: Collate | None = None) -> None:
        super().__init__()
        check_at_least(0, workers=workers)
        self.collate = collate
        self.workers, self.seed = workers, checked_seed(seed)
        self._vocabulary: Vocabulary | None = None
        self._splits: dict[Split, Encoded] = {}

    # -- vocabulary -----------------------------------------------------------------------------------------------

    @abstractmethod
    def _own_vocabulary(self) -> Vocabulary:
        """The vocabulary of a new run."""

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

    def save_into(self, run: Path) -> None:
        """Write the vocabulary into a run folder."""
        self.vocabulary.save(run / "vocabulary")

    def use_vocabulary(self, folder: Path) -> None:
        """Take the vocabulary of a run folder; nothing is rebuilt."""
        self._vocabulary = load_vocabulary(folder)
        self._splits.clear()

    def state_dict(self) -> dict[str, Any]:
        """The vocabulary, so that a checkpoint can be used without its run folder."""
        return {"vocabulary": self.vocabulary.files()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the vocabulary of a checkpoint.

        Raises:
            UserError: the data already have another one.
        """
        loaded = vocabulary_of_checkpoint({"data": state_dict})
        if loaded is None:
            return
        if self._vocabulary is not None and self._vocabulary.files() != loaded.files():
            raise UserError(
                f"The checkpoint was trained with another vocabulary, of {loaded.size} types, than these data have, of "
                f"{self._vocabulary.size}. Take the data that it was trained with, or give these its vocabulary first "
                "(data.use_vocabulary(RUN/vocabulary))."
            )
        self._vocabulary = loaded

    # -- splits ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def _encoded(self, split: Split) -> Encoded:
        """A split as token ids, and a line of the log that says what it holds."""

    def split(self, split: Split) -> Encoded:
        """A split as token ids."""
        if split not in self._splits:
            self._splits[split] = self._encoded(split)
        return self._splits[split]

    def setup(self, stage: str | None = None) -> None:
        """Encode the splits that a stage needs; `predict_dataloader` encodes its own."""
        for split in self._splits_of(stage):
            self.split(split)

    @staticmethod
    def _splits_of(stage: str | None) -> tuple[Split, ...]:
        stages: dict[str | None, tuple[Split, ...]] = {
            "fit": ("train", "valid"), "validate": ("valid",), "test": ("test",), "predict": (),
        }  # fmt: skip
        return stages.get(stage, ("train", "valid", "test"))

    # -- loaders --------------------------------------------------------------------------------------------------

    @property
    def processes(self) -> tuple[int, int]:
        """How many processes train, and which of them this is."""
        return (1, 0) if self.trainer is None else (self.trainer.world_size, self.trainer.global_rank)

    @property
    @abstractmethod
    def plain_collate(self) -> Collate:
        """Makes a batch where neither the caller nor a trained model says how."""

    def _collate(self) -> Collate:
        if self.collate is not None:
            return self.collate
        model = None if self.trainer is None else self.trainer.lightning_module
        found: Collate = getattr(model, "collate", self.plain_collate)
        return found

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

    def _on_gpu(self) -> bool:
        """Whether batches go to a GPU, for which they are copied into pinned memory."""
        return self.trainer is not None and self.trainer.strategy.root_device.type == "cuda"

    def _workers(self) -> int:
        if self.workers is not None:
            return self.workers
        return min(4, (os.cpu_count() or 1) - 1) if self._on_gpu() else 0

    def _by_length(
        self,
        items: Items,
        budget: int,
        epoch: int | None,
        *,
        lengths: Int[np.ndarray, " items"] | None = None,
        tokens: Int[np.ndarray, " items"] | None = None,
    ) -> ResumableLoader:
        """Batches of items of like length within a budget; see `_batched` and `TokenBudgetBatches`.

        Args:
            items: of a split.
            budget: of a batch.
            epoch: of training; None: to evaluate.
            lengths: of the items, as the budget counts them; None: their own.
            tokens: see `TokenBudgetBatches`.
        """
        world, rank = self.processes
        batches = TokenBudgetBatches(
            items.lengths if lengths is None else lengths, tokens_per_batch=budget, seed=self.seed, epoch=epoch or 0,
            shuffle=epoch is not None, world=world, rank=rank, tokens=tokens,
        )  # fmt: skip
        return self.loader(BatchedItems(items, self.vocabulary), batches)

    def loader(self, data: Dataset[Any], batches: ResumableBatches) -> ResumableLoader:
        """What the trainer takes batches from."""
        return ResumableLoader(
            data,
            batch_sampler=batches,
            collate_fn=self._collate(),
            num_workers=self._workers(),
            persistent_workers=False,
            pin_memory=self._on_gpu(),
        )
