"""How trees are written level by level, and the sentences that are read so; see `depgen.data.levels`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from depgen.data.batch import TokenItem
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.trees.binarization import SUBWORD, Binarization, binarized, lifted, lossless_labels, restored_heads

ROOT = "ROOT"
"""The label of the root."""
PAD_EXPANSION, UNKNOWN_EXPANSION = 0, 1
"""Rows of the table of expansions: of words that are written already, and of expansions not seen in training."""
IrregularTrees = Literal["lift", "leave_out"]


@dataclass(frozen=True)
class TreeForm:
    """How trees are written, kept with the vocabulary.

    Attributes:
        binarization: see `depgen.trees.binarization`.
        lossless: labels say where a word hung before, so that trees are restored when texts are generated.
        irregular: what becomes of trees with crossing arcs or several roots: they are lifted, or left out.
    """

    binarization: Binarization = "left-right"
    lossless: bool = False
    irregular: IrregularTrees = "lift"

    def __post_init__(self) -> None:
        if self.lossless and self.binarization != "left-right":
            raise UserError(f"lossless: expected binarization left-right, found {self.binarization}.")

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "TreeForm":
        """The form that a vocabulary was built for.

        Raises:
            UserError: it was built for no trees.
        """
        if "trees" not in vocabulary.tables:
            raise UserError(
                "The vocabulary has no placeholders and no expansions: set data.init_args.vocabulary to "
                "depgen.data.levels.ExpansionVocabulary."
            )
        binarization, lossless, irregular = vocabulary.tables["trees"]
        return cls(binarization, lossless == "lossless", irregular)  # type: ignore[arg-type]

    def written(self, heads: Sequence[int] | np.ndarray, relations: Sequence[str]) -> tuple[np.ndarray, list[str]]:
        """Heads and labels of the tree that is written, of any tree over the same words."""
        regular = lifted(heads)
        found = binarized(regular, binarization=self.binarization)
        labels = lossless_labels(regular, found, relations) if self.lossless else list(relations)
        return found, [ROOT if head == 0 else label or SUBWORD for head, label in zip(found, labels, strict=True)]

    def restored(
        self, heads: Sequence[int], labels: Sequence[str]
    ) -> tuple[Sequence[int] | np.ndarray, list[str], bool]:
        """Heads and relations of the tree that is written as this one, if `lossless`; and whether its labels fit it."""
        if not self.lossless:
            return heads, list(labels), True
        try:
            return *restored_heads(heads, labels), True
        except UserError:
            return *restored_heads(heads, labels, strict=False), False


@dataclass(frozen=True)
class LevelItem:
    """A sentence with its tree, and the levels at which it is read.

    Attributes:
        sentence: the item; its heads are those of the tree that was annotated.
        levels: 1 is the level of the root; None: all.
        weight: factor of its loss.
    """

    sentence: TokenItem
    levels: tuple[int, ...] | None = None
    weight: float = 1.0
