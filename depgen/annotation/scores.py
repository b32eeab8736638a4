"""Attachment scores of a parser against gold trees."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Int

from depgen.metrics.attachment import attachment_counts
from depgen.trees.punctuation import Punctuation, is_punctuation
from depgen.trees.sentence import Sentence


@dataclass(frozen=True)
class ParserScores:
    """How a parser did on sentences with gold words; shares in per cent of words.

    Attributes:
        uas: words with the right head, punctuation included.
        las: words with the right head and relation, punctuation included.
        uas_without_punctuation: words with the right head, of those that are no punctuation in the gold trees.
        las_without_punctuation: words with the right head and relation, of the same.
        tag_accuracy: words with the right tag among those with gold and own tags; None without any.
        words: how many words were compared, punctuation included.
        sentences: how many sentences.
        words_per_second: speed of the parser alone.
    """

    uas: float
    las: float
    uas_without_punctuation: float
    las_without_punctuation: float
    tag_accuracy: float | None
    words: int
    sentences: int
    words_per_second: float

    def summary(self) -> str:
        """One line: UAS and LAS with and without punctuation, and the speed."""
        return (
            f"UAS {self.uas:.2f}, LAS {self.las:.2f} (without punctuation {self.uas_without_punctuation:.2f}, "
            f"{self.las_without_punctuation:.2f}), {self.words_per_second:,.0f} words/s"
        )

    def as_dict(self) -> dict[str, Any]:
        """The fields, for a JSON file."""
        return asdict(self)


def attachment_scores(
    gold: Sequence[Sentence],
    predicted: Sequence[Sentence],
    *,
    punctuation: Punctuation = "relation",
    seconds: float | None = None,
) -> ParserScores:
    """UAS and LAS in per cent over all words (micro average), with and without punctuation.

    Relation subtypes count: `nmod:poss` is not `nmod`.

    Args:
        gold: sentences with the right trees.
        predicted: the same sentences with the parser's trees.
        punctuation: what is left out, by the gold trees.
        seconds: that the parser took.
    """
    tags = [
        own == gold_tag
        for reference, guess in zip(gold, predicted, strict=True)
        if reference.tags is not None and guess.tags is not None
        for gold_tag, own in zip(reference.tags, guess.tags, strict=True)
    ]
    assert all(reference.words == guess.words for reference, guess in zip(gold, predicted, strict=True))
    numbers: dict[str, int] = {}
    gold_heads, gold_relations = _tokens(gold, numbers)
    heads, relations = _tokens(predicted, numbers)
    content = ~torch.tensor(
        [each for sentence in gold for each in is_punctuation(sentence, punctuation)], dtype=torch.bool
    )
    every, apart = (
        attachment_counts(heads, gold_heads, mask, predicted_relations=relations, gold_relations=gold_relations)
        for mask in (torch.ones_like(content), content)
    )
    return ParserScores(
        uas=every.uas,
        las=every.las,
        uas_without_punctuation=apart.uas,
        las_without_punctuation=apart.las,
        tag_accuracy=100 * sum(tags) / len(tags) if tags else None,
        words=every.tokens,
        sentences=len(gold),
        words_per_second=every.tokens / seconds if seconds else float("nan"),
    )


def _tokens(
    sentences: Sequence[Sentence], numbers: dict[str, int]
) -> tuple[Int[torch.Tensor, " words"], Int[torch.Tensor, " words"]]:
    """Heads and relations of all words; relations are given numbers as they come."""
    heads: list[int] = []
    relations: list[int] = []
    for sentence in sentences:
        assert sentence.heads is not None
        assert sentence.relations is not None
        heads += sentence.heads
        relations += (numbers.setdefault(relation, len(numbers)) for relation in sentence.relations)
    return torch.tensor(heads, dtype=torch.long), torch.tensor(relations, dtype=torch.long)
