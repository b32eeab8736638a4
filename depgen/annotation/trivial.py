"""Annotators that know no syntax, for ablations, and the one that keeps a corpus's own trees."""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from depgen.data.steps import LEAVE_OUT
from depgen.locations import lines_sha256
from depgen.trees.annotator import FIELDS, SentenceError, Structure
from depgen.trees.sentence import Constituent, Sentence


def _digest(*parts: object) -> str:
    return lines_sha256(map(str, parts))


class LeftChain:
    """Each word hangs on the word before it; the first is the root.

    The later dependents of every position are then just the next word, so that dependency modelling (DMLM, Eq. 1) is
    plain next-word prediction. Within a sentence, that is: a story whose sentences are joined by their roots starts
    five chains at BOS; join by `previous_sentence`, or annotate whole documents, for one chain through the story.

    >>> LeftChain().annotate([Sentence(("she", "went", "home"))])[0].heads
    (0, 1, 2)
    """

    scheme: str = "left chain"

    def fingerprint(self) -> str:
        """A constant: nothing to set."""
        return _digest("left chain", 1)

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with chains of heads 0, 1, 2, …"""
        return [sentence.with_heads(range(len(sentence))) for sentence in sentences]


class RightChain:
    """Each word hangs on the word after it; the last is the root.

    The later dependents of a word are again the next word, but those of BOS are the last word instead of the first.

    >>> RightChain().annotate([Sentence(("she", "went", "home"))])[0].heads
    (2, 3, 0)
    """

    scheme: str = "right chain"

    def fingerprint(self) -> str:
        """A constant: nothing to set."""
        return _digest("right chain", 1)

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with chains of heads 2, 3, …, 0."""
        return [sentence.with_heads([*range(2, len(sentence) + 1), 0][: len(sentence)]) for sentence in sentences]


class RandomTree:
    """A uniformly random rooted tree over each sentence's words, mostly non-projective.

    Uniform over all n^(n-1) labelled trees with a single root (a random Prüfer sequence, then a random root). The same
    words get the same tree whatever is around them: the generator is seeded by the seed and the words.

    Args:
        seed: another seed gives other trees.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.scheme = f"random tree, seed {seed}"

    def fingerprint(self) -> str:
        """Of the seed."""
        return _digest("random tree, uniform", 1, self.seed)

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with random trees."""
        return [sentence.with_heads(self._heads(sentence.words)) for sentence in sentences]

    def _heads(self, words: Sequence[str]) -> list[int]:
        seed = hashlib.sha256("\0".join([str(self.seed), *words]).encode()).digest()
        return random_tree(len(words), random.Random(seed))


def random_tree(length: int, generator: random.Random) -> list[int]:
    """Heads (1-based, 0 = root) of a tree drawn uniformly from the labelled trees with one root. O(n)."""
    if length <= 1:
        return [0] * length
    code = [generator.randrange(length) for _ in range(length - 2)]
    neighbours: list[list[int]] = [[] for _ in range(length)]
    for left, right in _edges_of_pruefer_code(code, length):
        neighbours[left].append(right)
        neighbours[right].append(left)
    root = generator.randrange(length)
    heads = [-1] * length
    heads[root] = 0
    stack = [root]
    while stack:
        node = stack.pop()
        for other in neighbours[node]:
            if heads[other] < 0:
                heads[other] = node + 1
                stack.append(other)
    return heads


def _edges_of_pruefer_code(code: Sequence[int], length: int) -> list[tuple[int, int]]:
    """The edges of the labelled tree with this Prüfer code (0-based nodes), in linear time."""
    degree = [1] * length
    for node in code:
        degree[node] += 1
    edges = []
    pointer = leaf = degree.index(1)
    for node in code:
        edges.append((leaf, node))
        degree[node] -= 1
        if degree[node] == 1 and node < pointer:
            leaf = node
        else:
            pointer += 1
            while degree[pointer] != 1:
                pointer += 1
            leaf = pointer
    edges.append((leaf, length - 1))
    return edges


class Branching:
    """Constituents that branch to one side only: (a (b c)) or ((a b) c), labelled `X`.

    Args:
        side: where the larger part is.

    >>> Branching("right").annotate([Sentence(("she", "went", "home"))])[0].spans
    ((0, 3, 'X'), (1, 3, 'X'))
    """

    structure: Structure = "constituency"

    def __init__(self, side: Literal["left", "right"] = "right") -> None:
        self.side = side
        self.scheme = f"{side} branching"

    def fingerprint(self) -> str:
        """Of the side."""
        return _digest("branching constituents", 1, self.side)

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with constituents of two words or more."""
        return [replace(sentence, spans=tuple(self._spans(len(sentence)))) for sentence in sentences]

    def _spans(self, length: int) -> list[Constituent]:
        if self.side == "right":
            return [(start, length, "X") for start in range(length - 1)]
        return [(0, end, "X") for end in range(length, 1, -1)]


class GoldTrees:
    """Keeps the trees or graphs that the corpus itself brings.

    Args:
        scheme: the annotation scheme of the corpus, named in every result that depends on it.
        structure: whether sentences need heads, edges, or constituents; those with edges may have heads too.
    """

    def __init__(self, scheme: str = "the corpus's own trees", structure: Structure = "tree") -> None:
        self.scheme, self.structure = scheme, structure
        self.self_loops = structure == "graph"  # the corpus's reader has refused those that are none of its graphs

    def fingerprint(self) -> str:
        """A constant for each structure: the trees are part of the corpus's own fingerprint."""
        return _digest({"tree": "gold trees", "graph": "gold graphs"}.get(self.structure, "gold constituents"), 1)

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences as they are; relations are `_` where the corpus has only heads.

        Raises:
            SentenceError: a sentence has no heads, or no edges or constituents where these are wanted.
        """
        needed = {"tree": "trees", "graph": "graphs"}.get(self.structure, "constituents")
        field = FIELDS[self.structure]
        lacking = [number for number, each in enumerate(sentences, start=1) if getattr(each, field) is None]
        if lacking:
            remedy = f"{LEAVE_OUT}. " if len(lacking) < len(sentences) else ""
            raise SentenceError(
                lacking[0],
                f"GoldTrees keeps a corpus's own {needed}, but this sentence has none: "
                f"{' '.join(sentences[lacking[0] - 1].words[:8])!r}, and so do {len(lacking)} of the {len(sentences)} "
                f"sentences read with it. {remedy}If the corpus has none, name an annotator that parses, such as "
                "depgen.annotation.spacy_parser.SpacyAnnotator. Graphs of CoNLL-U are read with graphs: true.",
            )
        bare = (sentence.heads is not None and sentence.relations is None for sentence in sentences)
        return [
            replace(sentence, relations=("_",) * len(sentence)) if is_bare else sentence
            for sentence, is_bare in zip(sentences, bare, strict=True)
        ]
