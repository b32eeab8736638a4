"""A corpus as one continuous stream, read segment by segment by networks that carry their state: truncated BPTT.

The documents of a split are concatenated; each ends with `<eos>`, and another `<eos>` precedes the first. The
stream is cut into columns of equal length, the rows of a batch; each segment of a column continues where the one
before it ended.
Merity, Keskar & Socher (2018), Sec. 3 and 4.

Deviations
    D1. The columns differ in length by one position at most, so that no token is left out; the authors' code drops the
        remainder of the division, and predicts no token of the stream's last row.
    D2. Segment lengths are a pure function of (seed, epoch), so that a resumed run cuts the stream as the unbroken one.
    D3. Texts are written from a zero state and `<eos>`, which a stream shows at its columns' beginnings alone. The
        authors write stories so, but sentences from nothing as one endless stream; ours do not depend on one another.
    D4. PRPN's code begins each epoch at a random offset; here all epochs begin at the stream's first token.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int
from torch.utils.data import Dataset

from depgen.data.batch import ItemBatch, StreamSlice
from depgen.data.corpus import Corpus, Split
from depgen.data.module import CorpusData
from depgen.data.sampler import ResumableBatches, ResumableLoader
from depgen.data.table import EncodedSplit
from depgen.errors import UserError, check_at_least

SHORTEST = 5
"""Positions of the shortest segment drawn; the last of an epoch may be shorter."""
EVALUATION_COLUMNS: Mapping[Split, int] = {"valid": 10, "test": 1}
"""Columns at validation and test, as in the authors' code."""
PREDICTED_AT_ONCE = 4096
"""Tokens of a batch of whole documents."""


class Segment(NamedTuple):
    """The same positions of each of one rank's columns; `number` is its place in the epoch."""

    number: int
    columns: Int[np.ndarray, " columns"]
    start: int
    length: int
    learning_rate_scale: float


def segment_lengths(positions: int, bptt: int, *, vary: bool, generator: np.random.Generator) -> list[int]:
    """Lengths of the segments that a column of this number of positions is cut into.

    With `vary`, each is drawn: its mean is `bptt`, with probability 0.05 half of it, its standard deviation 5. A last
    one of one position, where shorter columns would have none, joins the one before it.

    >>> segment_lengths(7, 3, vary=False, generator=np.random.default_rng(0))
    [3, 4]
    """
    lengths: list[int] = []
    left = positions
    while left > 0:
        length = bptt
        if vary:
            mean = bptt if generator.random() < 0.95 else bptt / 2
            length = max(SHORTEST, int(generator.normal(mean, 5)))
        lengths.append(min(length, left))
        left -= lengths[-1]
    if len(lengths) > 1 and lengths[-1] == 1:
        lengths[-2:] = [lengths[-2] + 1]
    return lengths


class StreamColumns(Dataset[StreamSlice]):
    """A split's stream in columns side by side, the first ones a position longer where it does not divide."""

    def __init__(self, encoded: EncodedSplit, columns: int) -> None:
        self.encoded, self.columns = encoded, columns
        self.item_starts = np.concatenate([[0], np.cumsum(encoded.lengths)])
        positions = int(self.item_starts[-1])
        if columns > positions:
            raise UserError(
                f"{positions} positions can't be cut into {columns} columns: take more text, or for training "
                "fewer data.init_args.columns."
            )
        share, longer = divmod(positions, columns)
        sizes = np.full(columns, share) + (np.arange(columns) < longer)
        self.bounds = np.concatenate([[0], np.cumsum(sizes)])

    def __len__(self) -> int:
        return self.columns

    @property
    def longest(self) -> int:
        """Positions of the longest column."""
        return int(np.diff(self.bounds).max())

    def slice(self, column: int, start: int, length: int, *, index: int) -> StreamSlice:
        """Some positions of a column, cut at its end."""
        end = int(self.bounds[column + 1])
        begin = min(int(self.bounds[column]) + start, end)
        stop = min(begin + length, end)
        # an empty slice, of a column that has ended, touches the item of the position before it
        first = int(np.searchsorted(self.item_starts, min(begin, end - 1), side="right")) - 1
        last = int(np.searchsorted(self.item_starts, stop, side="left"))
        offset = int(self.item_starts[first])
        return StreamSlice(index, [self.encoded[item] for item in range(first, last)], begin - offset, stop - offset)

    def __getitems__(self, segment: Segment) -> ItemBatch:
        """The rows of a segment (called by torch's fetcher)."""
        first = segment.number * self.columns
        rows = [
            self.slice(int(column), segment.start, segment.length, index=first + int(column))
            for column in segment.columns
        ]
        within = np.clip(np.diff(self.bounds) - segment.start, 0, segment.length)
        return ItemBatch(
            rows, int(within.sum()), self.encoded.vocabulary, segment=segment.number,
            learning_rate_scale=segment.learning_rate_scale,
        )  # fmt: skip


class Segments(ResumableBatches):
    """The segments of an epoch, in order; their lengths are drawn from seed and epoch where they `vary`."""

    def __init__(
        self,
        data: StreamColumns,
        bptt: int,
        *,
        vary: bool,
        seed: int = 0,
        epoch: int = 0,
        world: int = 1,
        rank: int = 0,
    ) -> None:
        super().__init__(epoch, in_order_of_epoch=vary)
        if len(data) < world:
            raise UserError(f"{len(data)} columns can't be shared by {world} devices: use fewer devices.")
        self.bptt, self.vary = bptt, vary
        self.columns = np.arange(len(data))[rank::world]
        self.lengths = segment_lengths(data.longest, bptt, vary=vary, generator=np.random.default_rng((seed, epoch, 2)))

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[Segment]:
        starts = np.concatenate([[0], np.cumsum(self.lengths)])
        for number in range(self.start, len(self.lengths)):
            length = self.lengths[number]
            scale = length / self.bptt if self.vary else 1.0
            yield Segment(number, self.columns, int(starts[number]), length, scale)


class StreamData(CorpusData):
    """A corpus as a continuous stream for networks that carry their state; more in `CorpusData`.

    Args:
        corpus: where the documents come from.
        columns: columns that are read side by side in training, over all devices (the paper's batch size).
        bptt: positions of a segment.
        vary_bptt: draw the segments' lengths in training, from the seed, and scale the learning rate with them.
        kwargs: the other arguments of `CorpusData`.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        columns: int = 20,
        bptt: int = 70,
        vary_bptt: bool = True,
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(corpus, **kwargs)
        check_at_least(1, columns=columns, bptt=bptt)
        self.columns, self.bptt, self.vary_bptt = columns, bptt, vary_bptt

    def _batched(self, split: Split, epoch: int | None) -> ResumableLoader:
        """The segments of an epoch; at validation and test every token once."""
        world, rank = self.processes
        data = StreamColumns(self.filled_split(split), EVALUATION_COLUMNS.get(split, self.columns))
        vary = epoch is not None and self.vary_bptt
        segments = Segments(data, self.bptt, vary=vary, seed=self.seed, epoch=epoch or 0, world=world, rank=rank)
        return self.loader(data, segments)

    def predict_dataloader(self) -> ResumableLoader:
        """The test split, each document by itself: what is predicted of one does not depend on those before."""
        data = self.filled_split("test")
        budget = max(PREDICTED_AT_ONCE, int(data.lengths.max()))
        return self._by_length(data, budget, None)
