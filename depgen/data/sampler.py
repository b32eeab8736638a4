"""Token-budget batches of items of like length, the same on every machine and after every restart.

The order is a pure function of seed and epoch. Batches are cut globally and then shared between the ranks, so that one
device and eight see the same global batches wherever a batch has an item for each rank; a shorter one is filled up with
the next shorter items, so that a rank never gets an empty share.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int
from torch.utils.data import DataLoader, Sampler

from depgen.errors import UserError

BATCHES_PER_POOL = 50
"""Batches' worth of items that are sorted by length together; more means less padding and less mixing."""


class RankBatch(NamedTuple):
    """One rank's items of a global batch, and the numbers of target tokens and items in all of it."""

    indices: Int[np.ndarray, " share"]
    global_tokens: int
    global_items: int


class ResumableBatches(Sampler[Any]):
    """The batches of an epoch, which can be gone through from any of them on.

    Args:
        epoch: whose batches they are.
        in_order_of_epoch: whether other epochs have other batches, as in training.

    Attributes:
        start: the first one handed out.
    """

    start = 0

    def __init__(self, epoch: int, *, in_order_of_epoch: bool) -> None:
        self.epoch, self.sampler = epoch, self if in_order_of_epoch else None

    def set_epoch(self, epoch: int) -> None:
        """Raises UserError if a trainer, which calls this of `sampler`, would repeat the order in another epoch."""
        if epoch != self.epoch:
            raise UserError(
                f"The training loader holds the batches of epoch {self.epoch}, but epoch {epoch} begins. Give the "
                "trainer the data module instead of its loaders: trainer.fit(model, datamodule=data)."
            )


class TokenBudgetBatches(ResumableBatches):
    """Batches whose padded size stays within a budget of tokens.

    Args:
        lengths: target tokens of each item.
        tokens_per_batch: budget of the *global* batch: longest item times number of items. In evaluation a longer item
            is a batch by itself. A batch beyond the budget has fewer than twice as many items as there are ranks.
        seed: seed of the order.
        epoch: the order changes with it.
        shuffle: False keeps items sorted by length, for evaluation.
        world: number of ranks that share a batch.
        rank: this rank.
        tokens: target tokens of each item, where `lengths` are something else; None: the lengths.
    """

    def __init__(
        self,
        lengths: Int[np.ndarray, " items"],
        *,
        tokens_per_batch: int,
        seed: int = 0,
        epoch: int = 0,
        shuffle: bool = True,
        world: int = 1,
        rank: int = 0,
        tokens: Int[np.ndarray, " items"] | None = None,
    ) -> None:
        super().__init__(epoch, in_order_of_epoch=shuffle)
        longest = int(lengths.max(initial=0))
        if shuffle and longest > tokens_per_batch:
            raise UserError(
                f"Item {int(lengths.argmax()) + 1} of the split has {longest} tokens, but a batch may hold "
                f"{tokens_per_batch}. Set data.init_args.tokens_per_batch to at least {longest}."
            )
        if 0 < len(lengths) < world:
            raise UserError(f"{len(lengths)} items can't be shared by {world} devices: use fewer devices or more data.")
        self.world, self.rank, self.tokens = world, rank, lengths if tokens is None else tokens
        order, per_pool = np.arange(len(lengths)), max(1, len(lengths))
        if shuffle and len(lengths):
            order = np.random.default_rng((seed, epoch)).permutation(len(lengths))
            per_pool = max(world, BATCHES_PER_POOL * tokens_per_batch // max(1, int(lengths.mean())))
        self.batches: list[Int[np.ndarray, " _"]] = []
        for pool in _pools(order, per_pool, world):
            by_length = pool[np.argsort(lengths[pool], kind="stable")]
            self.batches += _cut(by_length, lengths, tokens_per_batch, world)
        if shuffle:
            places = np.random.default_rng((seed, epoch, 1)).permutation(len(self.batches))
            self.batches = [self.batches[place] for place in places]

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[RankBatch]:
        for batch in self.batches[self.start :]:
            yield RankBatch(batch[self.rank :: self.world], int(self.tokens[batch].sum()), len(batch))


def _pools(order: Int[np.ndarray, " items"], size: int, world: int) -> Iterator[Int[np.ndarray, " _"]]:
    """Pools of `size` items; a rest of fewer than `world` belongs to the last."""
    starts = [start for start in range(0, len(order), size) if start == 0 or len(order) - start >= world]
    for start, end in pairwise([*starts, len(order)]):
        yield order[start:end]


def _cut(
    ordered: Int[np.ndarray, " part"], lengths: Int[np.ndarray, " items"], budget: int, world: int
) -> list[Int[np.ndarray, " _"]]:
    """Batches within the budget of items sorted by length, each with an item for every rank.

    From the longest items down, a batch of fewer than `world` takes the missing ones from the end of the batch before
    it. That exceeds the budget only where it holds fewer than `world` items, or where fewer than `world` are left over
    at the short end, which join the next batch.
    """
    moved, end = [], len(ordered)
    for start in reversed(budget_starts(lengths[ordered].tolist(), budget)):
        if start < end:  # else the batches after it took all it had
            end = min(start, end - world)
            moved.append(end)
    bounds = [0, *(start for start in reversed(moved) if start >= world), len(ordered)]
    return [ordered[start:end] for start, end in pairwise(bounds)]


def budget_starts(lengths: Iterable[int], budget: int, *, most: int | None = None) -> list[int]:
    """Where batches of consecutive items begin, in each of which the longest item times their number is in the budget.

    A longer item is a batch by itself. `most` limits the items of a batch.

    >>> budget_starts([1, 1, 2, 7, 1], 4), budget_starts([1, 1, 1], 4, most=2)
    ([0, 2, 3, 4], [0, 2])
    """
    starts: list[int] = []
    longest = 0
    for place, length in enumerate(lengths):
        longest = max(longest, length)
        number = place + 1 - starts[-1] if starts else 0
        if not starts or longest * number > budget or (most is not None and number > most):
            starts.append(place)
            longest = length
    return starts


def drawn_epoch(trainer: Any, epoch: int | None = None) -> int:  # noqa: ANN401 - Lightning declares no such attribute
    """The epoch to draw an order for: the one given; by default the trainer's, or 0 without a trainer.

    The trainer is set to take a new loader for each epoch. By default it would repeat the first one, and would cut or
    skip the validation of a later epoch with another number of batches.
    """
    if trainer is None or epoch is not None:
        return epoch or 0
    trainer.reload_dataloaders_every_n_epochs = 1
    return int(trainer.current_epoch)


class ResumableLoader(DataLoader[Any]):
    """A DataLoader that counts the batches it has handed out in an epoch, so that a resumed run continues there."""

    handed_out = 0
    offset = 0

    @property
    def _batches(self) -> Any:  # noqa: ANN401
        """The `ResumableBatches`, around which Lightning puts a wrapper where it predicts."""
        return self.batch_sampler

    def state_dict(self) -> dict[str, int]:
        """The epoch and the batches handed out in it."""
        return {"epoch": self._batches.epoch, "handed_out": self.handed_out}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Skip the batches that were handed out in this epoch, once, at the start of the next iteration."""
        self.offset = state["handed_out"] if state["epoch"] == self._batches.epoch else 0

    def __iter__(self) -> Any:  # noqa: ANN401
        self.handed_out, self.offset = self.offset, 0
        self._batches.start = self.handed_out
        for batch in super().__iter__():
            self.handed_out += 1
            yield batch
