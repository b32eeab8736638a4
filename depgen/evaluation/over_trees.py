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
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from jaxtyping import Float64

from depgen.annotation.annotator import parser_named
from depgen.annotation.supar import SuparAnnotator
from depgen.data.levels import binarization_of
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.projective_trees import ProjectiveTrees, Tree
from depgen.errors import UserError, check_at_least
from depgen.evaluation.scores import LEVELS, By, Unit, beside_texts, in_unit, numbers_of, with_perplexities
from depgen.evaluation.text_documents import TextDocument
from depgen.evaluation.trained import Trained
from depgen.evaluation.unit_scores import EncodedSentence, encode_documents, tokens_at_once
from depgen.progress import progress_bar
from depgen.trees.binarization import Binarization, numbered_through, written_tree
from depgen.trees.pieces import piece_tree
from depgen.trees.sentence import Sentence

Trees = Literal["gold", "sampled"]
"""The trees that a bound is over: the sentences' own, or a parser's."""

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


def bounds_given(number: int) -> list[int]:
    """The numbers of trees that a bound is given for: powers of ten, and the last.

    >>> bounds_given(100), bounds_given(30)
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
    weights, numbers = (joint - proposal)[list(drawn)], bounds_given(len(drawn))
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
    sentences: pd.DataFrame, documents: Sequence[TextDocument], *, by: By = "sentence", unit: Unit = "nats"
) -> pd.DataFrame:
    """Bounds of documents: a row a sentence or document, or one for all, with the fields of the texts.

    Sums are over the sentences that have a tree which the system can write; the others, whose bound is -inf, are
    counted. Effective sample sizes are means.

    Args:
        sentences: as `bounds_of_sentences` gives them.
        documents: the texts.
        by: what a row is.
        unit: of log-probabilities and surprisals.
    """
    nats = [name for name in sentences if name.startswith("log_prob_")]
    sizes = [name for name in sentences if name.startswith("effective_")]
    if by == "sentence":
        found = sentences.set_index(list(LEVELS[by]))
    else:
        groups = pd.Series(0, sentences.index) if by == "all" else sentences["document"]
        rows = numbers_of(documents) if by == "document" else pd.RangeIndex(1)
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
    return beside_texts(in_unit(table, unit), documents, by)


Drawn = tuple[list[Tree], Float64[np.ndarray, " distinct"], list[int]]
"""Trees of a sentence, log q of each, and of each sample its tree."""


def bounds_of_sentences(
    trained: Trained,
    documents: Sequence[TextDocument],
    *,
    trees: Trees = "sampled",
    number_of_trees: int = 100,
    parser: str = "ewt_supar",
    seed: int = 0,
    tokens_per_batch: int | None = None,
    progress: bool = False,
) -> pd.DataFrame:
    """A row for each sentence of documents with the bound of its log-probability; see `bound_of_samples`.

    The counts of its words and tokens are as in `depgen.evaluation.scores.sums`; a sentence of which nothing is read
    has no bound. What the bounds are is said by `attrs`: `trees`, `number_of_trees` and `parser`.

    The arguments are those of `depgen.evaluation.system.System.score_over_trees`. The samples of a sentence depend on
    the seed and on the sentence's place among all.
    """
    check_at_least(0, seed=seed)
    model, vocabulary = trained.model, trained.vocabulary
    if not isinstance(model, ScoresTrees):
        kind = type(model).__name__
        raise UserError(f"trees are of systems that give texts with their trees a probability, not of {kind}.")
    annotator = None if trees == "gold" else _annotator(parser)
    encoded, _ = encode_documents(trained, documents, as_one=False)  # refuses what is too long
    filled = [sentence for sentences in encoded for sentence in sentences if len(sentence.encoding.ids)]

    def bounds() -> Iterator[dict[str, float]]:
        with progress_bar("scoring", total=len(filled), unit="sentences", shown=progress) as advance:
            for first in range(0, len(filled), SENTENCES_AT_ONCE):
                sentences = filled[first : first + SENTENCES_AT_ONCE]
                if annotator is None:
                    drawn: list[Drawn] = [([_gold_tree(sentence)], np.zeros(1), [0]) for sentence in sentences]
                else:
                    words = [Sentence(tuple(trained.reading.spelt(each.sentence, each.kept))) for each in sentences]
                    drawn = [
                        _drawn(distribution, binarization_of(vocabulary), number_of_trees, (seed, number))
                        for number, distribution in enumerate(annotator.distributions(words), start=first)
                    ]
                pairs = [(each, tree) for each, (own, *_) in zip(sentences, drawn, strict=True) for tree in own]
                joint = model.tree_log_probs(
                    [each.encoding.ids.tolist() for each, _ in pairs],
                    [
                        piece_tree(*tree, each.encoding.word_of_piece, left_dependents="first_piece")
                        for each, tree in pairs
                    ],
                    vocabulary=vocabulary,
                    tokens_per_batch=tokens_per_batch or tokens_at_once(trained.model),
                )
                ends = np.cumsum([len(own) for own, *_ in drawn])
                for (_, proposal, samples), log_probs in zip(drawn, np.split(joint, ends[:-1]), strict=True):
                    yield bound_of_samples(log_probs, proposal, samples)
                advance(len(sentences))

    found = bounds()
    rows = [
        {"document": number, "sentence": place, **_counts(each), **(next(found) if len(each.encoding.ids) else {})}
        for number, sentences in enumerate(encoded, start=1)
        for place, each in enumerate(sentences, start=1)
    ]
    number, scheme = (1, None) if annotator is None else (number_of_trees, annotator.scheme)
    names = ["document", "sentence", *COUNTS, *bound_of_samples(np.zeros(1), np.zeros(1), [0] * number)]
    table = pd.DataFrame(rows, columns=names)
    table[[*TREE_COUNTS]] = table[[*TREE_COUNTS]].fillna(0).astype(int)
    if without := int(np.isneginf(table["log_prob"]).sum()):
        logger.warning(
            "%d of %d sentences have no tree with labels and expansions that the run writes: they are left out of "
            "all sums. More trees may help, or a parser with the relations that the run has learnt from.",
            without, len(table),
        )  # fmt: skip
    table.attrs = {"trees": trees, "number_of_trees": number, "parser": scheme}
    return table


def _annotator(parser: str) -> SuparAnnotator:
    annotator = parser_named(parser)
    if not isinstance(annotator, SuparAnnotator) or annotator.structure != "tree":
        raise UserError(
            f"parser {parser}: expected a dependency parser of SuPar, whose scores of arcs make a distribution over "
            "trees, found another kind. Train one by `depgen annotate --train experiments/parser_ewt_supar.yaml`."
        )
    return annotator


def _drawn(distribution: ProjectiveTrees, binarization: Binarization, number: int, seed: tuple[int, int]) -> Drawn:
    """Trees of which no two are written alike, log q of all written like each, and the number of each draw's."""
    samples = distribution.sample(number, np.random.default_rng(seed))
    words = len(distribution.roots)
    starts = words * np.arange(len(samples))
    heads = numbered_through(np.concatenate([tree[0] for tree in samples]), starts)
    written, labels = written_tree(heads, [name for tree in samples for name in tree[1]], binarization, starts)
    written = np.where(written > 0, written - np.repeat(starts, words), 0)
    trees, proposal, places = list[Tree](), list[float](), list[int]()
    known: dict[tuple[bytes, tuple[str, ...]], int] = {}
    for start, tree in zip(starts, samples, strict=True):
        own = written[start : start + words]
        key = (own.tobytes(), tuple(labels[start : start + words]))
        if key not in known:
            known[key] = len(trees)
            trees.append(tree)
            proposal.append(distribution.log_prob((own, tree[1]), binarization=binarization))
        places.append(known[key])
    return trees, np.array(proposal), places


def _gold_tree(sentence: EncodedSentence) -> Tree:
    """The tree of a sentence."""
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
