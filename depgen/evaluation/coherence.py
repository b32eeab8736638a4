"""Coherence: how often a system finds a document likelier than other arrangements of sentences.

Three tasks have the same form, a choice between arrangements. `order`: the document, or its sentences shuffled
(Barzilay & Lapata, 2008; Ji et al., 2015)? `insertion`: to which place does a sentence belong that was taken out (Chen,
Snyder & Barzilay, 2007)? `ending`: does it end with its own last sentence, or with another document's (Mostafazadeh et
al., 2016)? All draws depend on the seed and the words alone, so that systems of any vocabulary get the same questions.

Likelihoods are of whole documents, exact or, from masked systems, pseudo. They are those of `depgen score`: words are
brought into the form of the text that the run has learnt from, in which a sentence may have no word left, and documents
are cut into segments where the run is tested so.

The accuracy is that of Ji, Cohn, Kong, Dyer & Eisenstein (2015), Sec. 4.2, after Barzilay & Lapata (2008): a test set
is drawn from the documents with replacement. Each draw is compared with a shuffle of its sentences; the system chooses
the one that is more likely to it. Accuracies of 1,000 such sets have a mean and a standard deviation, and two systems'
are compared by a two-sample z-test.

Deviations
    D1. The paper shuffles again for every draw; here a draw takes one of the shuffles that its document has, all scored
        beforehand. The mean over them is what the accuracy of resampled sets tends to.
    D2. Equal likelihoods are worth half a point; the paper does not say. So is a question without a choice: documents
        of one sentence, and shuffles equal to the document, are among the paper's pairs, one for each document.
    D3. The paper's two-sample z-test takes resampled sets for independent observations: with enough of them every
        difference is significant. It is not computed; tables compare systems by tests over documents.
"""

import logging
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from depgen.data.corpus import Corpus, Split, form_of
from depgen.data.experiment import data_of
from depgen.data.vocabulary import Vocabulary, is_unknown
from depgen.errors import UserError, check_at_least
from depgen.evaluation.measure import Measured
from depgen.evaluation.reading import Reading, warn_of_another_form
from depgen.evaluation.trained import Trained
from depgen.evaluation.unit_scores import score_documents
from depgen.language_models.base import LanguageModel
from depgen.language_models.document import DocumentLanguageModel
from depgen.metrics.significance import percentile_interval
from depgen.progress import progress_bar
from depgen.trees.sentence import Sentence

logger = logging.getLogger(__name__)

TOKENS_AT_A_TIME = 1 << 20
"""Read by one call: batches enough for documents of like length, and a progress bar that moves."""
DRAWS_AT_A_TIME = 1 << 21
"""Of the bootstrap, for memory's sake."""


# -- questions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CoherenceOptions:
    """The options of `coherence`: the questions about a corpus, and how their answers are counted.

    Attributes:
        task: `order`, the document or its sentences shuffled; `insertion`, where a sentence belongs that was taken out;
            `ending`, its own last sentence or another document's.
        corpus: whose documents; by default that of the run's own.
        split: of it.
        max_documents: number of documents, the first ones; by default all.
        sentences: (not of endings) cut documents into pieces of like length of at most this many sentences, each a
            document from here on.
        shuffles: (order) of each document.
        insertions: (insertion) sentences that are taken out of each document, one at a time; `null` for every one.
        distractors: (ending) last sentences of other documents, each against the true one.
        seed: of all draws; they depend on it and on the corpus alone.
        resamples: of the test set.
        tokens_per_batch: scored at once, padding included; no score depends on it.
    """

    task: Literal["order", "insertion", "ending"] = "order"
    corpus: Corpus | None = None
    split: Split = "test"
    max_documents: int | None = None
    sentences: int | None = None
    shuffles: int = 24
    insertions: int | None = 5
    distractors: int = 3
    seed: int = 0
    resamples: int = 1000
    tokens_per_batch: int | None = None

    def __post_init__(self) -> None:
        check_at_least(
            1, max_documents=self.max_documents, sentences=self.sentences, shuffles=self.shuffles,
            insertions=self.insertions, distractors=self.distractors, resamples=self.resamples,
            tokens_per_batch=self.tokens_per_batch,
        )  # fmt: skip
        check_at_least(0, seed=self.seed)
        if self.task == "ending" and self.sentences is not None:
            raise UserError(
                "sentences: a piece of a document does not end where the document does, so that `ending` takes whole "
                "documents: leave sentences out."
            )

    def __str__(self) -> str:
        def counted(number: int, noun: str) -> str:
            return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

        taken = "every sentence" if self.insertions is None else counted(self.insertions, "sentence")
        return {
            "order": f"{counted(self.shuffles, 'shuffle')} of each",
            "insertion": f"{taken} of each put back",
            "ending": f"{counted(self.distractors, 'other ending')} for each",
        }[self.task]


