"""Bounds of how likely a text is under a system that gives a text and its tree a joint probability.

The probability of a sentence s is the sum of p(s, t) over all trees t. That of its gold tree alone is a lower bound. So
is, in expectation, the mean of p(s, t) / q(t) over trees drawn from q, a random field over labelled projective trees
with one root whose potentials are a parser's scores of arcs. Here t is a tree in the form that the system writes.
Binarisation makes one tree of several, so q(t) is the sum over all of them. A tree with a label or an expansion that
the system never writes has p(s, t) = 0.
"""

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64

from depgen.annotation.named_parser import parser_named
from depgen.annotation.supar_parser import SuparAnnotator
from depgen.data.levels import binarization_of
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.projective_trees import ROOT_RELATION, ProjectiveTrees, Tree
from depgen.errors import UserError, check_at_least
from depgen.evaluation.encoded_text import EncodedSentence, TextEncoder
from depgen.evaluation.likelihood.documents import tokens_at_once
from depgen.evaluation.likelihood.score_table import By, ScoredText, ScoreTable, Unit, without_clashes
from depgen.evaluation.likelihood.scored_text import Totals
from depgen.evaluation.reading import Reading
from depgen.evaluation.tabular import Row
from depgen.evaluation.text_documents import TextDocument
from depgen.evaluation.trained import Trained
from depgen.language_models.base import Likelihood
from depgen.progress import progress_bar
from depgen.trees.binarization import Binarization, numbered_through, written_tree
from depgen.trees.pieces import piece_tree
from depgen.trees.sentence import Sentence

logger = logging.getLogger(__name__)

Trees = Literal["gold", "sampled"]
TREE_COUNTS = ("distinct_trees", "impossible_trees")
SENTENCES_AT_ONCE = 32
"""Sentences whose distributions over trees are held at once."""


@runtime_checkable
class ScoresTrees(Protocol):
    """A system that gives a text and its tree a joint probability."""

    def tree_log_probs(
        self, texts: Sequence[Sequence[int]], trees: Sequence[Any], *, vocabulary: Vocabulary, tokens_per_batch: int
    ) -> Float64[np.ndarray, " texts"]:
        """Log p of each text together with its tree, in nats."""
        ...


def numbers_of(number: int) -> list[int]:
    """The numbers of trees that a bound is given for: powers of ten, and the last.

    >>> numbers_of(100), numbers_of(30)
    ([1, 10, 100], [1, 10, 30])
    """
    return [*(10**power for power in range(len(str(number))) if 10**power < number), number]


@dataclass(frozen=True)
class TreeBound:
    """A bound of a sentence's log-probability.

    Attributes:
        log_probs: the bound by the first 1, 10, … trees, and by all; nats.
        effective: effective sample sizes of these samples, (sum w)^2 / sum w^2 of their weights.
        distinct: trees in the form that the system writes.
        impossible: of these, how many have a label or an expansion that the system never writes.
    """

    log_probs: tuple[float, ...]
    effective: tuple[float, ...]
    distinct: int
    impossible: int

    @property
    def log_prob(self) -> float:
        """The bound by all trees."""
        return self.log_probs[-1]

    @classmethod
    def of_samples(
        cls,
        joint: Float64[np.ndarray, " distinct"],
        proposal: Float64[np.ndarray, " distinct"],
        drawn: Sequence[int],
    ) -> "TreeBound":
        """By importance sampling.

        Args:
            joint: log p of the sentence and each distinct tree.
            proposal: log q of each.
            drawn: of each sample the tree.
        """
        weights = (joint - proposal)[list(drawn)]
        log_probs, effective = [], []
        for number in numbers_of(len(weights)):
            highest = weights[:number].max()
            shares = np.exp(weights[:number] - highest) if highest > -np.inf else np.zeros(number)
            total = float(shares.sum())
            log_probs.append(float(highest) + math.log(total / number) if total else -math.inf)
            effective.append(total**2 / float((shares**2).sum()) if total else 0.0)
        return cls(tuple(log_probs), tuple(effective), len(joint), int((joint == -np.inf).sum()))


