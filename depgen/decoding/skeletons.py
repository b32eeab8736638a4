"""Trees that are given, whose words are written: a file in CoNLL-U with `_` in place of the words to be written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from depgen.errors import UserError, did_you_mean
from depgen.trees.binarization import depths, expansions
from depgen.trees.conllu import read_conllu
from depgen.trees.sentence import Sentence

TO_BE_WRITTEN = "_"


@dataclass(frozen=True)
class Skeleton:
    """A tree in the form that is written.

    Attributes:
        depths: of its words.
        patterns: the expansion of each.
        words: the token of each that is given; -1 where it is to be written.
    """

    depths: Int[np.ndarray, " words"]
    patterns: Int[np.ndarray, " words"]
    words: Int[np.ndarray, " words"]


def read_skeletons(path: str | Path) -> list[Sentence]:
    """The sentences of a CoNLL-U file.

    Raises:
        UserError: there is no such file, it is no CoNLL-U, or a sentence has no tree.
    """
    place = Path(path)
    if not place.is_file():
        raise UserError(f"skeletons: expected a file in CoNLL-U, found none at {place}. Check the path.")
    found = [each for document in read_conllu(place, by_document=False) for each in document.sentences]
    for number, sentence in enumerate(found, start=1):
        if sentence.heads is None or sentence.relations is None:
            raise UserError(
                f"{place}: sentence {number}: expected heads and relations, found `_`. Give the whole tree."
            )
    return found


def skeleton_of(
    sentence: Sentence,
    rows: dict[tuple[str, ...], int],
    written: Callable[..., tuple[np.ndarray, list[str]]],
    token: Callable[[str], int],
) -> Skeleton:
    """A tree as it is written.

    Args:
        sentence: the tree, and its words or `_`.
        rows: places of expansions in the table.
        written: from heads and relations to those of the tree that is written.
        token: of a word that is given.

    Raises:
        UserError: an expansion or a word that the run has not.
    """
    heads, labels = written(sentence.heads, list(sentence.relations or ()))
    patterns = expansions(heads, labels)
    known = {label for row in rows for label in row}
    for word, (label, pattern) in enumerate(zip(labels, patterns, strict=True), start=1):
        if pattern not in rows:
            missing = next((each for each in pattern if each not in known), None)
            what = f"the relation {missing!r}.{did_you_mean(missing, sorted(known))}" if missing else " ".join(pattern)
            raise UserError(f"skeletons: word {word} ({label}): no expansion of this run is {what}")
    return Skeleton(
        depths(heads),
        np.array([rows[each] for each in patterns]),
        np.array([-1 if word == TO_BE_WRITTEN else token(word) for word in sentence.words]),
    )


def at_level(
    skeletons: Sequence[Skeleton], level: int, length: int, *, device: torch.device
) -> tuple[Int[Tensor, "rows length"], Int[Tensor, "rows length"]]:
    """The expansions of the words down to a level, and the words that are given (-1 elsewhere), padded."""
    patterns, words = (np.full((len(skeletons), length), -1) for _ in range(2))
    for row, each in enumerate(skeletons):
        kept = each.depths <= level
        patterns[row, : kept.sum()], words[row, : kept.sum()] = each.patterns[kept], each.words[kept]
    return torch.from_numpy(patterns).to(device), torch.from_numpy(words).to(device)