Order = tuple[int, ...]
"""Sentences one after the other; the same number is the same words."""


class Question(NamedTuple):
    """Which of some arrangements is the document.

    Attributes:
        candidates: places among the trial's orders, the document (0) first.
        distances: places between where each candidate has a sentence and where it belongs; zeros in other tasks.
    """

    candidates: Int[np.ndarray, " candidates"]
    distances: Float[np.ndarray, " candidates"]


class Trial(NamedTuple):
    """A document, other arrangements of sentences, and the questions about them.

    Attributes:
        name: the identifier of the document, or of the piece.
        document: that of the document that it is a piece of.
        sentences: all that occur in an order, no two of the same words.
        orders: places in `sentences`, no two alike; the first is the document.
        questions: at least one.
    """

    name: str
    document: str
    sentences: list[Sentence]
    orders: list[Order]
    questions: list[Question]


def trials(options: CoherenceOptions, corpus: Corpus) -> list[Trial]:
    """The trials of a corpus, those of documents that are too short to ask about left out.

    Sentences without words are left out. A document of one sentence has no place to choose and no end to its beginning;
    its shuffles are itself.
    """
    pieces = [piece for piece in _pieces(options, corpus) if options.task == "order" or len(piece[2]) > 1]
    if not any(len(sentences) > 1 for *_, sentences in pieces):
        raise UserError(
            f"{corpus.name} {options.split}: expected documents of several sentences, found none. Name a corpus that "
            "has some, such as depgen.data.corpora.RocStories."
        )
    endings = [sentences[-1] for *_, sentences in pieces]
    different = len({ending.words for ending in endings})
    if options.task == "ending" and different <= options.distractors:
        raise UserError(
            f"Expected more than {options.distractors} different endings among the documents, found {different}: "
            "ask for fewer distractors."
        )
    return [
        _trial(options, *piece, endings, np.random.default_rng((options.seed, place)))
        for place, piece in enumerate(pieces)
    ]


