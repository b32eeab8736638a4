"""Attachment scores of a parser against gold trees."""

import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from depgen.trees.sentence import Sentence


@dataclass(frozen=True)
class ParserScores:
    """How a parser did on sentences with gold words; shares in per cent of words.

    Attributes:
        uas: words with the right head, punctuation included.
        las: words with the right head and relation, punctuation included.
        uas_without_punctuation: over words whose gold relation is not `punct`.
        las_without_punctuation: the like.
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


def is_punctuation(word: str) -> bool:
    """Whether a word has nothing but punctuation characters.

    >>> is_punctuation("..."), is_punctuation("'s"), is_punctuation("")
    (True, False, False)
    """
    return bool(word) and all(unicodedata.category(character).startswith("P") for character in word)


def attachment_scores(
    gold: Sequence[Sentence], predicted: Sequence[Sentence], *, seconds: float | None = None
) -> ParserScores:
    """UAS and LAS in per cent over all words (micro average), with and without gold relation `punct`.

    Relation subtypes count: `nmod:poss` is not `nmod`.
    """
    names = ("words", "uas", "las", "content", "uas_content", "las_content", "tags", "tagged")
    counts = dict.fromkeys(names, 0)
    for reference, guess in zip(gold, predicted, strict=True):
        gold_heads, gold_relations = _tree(reference)
        heads, relations = _tree(guess)
        assert reference.words == guess.words
        if reference.tags is not None and guess.tags is not None:
            counts["tagged"] += len(reference)
            counts["tags"] += sum(a == b for a, b in zip(reference.tags, guess.tags, strict=True))
        for index, relation in enumerate(gold_relations):
            attached = gold_heads[index] == heads[index]
            labelled = attached and relation == relations[index]
            counts["words"] += 1
            counts["uas"] += attached
            counts["las"] += labelled
            if relation.split(":")[0] != "punct":
                counts["content"] += 1
                counts["uas_content"] += attached
                counts["las_content"] += labelled
    return _shares(counts, sentences=len(gold), seconds=seconds)


def _tree(sentence: Sentence) -> tuple[tuple[int, ...], tuple[str, ...]]:
    assert sentence.heads is not None
    assert sentence.relations is not None
    return sentence.heads, sentence.relations


def _shares(counts: dict[str, int], *, sentences: int, seconds: float | None) -> ParserScores:
    words, content = max(1, counts["words"]), max(1, counts["content"])
    return ParserScores(
        uas=100 * counts["uas"] / words,
        las=100 * counts["las"] / words,
        uas_without_punctuation=100 * counts["uas_content"] / content,
        las_without_punctuation=100 * counts["las_content"] / content,
        tag_accuracy=100 * counts["tags"] / counts["tagged"] if counts["tagged"] else None,
        words=counts["words"],
        sentences=sentences,
        words_per_second=counts["words"] / seconds if seconds else float("nan"),
    )
