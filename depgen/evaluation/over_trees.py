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
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from jaxtyping import Float64

from depgen.annotation.annotator import parser_named
from depgen.annotation.supar import SuparAnnotator
from depgen.data.levels import binarization_of
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.projective_trees import ROOT_RELATION, ProjectiveTrees, Tree
from depgen.errors import UserError, check_at_least
from depgen.evaluation.encoded_text import EncodedSentence, TextEncoder
from depgen.evaluation.frames import By, Trees, Unit
from depgen.evaluation.scores import LEVELS, TextColumns, in_unit, with_perplexities
from depgen.evaluation.text_documents import TextDocument
from depgen.evaluation.trained import Trained
from depgen.evaluation.unit_scores import tokens_at_once
from depgen.progress import progress_bar
from depgen.trees.binarization import Binarization, numbered_through, written_tree
from depgen.trees.pieces import piece_tree
from depgen.trees.sentence import Sentence

logger = logging.getLogger(__name__)

COUNTS, TREE_COUNTS = ("words", "tokens", "unknown", "unread"), ("distinct_trees", "impossible_trees")
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


def bound_of_samples(
    joint: Float64[np.ndarray, " distinct"], proposal: Float64[np.ndarray, " distinct"], drawn: Sequence[int]
) -> dict[str, float]:
    """The bound of a sentence's log-probability by importance sampling: `log_prob` by all trees, nats.

    Also `log_prob_1`, `log_prob_10`, … by the first 1, 10, … trees; `effective_1`, … the effective sample sizes
    (sum w)^2 / sum w^2 of their weights; and how many distinct trees there are, and of these how many have a label or
    an expansion that the system never writes.

    Args:
        joint: log p of the sentence and each distinct tree.
        proposal: log q of each.
        drawn: of each sample the tree.
    """
    weights, numbers = (joint - proposal)[list(drawn)], numbers_of(len(drawn))
    log_probs, effective = [], []
    for number in numbers:
        highest = weights[:number].max()
        shares = np.exp(weights[:number] - highest) if highest > -np.inf else np.zeros(number)
        total = float(shares.sum())
        log_probs.append(float(highest) + math.log(total / number) if total else -math.inf)
        effective.append(total**2 / float((shares**2).sum()) if total else 0.0)
    return {
        "log_prob": log_probs[-1],
        "distinct_trees": len(joint),
        "impossible_trees": int((joint == -np.inf).sum()),
        **{f"log_prob_{number}": each for number, each in zip(numbers, log_probs, strict=True)},
        **{f"effective_{number}": each for number, each in zip(numbers, effective, strict=True)},
    }


def bound_table(
    sentences: pd.DataFrame, texts: TextColumns, *, by: By = "sentence", unit: Unit = "nats"
) -> pd.DataFrame:
    """Bounds of documents: a row a sentence or document, or one for all, with the fields of the texts.

    Sums are over the sentences that have a tree which the system can write; the others, whose bound is -inf, are
    counted. Effective sample sizes are means.

    Args:
        sentences: as `TreeScorer.sentences` gives them.
        texts: what is known of the texts besides.
        by: what a row is.
        unit: of log-probabilities and surprisals.
    """
    nats = [name for name in sentences if name.startswith("log_prob_")]
    sizes = [name for name in sentences if name.startswith("effective_")]
    if by == "sentence":
        found = sentences.set_index(list(LEVELS[by]))
    else:
        groups = pd.Series(0, sentences.index) if by == "all" else sentences["document"]
        rows = texts.documents.index if by == "document" else pd.RangeIndex(1)
        without = np.isneginf(sentences["log_prob"])
        bounded = sentences[~without].groupby(groups[~without])
        found = bounded[[*COUNTS, "log_prob", *nats]].sum(min_count=0).join(bounded[sizes].mean()).reindex(rows)
        found[[*COUNTS]] = found[[*COUNTS]].fillna(0).astype(int)
        found[[*TREE_COUNTS]] = sentences[[*TREE_COUNTS]].groupby(groups).sum().reindex(rows, fill_value=0)
        found["sentences_without_trees"] = without.groupby(groups).sum().reindex(rows, fill_value=0)
    table = with_perplexities(found.assign(ends=0, known_log_prob=0.0), "bound")
    perplexities = [name for name in table if name.endswith("perplexity_bound") and not name.startswith("known")]
    kind = {"likelihood": "bound", **sentences.attrs, "unit": unit}
    before = ["sentences_without_trees"] if by != "sentence" else []
    own = [*before, "words", "tokens", "unknown", "log_prob", "surprisal", *perplexities]
    table = table.assign(**kind)[[*own, *kind, *TREE_COUNTS, *nats, *sizes]].reset_index(drop=by == "all")
    return texts.beside(in_unit(table, unit), by)


