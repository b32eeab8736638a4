"""Batches of sentences and their constituency trees, as strings of words and brackets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from depgen.data.batch import ItemBatch, SystemCollate, TokenBatch, TokenItem, collate_tokens
from depgen.data.constituent_labels import LABELS
from depgen.data.vocabulary import EOS, Vocabulary
from depgen.errors import UserError
from depgen.nn.stack_attention import StackAttention, stack_attention
from depgen.trees.tree_strings import NOTHING, ROWS, WORD, LabelledSpan, positions_of, symbols_of


@dataclass(frozen=True, kw_only=True)
class TreeBatch(TokenBatch):
    """Sequences and the tree of each as a string.

    Attributes:
        eos: the id that begins and ends a sentence.
        strings: of each sentence, the rows of `positions_of`; None without trees.
        predicting: the places that predict among the positions of all strings, one after the other; None without trees.
        before_words: those of them that predict a word, by their place in `predicting`; None without trees.
    """

    eos: int = EOS
    strings: Int[Tensor, "batch rows positions"] | None = None
    predicting: Int[Tensor, " predicting"] | None = None
    before_words: Int[Tensor, " words"] | None = None

    def row(self, name: str) -> Int[Tensor, "batch positions"]:
        """One of the rows, by its name in `ROWS`."""
        assert self.strings is not None
        return self.strings[:, ROWS.index(name)].long()


@dataclass(frozen=True)
class TreeCollate(SystemCollate):
    """Makes padded batches, with strings where all items have constituents.

    Args:
        max_openings: the most constituents that begin at one word.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Literal["span_starts"]] = "span_starts"

    max_openings: int

    def view(self, item: TokenItem, vocabulary: Vocabulary) -> dict[str, np.ndarray]:
        """The rows of positions of an item's string, one after the other.

        Raises:
            UserError: spans that are no tree, more openings than are allowed, or a vocabulary without labels.
        """
        if item.spans is None:
            return {"string": np.zeros(0, np.int32)}
        assert item.span_labels is not None
        numbers = label_numbers(vocabulary)
        labels = [numbers.get(str(label), 0) for label in item.span_labels]
        spans = [(start, end, label) for (start, end), label in zip(item.spans.tolist(), labels, strict=True)]
        string = string_positions(
            spans, len(item.ids), max_openings=self.max_openings, where=f"sentence {item.index + 1}"
        )
        return {"string": string.astype(np.int32).ravel()}

    def __call__(self, batch: ItemBatch) -> TreeBatch:
        """The batch.

        Raises:
            UserError: stretches of a stream, or what `view` refuses.
        """
        tokens = collate_tokens(batch)
        if not all(isinstance(item, TokenItem) for item in batch.items):
            raise UserError("TransformerGrammar reads sentences: take depgen.data.text.TextData for the data.")
        sentences = TreeBatch(**vars(tokens), eos=batch.vocabulary.eos)
        if any(item.spans is None for item in batch.items):
            return sentences
        views = [self.view_of(item, batch.vocabulary) for item in batch.items]
        return with_strings(sentences, [view["string"].reshape(len(ROWS), -1) for view in views])


@lru_cache(maxsize=1)
def label_numbers(vocabulary: Vocabulary) -> dict[str, int]:
    """The number of each label.

    Raises:
        UserError: the vocabulary has no table of labels.
    """
    if LABELS not in vocabulary.tables:
        raise UserError(
            f"The vocabulary has no table {LABELS!r}: set data.init_args.vocabulary to "
            "depgen.data.constituent_labels.ConstituentLabels, with the former one as its builder."
        )
    return {str(label): number for number, label in enumerate(vocabulary.tables[LABELS])}


def string_positions(
    spans: Sequence[LabelledSpan], length: int, *, max_openings: int, where: str
) -> Int[np.ndarray, "rows _"]:
    """The positions of the string of a tree (`depgen.trees.tree_strings.positions_of`).

    Args:
        spans: see `symbols_of`.
        length: number of words.
        max_openings: the most constituents that begin at one word.
        where: the sentence's place, for messages.

    Raises:
        UserError: spans that are no tree, or more constituents at a word.
    """
    found = positions_of(symbols_of(spans, length))
    most = int(found[ROWS.index("openings")].max())
    if most > max_openings:
        raise UserError(
            f"{where}: expected at most {max_openings} constituents that begin at one word, found {most}. Raise "
            "model.init_args.max_openings."
        )
    return found


def with_strings(batch: TreeBatch, strings: Sequence[Int[np.ndarray, "rows _"]]) -> TreeBatch:
    """The batch with strings, padded at the right by positions that predict nothing and that nothing sees."""
    longest = max(each.shape[1] for each in strings)
    padded = np.zeros((len(strings), len(ROWS), longest), dtype=np.int32)
    padded[:, [ROWS.index("symbols"), ROWS.index("targets")]] = NOTHING
    padded[:, ROWS.index("leaves")] = np.arange(longest)
    for row, each in enumerate(strings):
        padded[row, :, : each.shape[1]] = each
    targets = padded[:, ROWS.index("targets")].ravel()
    predicting = np.flatnonzero(targets > NOTHING)  # found here: a GPU would be waited for
    before_words = np.flatnonzero(targets[predicting] == WORD)
    return replace(
        batch,
        strings=torch.from_numpy(padded),
        predicting=torch.from_numpy(predicting),
        before_words=torch.from_numpy(before_words),
    )


def attention_of(batch: TreeBatch) -> StackAttention:
    """Which positions each position of the strings sees (Section 3.2), and how much deeper it is (Section 3.3)."""
    composes = (batch.row("targets") == NOTHING) & (batch.row("symbols") > WORD)
    return stack_attention(batch.row("leaves"), composes, batch.row("depths"))
