"""Annotators that parse nothing: a corpus's own trees, those of a treebank, and the controls of ablations.

Controls show whether it is syntax that helps: chains, random trees, trees of a shape alone, graphs of other sentences.
"""

import hashlib
import logging
import operator
import random
from abc import abstractmethod
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from heapq import heapify, heappop, heappush
from itertools import accumulate, chain
from typing import Any, Literal

from depgen.data.corpus import SPLITS, Corpus
from depgen.data.steps import LEAVE_OUT, partners
from depgen.errors import UserError
from depgen.locations import lines_sha256
from depgen.trees.annotator import FIELDS, Annotator, Rearranger, SentenceError, Structure
from depgen.trees.binarization import binary_dependencies, depths, lifted
from depgen.trees.sentence import Constituent, Sentence

logger = logging.getLogger(__name__)


class _WithSettings(Annotator):
    """An annotator whose trees depend on some settings, and maybe on another annotator.

    Attributes:
        settings: everything that the trees depend on.
        annotator: the other one.
    """

    settings: tuple[str, ...]
    annotator: Annotator | None = None

    def fingerprint(self) -> str:
        """Of the settings and of the other annotator."""
        return lines_sha256([*self.settings, *([self.annotator.fingerprint()] if self.annotator else [])])


# -- trees that are known -----------------------------------------------------------------------------------------


