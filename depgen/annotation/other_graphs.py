"""The control of graph-based systems: each sentence gets the graph of another sentence of the same length.

The statistics of the graphs stay, but they say nothing about the words. What such graphs gain is not due to syntax.
"""

import logging
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from depgen.errors import UserError
from depgen.locations import lines_sha256
from depgen.seeds import checked_seed
from depgen.trees.annotator import (
    Annotator,
    SentenceError,
    Structure,
    has_self_loops,
    leaves_out,
    structure_of,
)
from depgen.trees.sentence import Sentence

logger = logging.getLogger(__name__)


class GraphsOfOtherSentences:
    """Gives each sentence the graph that another annotator gives to another sentence of the same split and length.

    Within a length every graph is used once, so that the graphs of the split stay the same as a whole. A sentence whose
    length no other has gets the graph of a sentence of the nearest length, the longer of two; edges of words that the
    sentence lacks are left out, and words that the graph lacks have no edges. The log says how many there are. Trees,
    which the other annotator may give too, are removed.

    Args:
        annotator: gives the graphs; with `GoldTrees` and `structure: graph`, those of the corpus.
        seed: another seed draws other sentences.

    Raises:
        UserError: the annotator gives trees alone, or a seed is out of range.
    """

    structure: Structure = "graph"

    def __init__(self, annotator: Annotator, seed: int = 0) -> None:
        if structure_of(annotator) != "graph":
            raise UserError(
                f"GraphsOfOtherSentences: expected an annotator that gives graphs, found one that gives trees "
                f"({annotator.scheme}). Name another, or set its structure: graph."
            )
        self.annotator, self.seed = annotator, checked_seed(seed)
        self.leaves_out, self.self_loops = leaves_out(annotator), has_self_loops(annotator)
        self.scheme = f"{annotator.scheme}; graphs of other sentences, seed {seed}"

    def fingerprint(self) -> str:
        """Of the seed and of the other annotator."""
        return lines_sha256(["graphs of other sentences", "1", str(self.seed), self.annotator.fingerprint()])

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with graphs of one another.

        Raises:
            SentenceError: there is one sentence alone, or the other annotator refuses one.
        """
        return self.rearranged(self.annotator.annotate(sentences))

    def rearranged(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences, which bring graphs, with graphs of one another.

        Raises:
            SentenceError: there is one sentence alone.
        """
        found, lost, same = [], 0, 0
        givers, alone = graph_givers([len(sentence) for sentence in sentences], random.Random(self.seed))
        for sentence, giver in zip(sentences, givers, strict=True):
            edges = sentences[giver].edges
            if edges is not None:
                edges = tuple(edge for edge in edges if max(edge[:2]) <= len(sentence))
                lost += len(sentences[giver].edges or ()) - len(edges)
            same += edges == sentence.edges
            found.append(replace(sentence, heads=None, relations=None, edges=edges))
        logger.info(
            "%s: of %d sentences, %d are the only ones of their length (%d edges left out); %d have the same graph as "
            "before by chance",
            self.scheme, len(sentences), alone, lost, same,
        )  # fmt: skip
        return found


def graph_givers(lengths: Sequence[int], generator: random.Random) -> tuple[list[int], int]:
    """The sentence whose graph each sentence gets, never itself; and how many sentences are alone in their length.

    Raises:
        SentenceError: there is one sentence alone.

    >>> graph_givers([3, 5, 3, 4], random.Random(0))
    ([2, 3, 0, 1], 2)
    """
    if len(lengths) == 1:
        raise SentenceError(1, "expected another sentence to take a graph from, found this one alone. Add sentences.")
    by_length: dict[int, list[int]] = defaultdict(list)
    for index, length in enumerate(lengths):
        by_length[length].append(index)
    givers = [0] * len(lengths)
    alone = sorted(length for length, indices in by_length.items() if len(indices) == 1)
    for indices in by_length.values():
        generator.shuffle(indices)
        for index, giver in zip(indices, [*indices[1:], indices[0]], strict=True):
            givers[index] = giver
    for length in alone:
        nearest = min(
            (other for other in by_length if other != length), key=lambda other: (abs(other - length), -other)
        )
        givers[by_length[length][0]] = generator.choice(by_length[nearest])
    return givers, len(alone)
