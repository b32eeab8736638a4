"""How often a system finds documents likelier than other arrangements of sentences.

Likelihoods are of whole documents, exact or, from masked systems, pseudo; these read every sentence by itself, as
RNNLM does, so that all orders of a document are as likely and only endings differ. They are those of `depgen score`:
words are brought into the form of the text that the run has learnt from.

The accuracy is that of Ji, Cohn, Kong, Dyer & Eisenstein (2015), Sec. 4.2; see `depgen.metrics.coherence`.
"""

import logging
import sys

import numpy as np
import pandas as pd

from depgen.data.corpus import Corpus, form_of
from depgen.data.experiment import data_of
from depgen.data.vocabulary import is_unknown
from depgen.errors import UserError, no_file
from depgen.evaluation.coherence.arrangements import CoherenceOptions, trials
from depgen.evaluation.coherence.scoring import score_trials
from depgen.evaluation.measure import Measured
from depgen.evaluation.reading import warn_of_another_form
from depgen.evaluation.trained import Trained
from depgen.metrics.coherence import credit, expected_distance, one_sided_p, resampled_means, z_statistic
from depgen.metrics.significance import bootstrap_interval, percentile_interval

logger = logging.getLogger(__name__)


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

    Raises:
        UserError: the system gives texts no likelihood, the corpus has nothing to ask about, or the other run had other
            questions.
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
            "orders": [trial.arrangements.tolist() for trial in asked],
            "log_probs": [own.tolist() for own in scores],
            "questions": [[question.candidates.tolist() for question in trial.questions] for trial in asked],
            "credits": by_piece["credit"].agg(list),
            "distances": by_piece["distance"].agg(list),
        }
    )
    sentences = [trial.sentences[place] for trial in asked for place in trial.arrangements[0]]
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
    if options.against is not None:
        row |= _against(items, resampled, options)
    return Measured(items, pd.DataFrame([row]))


def _against(items: pd.DataFrame, resampled: np.ndarray, options: CoherenceOptions) -> dict[str, float]:
    """The difference from another run's accuracy, over the same questions; and the published z."""
    path = options.against
    assert path is not None
    if not path.is_file():
        raise no_file(path)
    try:
        others = pd.read_json(path, lines=True, dtype=False)
        same = ["name", "document", "sentences", "orders", "questions"]
        is_same = others[same].to_dict("list") == items[same].to_dict("list")
        credits = [np.array(each, dtype=np.float64) for each in others["credits"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}: expected what depgen evaluate coherence --item_output writes, found {error}."
        ) from error
    if not is_same:
        raise UserError(f"{path}: its run had other questions. Use the same corpus, options and seed for both runs.")
    documents = items["document"].factorize(sort=True)[0]
    difference = (items["accuracy"] - others["accuracy"]).to_numpy()
    interval = bootstrap_interval(difference, groups=documents, resamples=10_000)
    several = items["document"].nunique() > 1  # of a single document there is no interval
    theirs = 100 * resampled_means(credits, resamples=options.resamples, seed=options.seed)
    z = z_statistic((resampled.mean(), theirs.mean()), (resampled.std(), theirs.std()), resamples=options.resamples)
    return {
        "difference": interval.value,
        "difference_low": interval.low if several else np.nan,
        "difference_high": interval.high if several else np.nan,
        "published_z": z,
        "published_p_one_sided": one_sided_p(z),
    }
