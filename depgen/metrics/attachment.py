"""Attachment scores of dependency trees: UAS and LAS.

Which tokens count is a mask that the caller must pass: treebanks differ in whether punctuation counts (UD: yes; the
older WSJ practice: no, by the gold tag), and a default would hide the choice.
"""

from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor


@dataclass(frozen=True)
class AttachmentCounts:
    """How many of the counted tokens have the right head, and the right head and relation.

    Attributes:
        heads: tokens whose predicted head is the gold head.
        labels: of those, the ones whose relation is the gold relation too; None when no relations were given.
        tokens: tokens counted.
    """

    heads: int
    labels: int | None
    tokens: int

    @property
    def uas(self) -> float:
        """Percentage of tokens with the right head; NaN without any token."""
        return _percentage(self.heads, self.tokens)

    @property
    def las(self) -> float:
        """Percentage of tokens with the right head and relation; NaN without any token or without relations."""
        return float("nan") if self.labels is None else _percentage(self.labels, self.tokens)


def _percentage(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else float("nan")


def attachment_counts(
    predicted_heads: Int[Tensor, "*shape"],
    gold_heads: Int[Tensor, "*shape"],
    mask: Bool[Tensor, "*shape"],
    *,
    predicted_relations: Int[Tensor, "*shape"] | None = None,
    gold_relations: Int[Tensor, "*shape"] | None = None,
) -> AttachmentCounts:
    """Counts of right heads and right labelled heads among the tokens under the mask.

    Heads are 1-based, 0 = root; relations are ids in one numbering. Padding and unannotated tokens (head -1) must be
    False in the mask.

    >>> import torch
    >>> counts = attachment_counts(torch.tensor([2, 0, 2]), torch.tensor([2, 0, 1]), torch.tensor([True] * 3))
    >>> round(counts.uas, 2)
    66.67
    """
    unannotated = int((mask & (gold_heads < 0)).sum())
    if unannotated:
        raise ValueError(f"{unannotated} tokens under the mask have no gold head (-1): mask them out.")
    right = mask & (predicted_heads == gold_heads)
    labels = None
    if predicted_relations is not None and gold_relations is not None:
        labels = int((right & (predicted_relations == gold_relations)).sum())
    return AttachmentCounts(int(right.sum()), labels, int(mask.sum()))