def _pieces(options: CoherenceOptions, corpus: Corpus) -> Iterator[tuple[str, str, list[Sentence]]]:
    """The name, the document's identifier and the sentences of each document, or of each part of one."""
    for document in islice(corpus.documents(options.split), options.max_documents):
        filled = [sentence for sentence in document.sentences if sentence.words]
        if not filled:
            continue
        cuts = -(-len(filled) // (options.sentences or len(filled)))
        for number, part in enumerate(np.array_split(np.arange(len(filled)), cuts), start=1):
            name = document.identifier if cuts == 1 else f"{document.identifier}:{number}"
            yield name, document.identifier, [filled[place] for place in part]


def _trial(
    options: CoherenceOptions,
    name: str,
    identifier: str,
    sentences: Sequence[Sentence],
    endings: Sequence[Sentence],
    generator: np.random.Generator,
) -> Trial:
    """A trial in which the same text is the same order."""
    texts: dict[tuple[str, ...], tuple[int, Sentence]] = {}

    def number(sentence: Sentence) -> int:
        return texts.setdefault(sentence.words, (len(texts), sentence))[0]

    document = tuple(map(number, sentences))
    if options.task == "order":
        choices = [{order: 0} for order in shuffled(document, options.shuffles, generator)]
    elif options.task == "insertion":
        choices = inserted(document, options.insertions, generator)
    else:
        others = dict[int, None]()  # different endings, drawn until there are enough
        while len(others) < options.distractors:
            drawn = number(endings[int(generator.integers(len(endings)))])
            if drawn != document[-1]:
                others[drawn] = None
        choices = [{(*document[:-1], other): 0} for other in others]
    rows = dict[Order, int]()
    questions = []
    for choice in choices:
        orders = [document, *choice]
        candidates = np.array([rows.setdefault(order, len(rows)) for order in orders])
        questions.append(Question(candidates, np.array([0, *choice.values()], dtype=np.float64)))
    return Trial(name, identifier, [sentence for _, sentence in texts.values()], list(rows), questions)


def shuffled(document: Order, shuffles: int, generator: np.random.Generator) -> list[Order]:
    """Shuffles of a document, which may be the document again."""
    return [tuple(generator.permutation(document).tolist()) for _ in range(shuffles)]


def inserted(document: Order, insertions: int | None, generator: np.random.Generator) -> list[dict[Order, int]]:
    """For each sentence that is taken out, the document with it at every other place, and its distance there in places.

    Places that give the same text are one, the nearest; those that give the document again are left out.

    >>> inserted((0, 1, 1), None, np.random.default_rng(0))
    [{(1, 0, 1): 1, (1, 1, 0): 2}, {(1, 0, 1): 1}, {(1, 0, 1): 2}]
    """
    taken = np.arange(len(document))
    if insertions is not None and insertions < len(document):
        taken = np.sort(generator.choice(len(document), insertions, replace=False))
    choices = []
    for place in taken.tolist():
        others = document[:place] + document[place + 1 :]
        orders: dict[Order, int] = {document: 0}
        for other in sorted(range(len(document)), key=lambda each: abs(each - place)):
            orders.setdefault((*others[:other], document[place], *others[other:]), abs(other - place))
        del orders[document]
        choices.append(orders)
    return choices


# -- likelihoods ------------------------------------------------------------------------------------------------------

Ids = tuple[int, ...]


class _Coded(NamedTuple):
    """A trial as a system reads it: sentences that its vocabulary can't tell apart are one.

    Attributes:
        sentences: token ids, no two alike and none empty.
        orders: places in `sentences`, no two alike.
        row_of: of each order of the trial, its place in `orders`.
    """

    sentences: list[Ids]
    orders: list[Order]
    row_of: list[int]


_Totals = Callable[[Sequence[Sequence[Ids]]], Iterator[float]]
"""From what is read at once, lists of sentences, to the log-likelihood of each."""


def score_trials(
    model: LanguageModel,
    trials: Sequence[Trial],
    *,
    vocabulary: Vocabulary,
    reading: Reading = Reading(),  # noqa: B008 - frozen
    tokens_per_batch: int = 65_536,
    progress: bool = False,
) -> list[Float[np.ndarray, " orders"]]:
    """The log-likelihood of each trial's orders, nats; those that are the same to the vocabulary have the same.

    Most systems read each order. Where a sentence depends on the one before it alone, the log-probabilities of all
    pairs of a document's sentences are computed once and every order is a look-up; where it depends on none, those of
    single sentences are enough, and all orders of the same sentences are exactly as likely.

    Args:
        model: a system in evaluation mode.
        trials: of a corpus.
        vocabulary: that it was trained with.
        reading: how the system is given documents.
        tokens_per_batch: of `score_documents`.
        progress: show a progress bar.
    """
    coded = [_coded(trial, vocabulary, reading) for trial in trials]

    def totals(units: Sequence[Sequence[Ids]]) -> Iterator[float]:
        scores = score_documents(model, units, vocabulary=vocabulary, tokens_per_batch=tokens_per_batch)
        return (math.fsum(np.concatenate(sentences).tolist()) for sentences in scores)

    if model.sentence_context == "none":
        of_orders = _of_single_sentences(coded, totals)
    elif isinstance(model, DocumentLanguageModel) and model.sentence_context == "previous":
        of_orders = _of_pairs(model, coded, vocabulary, reading)
    else:
        of_orders = _read(coded, totals, reading)
    total, scores = sum(len(trial.orders) for trial in trials), []
    with progress_bar("scoring", total=total, unit="arrangements", shown=progress) as advance:
        for trial, own in zip(coded, of_orders, strict=True):
            scores.append(np.array(own, dtype=np.float64)[trial.row_of])
            advance(len(trial.row_of))
    return scores


def _coded(trial: Trial, vocabulary: Vocabulary, reading: Reading) -> _Coded:
    texts: dict[Ids, int] = {}
    place_of = []
    for sentence in trial.sentences:
        ids = tuple(reading.encode(reading.words(sentence), vocabulary).ids.tolist())
        place_of.append(texts.setdefault(ids, len(texts)) if ids else None)
    orders = [tuple(place for each in order if (place := place_of[each]) is not None) for order in trial.orders]
    rows = {order: row for row, order in enumerate(sorted({*orders}))}
    return _Coded(list(texts), list(rows), [rows[order] for order in orders])


def _of_single_sentences(coded: Sequence[_Coded], totals: _Totals) -> Iterator[list[float]]:
    """Sums over sentences that were read by themselves; the same in every order, to the last bit."""
    known = list(dict.fromkeys(chain.from_iterable(each.sentences for each in coded)))
    of_sentence = dict(zip(known, totals([[ids] for ids in known]), strict=True))
    for each in coded:
        yield [math.fsum(of_sentence[each.sentences[place]] for place in order) for order in each.orders]


def _of_pairs(
    model: DocumentLanguageModel, coded: Sequence[_Coded], vocabulary: Vocabulary, reading: Reading
) -> Iterator[list[float]]:
    """Look-ups in a table of each sentence at the beginning (column 0) and after each other one."""
    for each in coded:
        table = (
            model.pair_log_likelihoods(each.sentences, vocabulary=vocabulary) if each.sentences else np.zeros((0, 1))
        )
        yield [
            math.fsum(
                table[place, before]
                for unit in reading.segments(order)
                for place, before in zip(unit, (0, *(other + 1 for other in unit[:-1])), strict=True)
            )
            for order in each.orders
        ]


def _read(coded: Sequence[_Coded], totals: _Totals, reading: Reading) -> Iterator[list[float]]:
    """Every order is read; those of several trials at once, since batches want documents of like length."""
    part: list[list[Sequence[Sequence[Ids]]]] = []
    tokens = 0
    for number, each in enumerate(coded, start=1):
        part.append([reading.segments([each.sentences[place] for place in order]) for order in each.orders])
        tokens += sum(map(len, each.sentences)) * len(each.orders)
        if tokens >= TOKENS_AT_A_TIME or number == len(coded):
            of_units = totals([unit for orders in part for order in orders for unit in order])
            for orders in part:
                yield [math.fsum(next(of_units) for _ in order) for order in orders]
            part, tokens = [], 0


# -- what answers are worth -------------------------------------------------------------------------------------------


def credit(scores: Float[np.ndarray, " candidates"]) -> float:
    """What the choice of the likeliest candidate is worth where the first is right: 1, or a share where several are.

    >>> [credit(np.array(scores)) for scores in ([-1.0, -2.0], [-1.0, -1.0], [-2.0, -1.0], [-1.0, -1.0, -2.0, -1.0])]
    [1.0, 0.5, 0.0, 0.3333333333333333]
    """
    best = _likeliest(scores)
    return float(best[0] / best.sum())


def expected_distance(scores: Float[np.ndarray, " candidates"], distances: Float[np.ndarray, " candidates"]) -> float:
    """How far from the truth the likeliest candidate lies, in the mean where several are.

    >>> expected_distance(np.array([-2.0, -1.0, -1.0]), np.array([0.0, 1.0, 4.0]))
    2.5
    """
    return float(distances[_likeliest(scores)].mean())


def _likeliest(scores: Float[np.ndarray, " candidates"]) -> np.ndarray:
    assert not np.isnan(scores).any(), "what has no likelihood can't be chosen"
    return np.asarray(scores == scores.max())


def resampled_means(
    values: Sequence[Float[np.ndarray, " _"]], *, resamples: int = 1000, seed: int = 0
) -> Float[np.ndarray, " resamples"]:
    """The mean of each resampled test set: documents drawn with replacement, with one question for each draw.

    `values` hold, for each document, what the answer to each of its questions is worth.
    The draws depend on the seed and on the numbers of questions alone, so that two systems see the same.

    >>> resampled_means([np.array([1.0, 0.0])], resamples=4)
    array([1., 1., 0., 0.])
    """
    counts = np.array(list(map(len, values)))
    flat, starts = np.concatenate(values), np.cumsum(counts) - counts
    generator = np.random.default_rng(seed)
    rows = max(1, DRAWS_AT_A_TIME // len(counts))
    means = np.empty(resamples)
    for start in range(0, resamples, rows):
        chance = generator.random((min(rows, resamples - start), 2, len(counts)))
        documents = (chance[:, 0] * len(counts)).astype(np.int64)
        questions = (chance[:, 1] * counts[documents]).astype(np.int64)
        means[start : start + rows] = flat[starts[documents] + questions].mean(1)
    return means


# -- the measure ------------------------------------------------------------------------------------------------------


def coherence(system: Trained, options: CoherenceOptions) -> Measured:
    """How often a system finds documents likelier than other arrangements of sentences, per cent; ties share a point.

    An item is a document, or a piece of one: its `accuracy` over all its questions and its mean `distance` in places;
    the `sentences` of all its arrangements, their `orders` as places in `sentences`, and the `log_probs` of these
    (nats); the `questions`, each the places of its candidates in `orders`, the document (0) first; and what each answer
    is worth (`credits`), and how far from the right place it is (`distances`).

    In the row, `accuracy`, `ties`, `empty` and `distance` are means over documents (or pieces) of the means over each
    one's questions. `resampled_mean`, `deviation`, `low` and `high` are of the paper's resampled test sets, whose mean
    tends to `accuracy`. `ties` are those of the system; `empty` questions, in which there is nothing to choose, are
    counted apart, and `accuracy_without_empty` leaves them out.
    """
    settings = system.run / "config.yaml"
    corpus = options.corpus or (getattr(data_of(settings), "corpus", None) if settings.is_file() else None)
    if not isinstance(corpus, Corpus):
        raise UserError(f"{system.run} was trained on no corpus of documents: name one by --corpus.")
    reading = system.reading
    if form_of(corpus) not in (None, "lower"):
        warn_of_another_form(reading.form, corpus)  # which can't be undone
    if system.model.likelihood != "exact":
        logger.warning("%s gives a likelihood that is %s: not exact.", system.run, system.model.likelihood)
    asked = trials(options, corpus)
    scores = score_trials(
        system.model, asked, vocabulary=system.vocabulary, reading=reading,
        tokens_per_batch=options.tokens_per_batch or 65_536, progress=sys.stderr.isatty(),
    )  # fmt: skip
    answers = pd.DataFrame(
        {
            "piece": piece, "credit": credit(own[candidates]), "chance": 1 / len(candidates),
            "distance": expected_distance(own[candidates], distances), "distance_by_chance": distances.mean(),
            "empty": not candidates.any(),
        }
        for piece, (trial, own) in enumerate(zip(asked, scores, strict=True))
        for candidates, distances in trial.questions
    )  # fmt: skip
    answers["tie"] = answers["credit"].between(0, 1, inclusive="neither") & ~answers["empty"]
    by_piece = answers.groupby("piece")
    means = by_piece.mean()
    credits = [own.to_numpy() for _, own in by_piece["credit"]]
    items = pd.DataFrame(
        {
            "name": [trial.name for trial in asked],
            "document": [trial.document for trial in asked],
            "accuracy": 100 * means["credit"],
            "distance": means["distance"],
            "sentences": [[" ".join(sentence.words) for sentence in trial.sentences] for trial in asked],
            "orders": [trial.orders for trial in asked],
            "log_probs": [own.tolist() for own in scores],
            "questions": [[question.candidates.tolist() for question in trial.questions] for trial in asked],
            "credits": by_piece["credit"].agg(list),
            "distances": by_piece["distance"].agg(list),
        }
    )
    sentences = [trial.sentences[place] for trial in asked for place in trial.orders[0]]
    words = [word for sentence in sentences for word in reading.words(sentence)]
    unknown = {word: is_unknown(system.vocabulary, word) for word in set(words)}
    resampled = 100 * resampled_means(credits, resamples=options.resamples, seed=options.seed)
    low, high = percentile_interval(resampled)
    row = {
        "level": "overall",
        "name": corpus.name,
        "split": options.split,
        "task": f"{options.task}: {options}",
        "whole_documents": items["document"].nunique(),
        "documents": len(items),
        "sentences": len(sentences),
        "seed": options.seed,
        "form": reading.known_form,
        "likelihood": system.model.likelihood,
        "unknown_share": float(np.mean([unknown[word] for word in words])) if words else 0.0,
        "accuracy": items["accuracy"].mean(),
        "accuracy_without_empty": 100 * answers[~answers["empty"]].groupby("piece")["credit"].mean().mean(),
        "resampled_mean": resampled.mean(),
        "deviation": resampled.std(),
        "low": low,
        "high": high,
        "chance": 100 * means["chance"].mean(),
        "ties": 100 * means["tie"].mean(),
        "empty": 100 * means["empty"].mean(),
    }
    if options.task == "insertion":
        row |= {"distance": means["distance"].mean(), "distance_by_chance": means["distance_by_chance"].mean()}
    return Measured(items, pd.DataFrame([row]))