@dataclass(frozen=True)
class TreeScorer:
    """Bounds the log-probabilities of sentences.

    Attributes:
        trained: the system.
        trees: the sentences' own, or sampled ones.
        number: of trees that are drawn for a sentence.
        parser: the name of the parser that they are drawn from, see `depgen.annotation.annotator`.
        seed: of the samples; those of a sentence depend on it and on the sentence's place among all.
        tokens_per_batch: tokens of the levels of trees that are read at once; None: see `tokens_at_once`. No score
            depends on it.
        progress: show a progress bar.
    """

    trained: Trained
    trees: Trees
    number: int
    parser: str
    seed: int = 0
    tokens_per_batch: int | None = None
    progress: bool = False

    def sentences(self, documents: Sequence[TextDocument]) -> pd.DataFrame:
        """A row for each sentence of documents with the bound of its log-probability; see `bound_of_samples`.

        The counts of its words and tokens are as in `depgen.evaluation.scores.sums`; a sentence of which nothing is
        read has no bound. What the bounds are is said by `attrs`: `trees`, `number_of_trees` and `parser`.

        Raises:
            UserError: the system gives trees no probability, there is no such parser, its arcs have no scores, or a
                sentence is longer than the system reads, has no gold tree or words that are not read.
        """
        check_at_least(0, seed=self.seed)
        if not isinstance(self.trained.model, ScoresTrees):
            kind = type(self.trained.model).__name__
            raise UserError(f"trees are of systems that give texts with their trees a probability, not of {kind}.")
        annotator = None if self.trees == "gold" else self._annotator()
        encoder = TextEncoder(self.trained, as_one=False)
        read, _ = encoder.encoded(documents)  # refuses what is too long
        filled = [each for sentences in read for each in sentences if len(each.encoding.ids)]
        bounds = self._bounds(filled, annotator)
        rows = [
            {"document": number, "sentence": place, **_counts(each), **(next(bounds) if len(each.encoding.ids) else {})}
            for number, sentences in enumerate(read, start=1)
            for place, each in enumerate(sentences, start=1)
        ]
        number, scheme = (1, None) if annotator is None else (self.number, annotator.scheme)
        names = ["document", "sentence", *COUNTS, *bound_of_samples(np.zeros(1), np.zeros(1), [0] * number)]
        found = pd.DataFrame(rows, columns=names)
        found[[*TREE_COUNTS]] = found[[*TREE_COUNTS]].fillna(0).astype(int)
        if without := int(np.isneginf(found["log_prob"]).sum()):
            logger.warning(
                "%d of %d sentences have no tree with labels and expansions that the run writes: they are left out of "
                "all sums. More trees may help.",
                without, len(found),
            )  # fmt: skip
        found.attrs = {"trees": self.trees, "number_of_trees": number, "parser": scheme}
        return found

    def _annotator(self) -> SuparAnnotator:
        annotator = parser_named(self.parser)
        if not isinstance(annotator, SuparAnnotator):
            raise UserError(
                f"parser {self.parser}: expected a dependency parser of SuPar, whose scores of arcs make a "
                "distribution over trees, found another kind. Train one by `depgen annotate --train "
                "experiments/parser_ewt_supar.yaml`."
            )
        return annotator

    def _bounds(
        self, sentences: Sequence[EncodedSentence], annotator: SuparAnnotator | None
    ) -> Iterator[dict[str, float]]:
        """The bound of each sentence that has tokens."""
        with progress_bar("scoring", total=len(sentences), unit="sentences", shown=self.progress) as advance:
            for first in range(0, len(sentences), SENTENCES_AT_ONCE):
                some = sentences[first : first + SENTENCES_AT_ONCE]
                if annotator is None:
                    joint = self._joint(some, [[_gold_tree(sentence)] for sentence in some])
                    yield from (bound_of_samples(joint[[place]], np.zeros(1), [0]) for place in range(len(some)))
                else:
                    words = [Sentence(tuple(self.trained.reading.spelt(each.sentence, each.kept))) for each in some]
                    yield from self._bounds_of(some, annotator.distributions(words), first)
                advance(len(some))

    def _bounds_of(
        self, sentences: Sequence[EncodedSentence], distributions: Sequence[ProjectiveTrees], first: int
    ) -> Iterator[dict[str, float]]:
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
            yield bound_of_samples(own, proposal, places)

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


def _counts(sentence: EncodedSentence) -> dict[str, int]:
    owner, read = sentence.encoding.word_of_piece, sum(sentence.kept)
    unknown = len(set(owner[sentence.unknown].tolist()))
    return {"words": read, "tokens": len(owner), "unknown": unknown, "unread": len(sentence.kept) - read}
