"""Attachment scores of dependency trees: UAS, LAS and UDA.

Which words count is the caller's choice: treebanks differ in whether punctuation does (UD: yes; the older WSJ practice:
no, by the gold tag).
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from depgen.trees.punctuation import Punctuation, is_punctuation
from depgen.trees.sentence import Sentence


@dataclass(frozen=True)
class ComparedWord:
    """What is known of a word that has a head in two trees.

    Attributes:
        relation: the gold one, `_` where the gold tree has none.
        length: words of its sentence.
        is_punctuation: whether the gold tree, or the word's form, says so.
        head: whether the heads are the same.
        labelled: whether the relations are the same too, subtypes included; NaN where a tree has no relations.
        pair: whether the other tree has an arc between the word and its gold head in either direction.
    """

    relation: str
    length: int
    is_punctuation: bool
    head: bool
    labelled: float
    pair: bool


def compared_words(gold: Sentence, other: Sentence, punctuation: Punctuation) -> Iterator[ComparedWord]:
    """The words of a sentence that has two trees."""
    assert gold.words == other.words
    assert gold.heads is not None
    assert other.heads is not None
    arcs = {_pair(word, head) for word, head in enumerate(other.heads, start=1)}
    relations, others = (tree.relations or ("_",) * len(gold) for tree in (gold, other))
    has_relations = gold.relations is not None and other.relations is not None
    left_out = is_punctuation(gold, punctuation)
    for place, (head, found) in enumerate(zip(gold.heads, other.heads, strict=True)):
        same = head == found
        yield ComparedWord(
            relation=relations[place],
            length=len(gold),
            is_punctuation=left_out[place],
            head=same,
            labelled=same and relations[place] == others[place] if has_relations else float("nan"),
            pair=_pair(place + 1, head) in arcs,
        )


def _pair(word: int, head: int) -> tuple[int, int]:
    """A word and its head, whichever is which; a root is paired with 0."""
    return min(word, head), max(word, head)


@dataclass(frozen=True)
class Attachment:
    """Per cent of words (micro average): NaN without any word, and LAS where a tree has no relations.

    Attributes:
        words: that were compared.
        uas: those with the right head; roots count, as in DDA.
        las: those with the right head and relation.
        uda: those whose gold pair of word and head the other tree has in either direction.
    """

    words: int
    uas: float
    las: float
    uda: float

    @classmethod
    def of(cls, words: Collection[ComparedWord]) -> "Attachment":
        """The scores of the words that count.

        >>> one, other = Sentence(("a", "b", "."), (2, 0, 2)), Sentence(("a", "b", "."), (2, 0, 1))
        >>> scores = Attachment.of(list(compared_words(one, other, "form")))
        >>> round(scores.uas, 2), scores.las
        (66.67, nan)
        """

        def share(right: float) -> float:
            return 100 * right / len(words) if words else float("nan")

        return cls(
            len(words),
            share(sum(word.head for word in words)),
            share(sum(word.labelled for word in words)),
            share(sum(word.pair for word in words)),
        )
