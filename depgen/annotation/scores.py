"""Scores of a parser against gold trees, graphs or constituents."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from depgen.metrics.attachment import attachment, compared_words
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
        """One line: UAS and LAS with and without punctuation, sizes and speed."""
        return (
            f"UAS {self.uas:.2f}, LAS {self.las:.2f}; without punctuation UAS {self.uas_without_punctuation:.2f}, "
            f"LAS {self.las_without_punctuation:.2f}; {_sizes(self.sentences, self.words, self.words_per_second)}"
        )

    def as_dict(self) -> dict[str, Any]:
        """The fields, for a JSON file."""
        return asdict(self)


@dataclass(frozen=True)
class LabelledScores:
    """How a parser did that finds edges of graphs, or constituents; precision, recall and F1 in per cent.

    Unlabelled, a pair of words (or a span) counts once, whatever number of labels it has.

    Attributes:
        unlabelled_precision: found pairs that are in the gold graphs.
        unlabelled_recall: gold pairs that are found.
        unlabelled_f1: the harmonic mean of the two.
        labelled_precision: found pairs that have the right label too.
        labelled_recall: gold pairs that are found with their label.
        labelled_f1: the harmonic mean of the two.
        gold: labelled pairs to be found.
        found: labelled pairs found.
        words: how many words were parsed.
        sentences: how many sentences.
        words_per_second: speed of the parser alone.
    """

    unlabelled_precision: float
    unlabelled_recall: float
    unlabelled_f1: float
    labelled_precision: float
    labelled_recall: float
    labelled_f1: float
    gold: int
    found: int
    words: int
    sentences: int
    words_per_second: float

    def summary(self) -> str:
        """One line: F1, precision and recall without labels and with them, sizes and speed."""
        return (
            f"unlabelled F1 {self.unlabelled_f1:.2f} (precision {self.unlabelled_precision:.2f}, "
            f"recall {self.unlabelled_recall:.2f}), labelled F1 {self.labelled_f1:.2f} "
            f"(precision {self.labelled_precision:.2f}, recall {self.labelled_recall:.2f}); "
            f"{self.found} found of {self.gold} gold, {_sizes(self.sentences, self.words, self.words_per_second)}"
        )

    def as_dict(self) -> dict[str, Any]:
        """The fields, for a JSON file."""
        return asdict(self)


def _sizes(sentences: int, words: int, words_per_second: float) -> str:
    return f"{sentences} sentences, {words} words, {words_per_second:,.0f} words/s"


AnyScores = ParserScores | LabelledScores


def summary_of(scores: Mapping[str, Any]) -> str:
    """The line of scores that `as_dict` has given.

    Raises:
        TypeError: they are not such scores.
    """
    kind = LabelledScores if "labelled_f1" in scores else ParserScores
    return kind(**scores).summary()


Labelled = tuple[int, int, str]
"""An edge (head, dependent, label) or a constituent (start, end, label)."""


def labelled_scores(
    gold: Sequence[Collection[Labelled]], found: Sequence[Collection[Labelled]], *, words: int, seconds: float
) -> LabelledScores:
    """Precision, recall and F1 over all sentences (micro average); 100 where there is nothing to find or found.

    Args:
        gold: what is to be found in each sentence.
        found: what the parser has found in each.
        words: how many words the sentences have.
        seconds: that the parser took.

    >>> scores = labelled_scores([[(0, 2, "root"), (2, 1, "nsubj")]], [[(2, 1, "obj")]], words=2, seconds=1.0)
    >>> scores.unlabelled_precision, scores.unlabelled_recall, scores.labelled_f1
    (100.0, 50.0, 0.0)
    """
    labelled, pairs = [0, 0, 0], [0, 0, 0]
    for reference, guess in zip(gold, found, strict=True):
        for counts, one, other in (
            (labelled, set(reference), set(guess)),
            (pairs, {item[:2] for item in reference}, {item[:2] for item in guess}),
        ):
            counts[0] += len(one & other)
            counts[1] += len(other)
            counts[2] += len(one)
    return LabelledScores(
        *_precision_recall_f1(*pairs), *_precision_recall_f1(*labelled), gold=labelled[2], found=labelled[1],
        words=words, sentences=len(gold), words_per_second=words / seconds if seconds else float("nan"),
    )  # fmt: skip


def _precision_recall_f1(right: int, found: int, gold: int) -> tuple[float, float, float]:
    """In per cent; 100 for a share of nothing."""
    parts = ((right, found), (right, gold), (2 * right, found + gold))
    precision, recall, f1 = (100 * part / whole if whole else 100.0 for part, whole in parts)
    return precision, recall, f1


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
    words = compared_words(gold, predicted)
    is_word = [not each for sentence in gold for each in is_punctuation(sentence, punctuation)]
    every, apart = attachment(words), attachment(words[is_word])
    return ParserScores(
        uas=every["uas"],
        las=every["las"],
        uas_without_punctuation=apart["uas"],
        las_without_punctuation=apart["las"],
        tag_accuracy=100 * sum(tags) / len(tags) if tags else None,
        words=len(words),
        sentences=len(gold),
        words_per_second=len(words) / seconds if seconds else float("nan"),
    )