@dataclass(frozen=True)
class BoundedSentence:
    """A sentence with the bound of its log-probability; None where the system reads none of its words."""

    text: str
    place: str
    counts: Totals
    bound: TreeBound | None


@dataclass(frozen=True)
class TreeScores(ScoreTable[ScoredText[BoundedSentence]]):
    """Bounds of the log-probabilities of texts, in the order in which the texts were given.

    Sums are over the sentences that have a tree which the system can write. Others have the bound -inf and are counted.

    Attributes:
        texts: the sentences of each.
        trees: the sentences' own, or sampled ones.
        number_of_trees: of a sentence.
        parser: the scheme of the parser that they come from; None of gold trees.
        by: what a row of the table is: a sentence, a document, or all.
        unit: of the table's log-probabilities and surprisals.
    """

    trees: Trees
    number_of_trees: int
    parser: str | None
    by: By = "sentence"
    unit: Unit = "nats"
    likelihood: Likelihood = "bound"

    @property
    def sentences(self) -> list[BoundedSentence]:
        """Those of all texts."""
        return [sentence for text in self.texts for sentence in text.sentences]

    @property
    def totals(self) -> Totals:
        """The sums over all sentences that have a bound."""
        return _sums(self.sentences)

    def _of_each(self, text: ScoredText[BoundedSentence], places: Sequence[Row]) -> Iterator[Row]:
        for place, each in zip(places, text.sentences, strict=True):
            yield {**place, "place": each.place, **self._row(each.counts, [each]), "text": each.text}

    def _blank(self) -> ScoredText[BoundedSentence]:
        return ScoredText("", (BoundedSentence("", "", Totals(), None),))

    def _of_several(self, sentences: Sequence[BoundedSentence]) -> Row:
        without = sum(each.bound is not None and each.bound.log_prob == -math.inf for each in sentences)
        bounded = [each for each in sentences if each.bound is not None and each.bound.log_prob > -math.inf]
        counts = {"sentences": len(sentences), "sentences_without_trees": without}
        found = [each.bound for each in sentences if each.bound is not None]
        trees = {name: sum(getattr(each, name.partition("_")[0]) for each in found) for name in TREE_COUNTS}
        return counts | self._row(_sums(sentences), bounded) | trees  # trees of all sentences

    def _row(self, totals: Totals, sentences: Sequence[BoundedSentence]) -> Row:
        bounds = [each.bound for each in sentences if each.bound is not None]
        log_prob = totals.log_prob / self.scale if totals.tokens else None
        numbers = numbers_of(self.number_of_trees)
        row: Row = {
            "words": totals.words, "tokens": totals.tokens, "unknown": totals.unknown, "log_prob": log_prob,
            "surprisal": None if log_prob is None else -log_prob,
            **{name: each for name, each in totals.perplexities(self.likelihood).items() if "known" not in name},
            "likelihood": self.likelihood, "trees": self.trees, "number_of_trees": self.number_of_trees,
            "parser": self.parser, "unit": self.unit,
            **{name: sum(getattr(each, name.partition("_")[0]) for each in bounds) for name in TREE_COUNTS},
        }  # fmt: skip
        for place, number in enumerate(numbers):
            row[f"log_prob_{number}"] = sum(each.log_probs[place] for each in bounds) / self.scale if bounds else None
        for place, number in enumerate(numbers):
            sizes = [each.effective[place] for each in bounds]
            row[f"effective_{number}"] = sum(sizes) / len(sizes) if sizes else None
        return row


def _sums(sentences: Sequence[BoundedSentence]) -> Totals:
    """The sums over the sentences that have a bound; unread words of all."""
    sums = Totals()
    for each in sentences:
        sums.unread += each.counts.unread
        if each.counts.log_prob > -math.inf:
            for name in ("words", "tokens", "unknown", "log_prob"):
                setattr(sums, name, getattr(sums, name) + getattr(each.counts, name))
    return sums


