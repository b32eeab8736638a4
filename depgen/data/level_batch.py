"""Batches of sentences at the levels of their trees; see `depgen.data.levels`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.data.batch import Batch, ItemBatch, SystemCollate, TokenItem
from depgen.data.level_items import PAD_EXPANSION, UNKNOWN_EXPANSION, LevelItem, TreeForm
from depgen.data.sampler import budget_starts
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.nn.lengths import mask_of
from depgen.trees.binarization import depths, expansions


@dataclass(frozen=True, kw_only=True)
class LevelBatch(Batch):
    """Sentences at levels of their trees, a row each, padded at the right.

    Attributes:
        inputs: words above the level, and placeholders of the words at it.
        targets: the words.
        heads: the 0-based position of each word's head within the row; -1 at the root.
        expansions: rows of the table; that of padding at words above the level.
        is_open: where there is a placeholder.
        opened: the same, as places in the flat batch.
        lengths: tokens of each row.
        weights: factor of each row's loss.
        places: of each position the 0-based place of its token in the sentence.
        sentences: of each row the place of its sentence in the batch.
        items: of each sentence the place in its split.
        words: of each sentence.
        global_tokens: what a loss is divided by.
        unk: the unknown word.
        eos: is never written.
    """

    on_cpu: ClassVar[frozenset[str]] = frozenset({"lengths", "places", "sentences", "items", "words"})

    inputs: Int[Tensor, "rows length"]
    targets: Int[Tensor, "rows length"]
    heads: Int[Tensor, "rows length"]
    expansions: Int[Tensor, "rows length"]
    is_open: Bool[Tensor, "rows length"]
    opened: Int[Tensor, " open"]
    lengths: Int[Tensor, " rows"]
    weights: Float[Tensor, " rows"]
    places: Int[Tensor, "rows length"]
    sentences: Int[Tensor, " rows"]
    items: Int[Tensor, " batch"]
    words: Int[Tensor, " batch"]
    global_tokens: int
    unk: int
    eos: int

    @property
    def is_word(self) -> Bool[Tensor, "rows length"]:
        """True at tokens, False at padding."""
        return mask_of(self.lengths, self.inputs.shape[1], device=self.inputs.device)

    def select(self, rows: Int[Tensor, " some"]) -> "LevelBatch":
        """Some of the rows, whose numbers lie on the CPU, padded to the longest of them."""
        there, lengths = rows.to(self.inputs.device), self.lengths[rows]
        longest = int(lengths.max())
        tokens = {name: getattr(self, name)[there, :longest] for name in _BY_TOKEN}
        return replace(
            self, **tokens, lengths=lengths, opened=tokens["is_open"].flatten().nonzero()[:, 0],
            weights=self.weights[there], places=self.places[rows, :longest], sentences=self.sentences[rows],
        )  # fmt: skip

    def parts(self, tokens: int) -> Iterator[tuple[Int[Tensor, " some"], "LevelBatch"]]:
        """Batches of rows of similar length, and the numbers of their rows.

        All levels of a sentence padded to its last one are twice as many tokens as they have.

        Args:
            tokens: the most tokens of a batch, padding included, unless it has a single row.
        """
        order = self.lengths.argsort(stable=True)
        starts = budget_starts(self.lengths[order].tolist(), tokens)
        for start, end in pairwise([*starts, len(order)]):
            yield order[start:end], self.select(order[start:end])

    def distinct(self) -> tuple[Int[Tensor, " distinct"], Int[Tensor, " rows"]]:
        """Rows that are all different, the shortest first; and of each row the one among them that it equals.

        Rows are equal where a system reads and predicts the same.
        """
        columns = torch.cat((self.lengths[:, None], self.inputs, self.targets, self.heads, self.expansions), 1)
        _, first, found = np.unique(columns.numpy(), axis=0, return_index=True, return_inverse=True)
        return torch.from_numpy(first), torch.from_numpy(found.reshape(-1))


_BY_TOKEN = ("inputs", "targets", "heads", "expansions", "is_open")


@dataclass(frozen=True)
class _Tables:
    """What the vocabulary says of placeholders and expansions."""

    form: TreeForm
    placeholders: dict[str, int]
    expansions: dict[tuple[str, ...], int]
    unk: int


@lru_cache(maxsize=1)
def _tables_of(vocabulary: Vocabulary) -> _Tables:
    form, first = TreeForm.of(vocabulary), vocabulary.size - len(vocabulary.tables["placeholders"])
    placeholders = {str(label): first + k for k, label in enumerate(vocabulary.tables["placeholders"])}
    rows = {tuple(row): k for k, row in enumerate(vocabulary.tables["expansions"])}
    return _Tables(form, placeholders, rows, vocabulary.eos if vocabulary.unk < 0 else vocabulary.unk)


VIEW = ("heads", "depths", "placeholders", "expansions")


@dataclass(frozen=True)
class LevelCollate(SystemCollate):
    """Makes batches of sentences at their levels."""

    version: ClassVar[int] = 1
    reads: ClassVar[Literal["heads"]] = "heads"

    def view(self, item: TokenItem, vocabulary: Vocabulary) -> dict[str, np.ndarray]:
        """Heads (0-based, -1 = root), depths, placeholders and expansions of a sentence's tokens.

        Raises:
            UserError: the vocabulary has no placeholders.
        """
        tables = _tables_of(vocabulary)
        if not _has_tree(item):
            return dict.fromkeys(VIEW, np.zeros(0, np.int64))
        assert item.heads is not None
        assert item.relations is not None
        heads, labels = tables.form.written(item.heads, list(item.relations))
        rows = expansions(heads, labels)
        columns = (
            heads - 1,
            depths(heads),
            [tables.placeholders.get(label, tables.unk) for label in labels],
            [tables.expansions.get(row, UNKNOWN_EXPANSION) for row in rows],
        )
        return {name: np.array(column, np.int64) for name, column in zip(VIEW, columns, strict=True)}

    def __call__(self, batch: ItemBatch) -> LevelBatch:
        """The batch.

        Raises:
            UserError: a sentence has no tree, or the vocabulary no placeholders.
        """
        items: Sequence[LevelItem] = batch.items
        views = [self.view_of(item.sentence, batch.vocabulary) for item in items]
        for item in items:
            if not _has_tree(item.sentence):
                place = f"item {item.sentence.index + 1}"
                raise UserError(f"{place}: expected a sentence with its tree, found none: give trees.")
        columns = [[view[name] for view in views] for name in VIEW]
        ids = [item.sentence.ids for item in items]
        tokens, heads, deep, marks, patterns = (
            _padded(each) for each in (ids, *columns)
        )  # [sentences length]; depth 0 at padding
        rows = [(k, level) for k, item in enumerate(items) for level in item.levels or range(1, int(deep[k].max()) + 1)]
        sentences, levels = np.array(rows).T
        kept = (deep[sentences] <= levels[:, None]) & (deep[sentences] > 0)
        lengths = kept.sum(1)
        order = np.argsort(~kept, axis=1, kind="stable")[:, : lengths.max()]  # kept tokens first
        numbers = kept.cumsum(1) - 1

        def of(values: np.ndarray) -> np.ndarray:
            return np.take_along_axis(values[sentences], order, 1)

        here = np.arange(order.shape[1]) < lengths[:, None]
        opened = (of(deep) == levels[:, None]) & here
        own_heads = of(heads)
        within = np.where(own_heads < 0, -1, np.take_along_axis(numbers, np.maximum(own_heads, 0), 1))
        targets = np.where(here, of(tokens), batch.vocabulary.eos)
        ends = [item.sentence.word_ends for item in items]
        words = [len(one) if end is None else int(end.sum()) for one, end in zip(ids, ends, strict=True)]
        arrays = {
            "inputs": np.where(opened, of(marks), targets),
            "targets": targets,
            "heads": np.where(here, within, -1),
            "expansions": np.where(opened, of(patterns), PAD_EXPANSION),
            "is_open": opened,
            "opened": np.flatnonzero(opened),
            "lengths": lengths,
            "places": order,
            "sentences": sentences,
            "items": np.array([item.sentence.index for item in items]),
            "words": np.array(words),
        }
        return LevelBatch(
            **{name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()},
            weights=torch.tensor([item.weight for item in items])[sentences],
            global_tokens=batch.global_tokens,
            unk=batch.vocabulary.unk,
            eos=batch.vocabulary.eos,
        )


collate_levels = LevelCollate()


def are_written(items: Sequence[LevelItem], vocabulary: Vocabulary) -> list[bool]:
    """Whether the vocabulary has the expansions of all words of each sentence's tree, and so their labels.

    Raises:
        UserError: see `LevelCollate`.
    """
    views = [collate_levels.view_of(item.sentence, vocabulary) for item in items]
    return [bool((view["expansions"] != UNKNOWN_EXPANSION).all()) for view in views]


def _has_tree(sentence: TokenItem) -> bool:
    return sentence.heads is not None and sentence.relations is not None and bool((sentence.heads >= 0).all())


def _padded(rows: Sequence[np.ndarray]) -> Int[np.ndarray, "rows longest"]:
    found = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for row, values in zip(found, rows, strict=True):
        row[: len(values)] = values
    return found