class GoldTrees(_WithSettings):
    """Keeps the trees or graphs that the corpus itself brings.

    Args:
        scheme: the annotation scheme of the corpus, named in every result that depends on it.
        structure: whether sentences need heads, edges, or constituents; those with edges may have heads too.
    """

    def __init__(self, scheme: str = "the corpus's own trees", structure: Structure = "tree") -> None:
        self.scheme, self.structure = scheme, structure
        self.self_loops = structure == "graph"  # the corpus's reader has refused those that are none of its graphs
        self.kept = {"tree": "trees", "graph": "graphs", "constituency": "constituents"}[structure]
        self.settings = (f"gold {self.kept}", "1")  # the trees are part of the corpus's own fingerprint

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences as they are; relations are `_` where the corpus has only heads.

        Raises:
            SentenceError: a sentence has no heads, or no edges or constituents where these are wanted.
        """
        field = FIELDS[self.structure]
        lacking = [number for number, sentence in enumerate(sentences, start=1) if getattr(sentence, field) is None]
        if lacking:
            remedy = f"{LEAVE_OUT}. " if len(lacking) < len(sentences) else ""
            raise SentenceError(
                lacking[0],
                f"GoldTrees keeps a corpus's own {self.kept}, but this sentence has none: "
                f"{' '.join(sentences[lacking[0] - 1].words[:8])!r}, and so do {len(lacking)} of the {len(sentences)} "
                f"sentences read with it. {remedy}If the corpus has none, name an annotator that parses, such as "
                "depgen.annotation.spacy.SpacyAnnotator. Graphs of CoNLL-U are read with graphs: true.",
            )
        return [
            sentence if sentence.heads is None else replace(sentence, relations=_relations_of(sentence))
            for sentence in sentences
        ]


def _relations_of(sentence: Sentence) -> tuple[str, ...]:
    return sentence.relations or ("_",) * len(sentence)


class KnownTrees(Annotator):
    """Gives a sentence the tree that a treebank has for the same words; others another annotator's, or none at all.

    A corpus that repeats a treebank's sentences without their trees gets them back so: the language-modelling Penn
    Treebank from the sample of the Wall Street Journal, by the step `depgen.data.steps.Normalized`. Sentences of
    the same words get the same tree, the first in the treebank.

    Args:
        treebank: where the trees are known from.
        otherwise: what parses sentences that it lacks; None refuses them.
        leave_unknown: in place of parsing, leave them without a tree, heads of -1 alone, for systems that learn from
            few trees and much text (UDGN's `supervised_weight`).
    """

    def __init__(self, treebank: Corpus, otherwise: Annotator | None = None, leave_unknown: bool = False) -> None:
        self.treebank, self.otherwise, self.leave_unknown = treebank, otherwise, leave_unknown
        self.leaves_out = leave_unknown or (otherwise is not None and otherwise.leaves_out)
        self.scheme = f"{treebank.name}, its own trees"
        if otherwise is not None or leave_unknown:
            self.scheme += f"; other sentences: {'no trees' if otherwise is None else otherwise.scheme}"

    def fingerprint(self) -> str:
        """Of the treebank and of the other annotator."""
        other = "none" if self.otherwise is None else self.otherwise.fingerprint()
        left = ["unknown sentences left"] if self.leave_unknown else []
        return lines_sha256(["known trees", *map(self.treebank.fingerprint, SPLITS), other, *left])

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with trees; relations are `_` where the treebank has only heads, and where no tree is given.

        Raises:
            SentenceError: the treebank lacks a sentence that is not to be left and no other annotator is named, or that
                one refuses it.
        """
        unknown = [place for place, sentence in enumerate(sentences) if sentence.words not in self._trees]
        try:
            others = dict(zip(unknown, self._unknown([sentences[place] for place in unknown]), strict=True))
        except SentenceError as error:
            raise SentenceError(unknown[error.number - 1] + 1, error.complaint) from error
        return [
            others[place] if place in others else replace(sentence, **self._trees[sentence.words])
            for place, sentence in enumerate(sentences)
        ]

    def _unknown(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """What sentences get that the treebank lacks."""
        if self.leave_unknown:
            return [replace(each, heads=(-1,) * len(each), relations=("_",) * len(each)) for each in sentences]
        if sentences and self.otherwise is None:
            raise SentenceError(
                1,
                f"{self.treebank.name} has no tree for {' '.join(sentences[0].words[:8])!r}; name an annotator under "
                "`otherwise`, or, for a system that needs no tree of every sentence, set `leave_unknown: true`.",
            )
        return self.otherwise.annotate(sentences) if sentences and self.otherwise is not None else []

    @cached_property
    def _trees(self) -> Mapping[tuple[str, ...], dict[str, Any]]:
        """Heads and relations by the words of a sentence."""
        trees: dict[tuple[str, ...], dict[str, Any]] = {}
        for document in chain.from_iterable(map(self.treebank.documents, SPLITS)):
            for sentence in document.sentences:
                if sentence.heads is None:
                    place = f"{document.identifier} of {self.treebank.name}"
                    raise UserError(f"{place}: expected heads, found none. {LEAVE_OUT}.")
                trees.setdefault(sentence.words, {"heads": sentence.heads, "relations": _relations_of(sentence)})
        return trees


# -- trees by the words alone, or by the shape of others ----------------------------------------------------------


class Control(_WithSettings):
    """Gives each sentence a tree with one label that says nothing of syntax, or only of its shape."""

    @abstractmethod
    def _heads(self, sentence: Sentence) -> Sequence[int]:
        """Heads (1-based, 0 = root) of a sentence."""

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with such trees; the same words get the same tree whatever is around them."""
        given = self.annotator.annotate(sentences) if self.annotator else sentences
        return [sentence.with_heads(self._heads(sentence)) for sentence in given]


class LeftChain(Control):
    """Each word hangs on the word before it; the first is the root.

    The later dependents of every position are then just the next word, so that dependency modelling (DMLM, Eq. 1) is
    plain next-word prediction. Within a sentence, that is: a story whose sentences are joined by their roots starts
    five chains at BOS; join by `previous_sentence`, or annotate whole documents, for one chain through the story.

    >>> LeftChain().annotate([Sentence(("she", "went", "home"))])[0].heads
    (0, 1, 2)
    """

    scheme, settings = "left chain", ("left chain", "1")

    def _heads(self, sentence: Sentence) -> Sequence[int]:
        return range(len(sentence))


class RightChain(Control):
    """Each word hangs on the word after it; the last is the root.

    The later dependents of a word are again the next word, but those of BOS are the last word instead of the first.

    >>> RightChain().annotate([Sentence(("she", "went", "home"))])[0].heads
    (2, 3, 0)
    """

    scheme, settings = "right chain", ("right chain", "1")

    def _heads(self, sentence: Sentence) -> Sequence[int]:
        return [*range(2, len(sentence) + 1), 0][: len(sentence)]


class RandomTree(Control):
    """A uniformly random rooted tree over each sentence's words, mostly non-projective.

    Args:
        seed: another seed gives other trees.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.scheme = f"random tree, seed {seed}"
        self.settings = ("random tree, uniform", "1", str(seed))

    def _heads(self, sentence: Sentence) -> Sequence[int]:
        return random_tree(len(sentence), _generator(self.seed, sentence))


def _generator(seed: int, sentence: Sentence) -> random.Random:
    """Random numbers that depend on a seed and a sentence's words."""
    return random.Random(hashlib.sha256("\0".join([str(seed), *sentence.words]).encode()).digest())


def random_tree(length: int, generator: random.Random) -> list[int]:
    """Heads (1-based, 0 = root) of a tree drawn uniformly from the n^(n-1) labelled trees with one root.

    A random Prüfer sequence gives the tree without its root: the least leaf hangs on the first node of the sequence,
    and so on; the two nodes that remain are joined. The root is drawn last.
    """
    if length <= 1:
        return [0] * length
    code = [generator.randrange(length) for _ in range(length - 2)]
    occurrences = Counter(code)
    leaves = [node for node in range(length) if node not in occurrences]
    heapify(leaves)
    neighbours: list[list[int]] = [[] for _ in range(length)]
    for step in range(length - 1):
        leaf = heappop(leaves)
        node = code[step] if step < len(code) else heappop(leaves)
        neighbours[leaf].append(node)
        neighbours[node].append(leaf)
        occurrences[node] -= 1
        if not occurrences[node]:
            heappush(leaves, node)
    root = generator.randrange(length)
    heads = [-1] * length
    heads[root] = 0
    above = [root]
    while above:
        head = above.pop()
        for dependent in neighbours[head]:
            if heads[dependent] < 0:
                heads[dependent] = head + 1
                above.append(dependent)
    return heads


class BalancedTrees(Control):
    """Binary trees of the least depth: the middle word is the root, and so on at both sides.

    >>> BalancedTrees().annotate([Sentence(("a", "b", "c", "d", "e"))])[0].heads
    (2, 3, 0, 5, 3)
    """

    scheme = "balanced trees"
    settings: tuple[str, ...] = ("balanced trees 1",)

    def _heads(self, sentence: Sentence) -> Sequence[int]:
        heads = [0] * len(sentence)
        spans = [(0, len(sentence), 0)]
        while spans:
            first, stop, head = spans.pop()
            if first < stop:
                middle = (first + stop) // 2
                heads[middle] = head
                spans += [(first, middle, middle + 1), (middle + 1, stop, middle + 1)]
        return heads


class OneLabel(Control):
    """The trees of an annotator, binarised, with one label: the shape of syntax without its relations.

    Args:
        annotator: gives the trees.
    """

    settings: tuple[str, ...] = ("one label 1",)

    def __init__(self, annotator: Annotator) -> None:
        self.annotator = annotator
        self.scheme = f"{annotator.scheme}, one label"

    def _heads(self, sentence: Sentence) -> Sequence[int]:
        """Those of the sentence's tree, made projective and binary."""
        assert sentence.heads is not None
        return [int(head) for head in binary_dependencies(lifted(sentence.heads))]


class RandomShapes(OneLabel):
    """Random binary trees, uniform over those that are as deep as the annotator's binarised tree; one label.

    All are projective and have one root and at most one dependent at each side of a word.

    Args:
        annotator: gives the depths.
        seed: another seed gives other trees.
    """

    def __init__(self, annotator: Annotator, seed: int = 0) -> None:
        self.annotator, self.seed = annotator, seed
        self.scheme = f"random trees as deep as {annotator.scheme}, seed {seed}"
        self.settings = ("random shapes 1", str(seed))

    def _heads(self, sentence: Sentence) -> Sequence[int]:
        depth = int(depths(super()._heads(sentence)).max(initial=0))
        return random_heads(len(sentence), depth, _generator(self.seed, sentence))


@cache
def binary_trees(words: int, depth: int) -> int:
    """The number of binary trees over some words that have at most a depth; O(words) a new pair.

    >>> [binary_trees(3, depth) for depth in (1, 2, 3)]
    [0, 1, 5]
    """
    if words == 0:
        return 1
    if depth <= 0:
        return 0
    return sum(binary_trees(left, depth - 1) * binary_trees(words - 1 - left, depth - 1) for left in range(words))


def _trees(words: int, depth: int, exact: bool) -> int:
    """The number of binary trees of a depth, or of at most this depth; no words are a tree of depth 0."""
    at_most = binary_trees(words, depth) if depth >= 0 else 0
    return at_most - (binary_trees(words, depth - 1) if depth > 0 else 0) if exact else at_most


def random_heads(words: int, depth: int, generator: random.Random) -> list[int]:
    """Heads of a tree drawn uniformly from the binary trees over these words of exactly this depth.

    >>> random_heads(3, 2, random.Random(0))
    [2, 0, 2]
    """
    heads = [0] * words
    spans = [(0, words, 0, depth, True)]  # first word, words, their head, and the depth or the most that it may be
    while spans:
        first, count, head, most, exact = spans.pop()
        if not count:
            continue
        below, less, least = (most - 1, True), (most - 2, False), (most - 1, False)
        sides = [(below, below), (below, less), (less, below)] if exact else [(least, least)]
        choices = [(root, *pair) for root in range(count) for pair in sides]
        weights = [_trees(root, *left) * _trees(count - 1 - root, *right) for root, left, right in choices]
        sums = list(accumulate(weights))
        root, left, right = choices[bisect_right(sums, generator.randrange(sums[-1]))]
        heads[first + root] = head
        spans.append((first, root, first + root + 1, *left))
        spans.append((first + root + 1, count - 1 - root, first + root + 1, *right))
    return heads


# -- constituents and graphs -------------------------------------------------------------------------------------


class Branching(_WithSettings):
    """Constituents of two words or more that branch to one side only: (a (b c)) or ((a b) c), labelled `X`.

    Args:
        side: where the larger part is.

    >>> Branching("right").annotate([Sentence(("she", "went", "home"))])[0].spans
    ((0, 3, 'X'), (1, 3, 'X'))
    """

    structure = "constituency"

    def __init__(self, side: Literal["left", "right"] = "right") -> None:
        self.side = side
        self.scheme, self.settings = f"{side} branching", ("branching constituents", "1", side)

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with such constituents."""
        return [replace(sentence, spans=tuple(self._spans(len(sentence)))) for sentence in sentences]

    def _spans(self, length: int) -> list[Constituent]:
        if self.side == "right":
            return [(start, length, "X") for start in range(length - 1)]
        return [(0, end, "X") for end in range(length, 1, -1)]


class GraphsOfOtherSentences(_WithSettings, Rearranger):
    """Gives each sentence the graph that another annotator gives to another sentence of the same split and length.

    The statistics of the graphs stay, but they say nothing about the words: what such graphs gain is not due to syntax.

    Within a length every graph is used once, so that the graphs of the split stay the same as a whole. A sentence whose
    length no other has gets the graph of a sentence of the nearest length, the longer of two; edges of words that the
    sentence lacks are left out, and words that the graph lacks have no edges. The log says how many there are. Trees,
    which the other annotator may give too, are removed.

    Args:
        annotator: gives the graphs; with `GoldTrees` and `structure: graph`, those of the corpus.
        seed: another seed draws other sentences.
    """

    structure = "graph"
    annotator: Annotator

    def __init__(self, annotator: Annotator, seed: int = 0) -> None:
        self.annotator, self.seed = annotator, seed
        self.leaves_out, self.self_loops = annotator.leaves_out, annotator.self_loops
        self.scheme = f"{annotator.scheme}; graphs of other sentences, seed {seed}"
        self.settings = ("graphs of other sentences", "1", str(seed))

    def rearranged(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences, which bring graphs, with graphs of one another.

        Raises:
            SentenceError: there is one sentence alone.
        """
        rearranged, lost = [], 0
        givers, alone = graph_givers([len(sentence) for sentence in sentences], random.Random(self.seed))
        for sentence, giver in zip(sentences, givers, strict=True):
            edges = sentences[giver].edges
            if edges is not None:
                edges = tuple(edge for edge in edges if max(edge[:2]) <= len(sentence))
                lost += len(sentences[giver].edges or ()) - len(edges)
            rearranged.append(replace(sentence, heads=None, relations=None, edges=edges))
        logger.info(
            "%s: of %d sentences, %d are the only ones of their length (%d edges left out)",
            self.scheme, len(sentences), alone, lost,
        )  # fmt: skip
        return rearranged


class TreesOfOtherSentences(_WithSettings, Rearranger):
    """Gives each sentence the tree that another annotator gives to another sentence of the split: see `partners`.

    The length stays, the tree is another one, and each is used once: the statistics of the trees stay as they are, but
    they say nothing about the words. The corpus has the step `depgen.data.steps.WithPartners`.

    Args:
        annotator: gives the trees.
        seed: another seed draws other sentences.
    """

    annotator: Annotator

    def __init__(self, annotator: Annotator, seed: int = 0) -> None:
        self.annotator, self.seed = annotator, seed
        self.scheme = f"{annotator.scheme}; trees of other sentences, seed {seed}"
        self.settings = ("trees of other sentences", "1", str(seed))

    def rearranged(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences, which bring trees, with trees of one another; a sentence without a partner keeps its own.

        The log says how many heads are the same as before.
        """
        rearranged, same = [], 0
        givers = partners(sentences, self.seed)
        for sentence, giver in zip(sentences, givers, strict=True):
            other = sentence if giver is None else sentences[giver]
            rearranged.append(replace(sentence, heads=other.heads, relations=other.relations, edges=None))
            same += sum(map(operator.eq, sentence.heads or (), other.heads or ()))
        logger.info(
            "%s: %.1f %% of the heads of %d sentences are their own; %d sentences keep their trees",
            self.scheme, 100 * same / max(1, sum(map(len, sentences))), len(sentences), givers.count(None),
        )  # fmt: skip
        return rearranged


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