@dataclass(frozen=True)
class TreeScorer:
    """Bounds the log-probabilities of documents, sentence by sentence.

    Attributes:
        trained: the system.
        reading: how sentences are given to it.
        trees: the sentences' own, or sampled ones.
        number: of trees that are drawn for a sentence.
        parser: the name of the parser that they are drawn from, see `depgen.annotation.named_parser`.
        seed: of the samples; those of a sentence depend on it and on the sentence's place among all.
        tokens_per_batch: tokens of the levels of trees that are read at once; None: see `tokens_at_once`. No score
            depends on it.
        progress: show a progress bar.
    """

    trained: Trained
    reading: Reading
    trees: Trees
    number: int
    parser: str
    seed: int = 0
    tokens_per_batch: int | None = None
    progress: bool = False

    def score(self, documents: Sequence[TextDocument], *, by: By, unit: Unit) -> TreeScores:
        """The documents with the bound of each sentence.

        Raises:
            UserError: the system gives trees no probability, there is no such parser, its arcs have no scores, a
                sentence is longer than the system reads, has no gold tree or words that are not read, or the seed is
                negative.
        """
        check_at_least(0, seed=self.seed)
        if not isinstance(self.trained.model, ScoresTrees):
            kind = type(self.trained.model).__name__
            raise UserError(f"trees are of systems that give texts with their trees a probability, not of {kind}.")
        if by == "word":
            raise UserError("Bounds over trees are of sentences, not of their words: leave out by, or take sentence.")
        annotator = None if self.trees == "gold" else self._annotator()
        number, scheme = (1, None) if annotator is None else (self.number, annotator.scheme)
        empty = TreeScores((), self.trees, number, scheme, by, unit)
        documents = without_clashes(documents, empty.columns())
        encoder = TextEncoder(self.trained, self.reading, as_one=False)
        read, _ = encoder.encoded(documents)  # refuses what is too long
        filled = [each for sentences in read for each in sentences if len(each.encoding.ids)]
        bounds = self._bounds(filled, annotator)
        found = tuple(
            ScoredText(
                document.identifier,
                tuple(
                    _bounded(each, place, next(bounds) if len(each.encoding.ids) else None)
                    for each, place in zip(sentences, document.places, strict=True)
                ),
                document.fields,
                document.sentence_ids,
            )
            for document, sentences in zip(documents, read, strict=True)
        )
        return replace(empty, texts=found)

    def _annotator(self) -> SuparAnnotator:
        annotator = parser_named(self.parser)
        if not isinstance(annotator, SuparAnnotator):
            raise UserError(
                f"parser {self.parser}: expected a dependency parser of SuPar, whose scores of arcs make a "
                "distribution over trees, found another kind. Train one by `depgen train-parser --config "
                "experiments/parser_ewt_supar.yaml`."
            )
        return annotator

    def _bounds(self, sentences: Sequence[EncodedSentence], annotator: SuparAnnotator | None) -> Iterator[TreeBound]:
        """The bound of each sentence that has tokens."""
        with progress_bar("scoring", total=len(sentences), unit="sentences", shown=self.progress) as advance:
            for first in range(0, len(sentences), SENTENCES_AT_ONCE):
                some = sentences[first : first + SENTENCES_AT_ONCE]
                if annotator is None:
                    joint = self._joint(some, [[_gold_tree(sentence)] for sentence in some])
                    yield from (TreeBound((nats,), (1.0,), 1, int(nats == -math.inf)) for nats in joint.tolist())
                else:
                    words = [Sentence(tuple(self.reading.spelt(each.sentence, each.kept))) for each in some]
                    yield from self._bounds_of(some, annotator.distributions(words), first)
                advance(len(some))

    def _bounds_of(
        self, sentences: Sequence[EncodedSentence], distributions: Sequence[ProjectiveTrees], first: int
    ) -> Iterator[TreeBound]:
        vocabulary, binarization = self.trained.vocabulary, binarization_of(self.trained.vocabulary)
        if not first:
            self._say_unknown(distributions[0].relations, vocabulary)
        found = [
            self._found(distribution, binarization, number)
            for number, distribution in enumerate(distributions, start=first)
        ]
        joint = self._joint(sentences, [trees for trees, *_ in found])
        ends = np.cumsum([len(trees) for trees, *_ in found])
        for (_, proposal, places), own in zip(found, np.split(joint, ends[:-1]), strict=True):
            yield TreeBound.of_samples(own, proposal, places)

    def _joint(
        self, sentences: Sequence[EncodedSentence], trees: Sequence[Sequence[Tree]]
    ) -> Float64[np.ndarray, " trees"]:
        """Log p of each sentence with each of its trees, in nats."""
        pairs = [
            (
                sentence.encoding.ids.tolist(),
                piece_tree(*tree, sentence.encoding.word_of_piece, left_dependents="first_piece"),
            )
            for sentence, of_sentence in zip(sentences, trees, strict=True)
            for tree in of_sentence
        ]
        assert isinstance(self.trained.model, ScoresTrees)
        return self.trained.model.tree_log_probs(
            [ids for ids, _ in pairs], [tree for _, tree in pairs], vocabulary=self.trained.vocabulary,
            tokens_per_batch=self.tokens_per_batch or tokens_at_once(self.trained.model),
        )  # fmt: skip

    def _say_unknown(self, relations: Sequence[str], vocabulary: Vocabulary) -> None:
        known = {str(label) for label in vocabulary.tables["placeholders"]}
        if unknown := sorted({*relations} - known - {ROOT_RELATION}):
            logger.warning(
                "parser %s: %d of its %d relations are not among the labels that the run writes, so trees with them "
                "have probability 0: %s",
                self.parser, len(unknown), len(relations), ", ".join(unknown),
            )  # fmt: skip

    def _found(
        self, distribution: ProjectiveTrees, binarization: Binarization, number: int
    ) -> tuple[list[Tree], Float64[np.ndarray, " distinct"], list[int]]:
        """Trees of which no two are written alike, log q of all written like each, and the number of each draw's."""
        drawn = distribution.sample(self.number, np.random.default_rng((self.seed, number)))
        words = len(distribution.roots)
        starts = words * np.arange(len(drawn))
        heads = numbered_through(np.concatenate([tree[0] for tree in drawn]), starts)
        written, labels = written_tree(heads, [name for tree in drawn for name in tree[1]], binarization, starts)
        written = np.where(written > 0, written - np.repeat(starts, words), 0)
        trees, proposal, places = list[Tree](), list[float](), list[int]()
        known: dict[tuple[bytes, tuple[str, ...]], int] = {}
        for start, tree in zip(starts, drawn, strict=True):
            own = written[start : start + words]
            key = (own.tobytes(), tuple(labels[start : start + words]))
            if key not in known:
                known[key] = len(trees)
                trees.append(tree)
                proposal.append(distribution.log_prob((own, tree[1]), binarization=binarization))
            places.append(known[key])
        return trees, np.array(proposal), places


def _gold_tree(sentence: EncodedSentence) -> Tree:
    """The tree of a sentence.

    Raises:
        UserError: it has none, or it has words that the system does not read.
    """
    words, own = " ".join(sentence.sentence.words), sentence.sentence
    if own.heads is None or own.relations is None or min(own.heads) < 0:
        raise UserError(f"{words!r}: expected a sentence with its tree, found none: give CoNLL-U, or sample trees.")
    if not all(sentence.kept):
        raise UserError(
            f"{words!r}: the form of the run's text leaves out words that have a place in the tree. Set form to as_is."
        )
    return np.array(own.heads), own.relations


def _bounded(sentence: EncodedSentence, place: str, bound: TreeBound | None) -> BoundedSentence:
    owner, unknown = sentence.encoding.word_of_piece, sentence.unknown
    counts = Totals(
        words=sum(sentence.kept), tokens=len(owner), unknown=len(set(owner[unknown].tolist())),
        unread=len(sentence.kept) - sum(sentence.kept), log_prob=0.0 if bound is None else bound.log_prob,
    )  # fmt: skip
    return BoundedSentence(" ".join(sentence.sentence.words), place, counts, bound)
