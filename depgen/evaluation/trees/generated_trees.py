"""Trees that came with generated texts against those that a parser gives to the same words.

Casas et al. (2020), Table 6. The parser's trees are binarised as the generated ones are. Words of nothing but Unicode
punctuation do not count. A system that has learnt from a parser's trees agrees with that parser more than with another:
name one that was trained apart too.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from depgen.errors import UserError
from depgen.metrics.attachment import attachment, compared_words
from depgen.trees.annotator import Annotator
from depgen.trees.binarization import Binarization, binary_dependencies, depths, lifted, written_tree
from depgen.trees.punctuation import is_punctuation
from depgen.trees.sentence import Sentence


def sentence_of(text: str, structure: Mapping[str, Any]) -> Sentence:
    """A generated text with its tree."""
    words = tuple(text.split())
    if len(structure.get("heads", ())) != len(words):
        raise UserError("Expected texts with a tree over their words, found one over others, such as pieces of words.")
    return Sentence(words, tuple(structure["heads"]), tuple(structure["relations"]))


def agreement(found: Sequence[Sentence], other: Sequence[Sentence], binarization: Binarization) -> dict[str, float]:
    """UAS, LAS and UDA of two trees over the same words, both binarised.

    >>> from depgen.trees.sentence import Sentence
    >>> one = Sentence(("a", "b", "c"), (2, 0, 2), ("det", "root", "obj"))
    >>> two = Sentence(("a", "b", "c"), (2, 0, 2), ("det", "root", "obl"))
    >>> round(agreement([one], [two], "left-right")["las"], 1)
    66.7
    """

    def written(sentences: Sequence[Sentence]) -> Iterator[Sentence]:
        for sentence in sentences:
            heads, relations = _written(sentence, binarization)
            yield Sentence(sentence.words, tuple(heads.tolist()), tuple(relations))

    words = compared_words([*written(found)], [*written(other)])
    is_word = [not each for sentence in found for each in is_punctuation(sentence, "form")]
    return attachment(words[np.array(is_word, dtype=bool)])


def reparsed(sentences: Sequence[Sentence], annotator: Annotator) -> list[Sentence]:
    """The same words with the trees of an annotator."""
    return annotator.annotate([Sentence(each.words) for each in sentences])


def levels_per_token(sentences: Sequence[Sentence], binarization: Binarization) -> float:
    """The mean over sentences of the number of levels over that of tokens, of binarised trees."""
    ratios = [float(depths(_written(each, binarization)[0]).max()) / len(each) for each in sentences if len(each)]
    return float(np.mean(ratios)) if ratios else float("nan")


SHAPES = ("length", "depth", "steps_balanced", "steps_tree", "steps_binarized")
"""The numbers of `shapes`."""


def shapes(sentences: Sequence[Sentence]) -> dict[str, Float[np.ndarray, " sentences"]]:
    """Words, levels of the binarised tree, and levels over words of three trees; Section 6 of Casas et al. (2020).

    The trees are the binary one of least depth, the sentence's as it is, and the sentence's binarised.

    Args:
        sentences: with trees and at least one word.

    >>> found = shapes([Sentence(("my", "dog", "also", "likes", "eating", "sausage"), (2, 4, 4, 0, 4, 5))])
    >>> {name: round(float(values[0]), 2) for name, values in found.items()}
    {'length': 6.0, 'depth': 3.0, 'steps_balanced': 0.5, 'steps_tree': 0.5, 'steps_binarized': 0.5}
    """
    words = np.array([len(each) for each in sentences], dtype=np.float64)
    plain, binary = (
        np.array([depths(heads).max() for heads in trees], dtype=np.float64)
        for trees in (
            [each.heads or () for each in sentences],
            [binary_dependencies(lifted(each.heads or ())) for each in sentences],
        )
    )
    balanced = np.floor(np.log2(words)) + 1
    return dict(zip(SHAPES, (words, binary, balanced / words, plain / words, binary / words), strict=True))


def relations_per_sentence(sentences: Sequence[Sentence], relation: str) -> float:
    """The mean number of words with a relation; subtypes, such as `amod:x`, count."""
    counts = [sum(each.split(":")[0] == relation for each in sentence.relations or ()) for sentence in sentences]
    return float(np.mean(counts)) if counts else float("nan")


def _written(sentence: Sentence, binarization: Binarization) -> tuple[np.ndarray, list[str]]:
    if sentence.heads is None or sentence.relations is None:
        raise UserError("Expected sentences with trees and relations, found one without.")
    return written_tree(sentence.heads, sentence.relations, binarization)
