"""`depgen coherence`: how often a run finds documents likelier than other arrangements of sentences.

Likelihoods are of whole documents, exact or, from masked systems, pseudo; these read every sentence by itself, as
RNNLM does, so that all orders of a document are as likely and only endings differ. They are those of `depgen score`:
words are brought into the form of the text that the run has learnt from.
"""

import logging
import sys
from dataclasses import dataclass
from json import JSONDecodeError, dumps, loads
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from depgen.data.corpus import Corpus, form_of
from depgen.data.experiment import data_of
from depgen.data.vocabulary import is_unknown
from depgen.errors import UserError
from depgen.evaluation.coherence.arrangements import CoherenceTask, Trial, trials
from depgen.evaluation.coherence.scoring import LogLikelihoods, score_trials
from depgen.evaluation.frames import json_ready
from depgen.evaluation.reading import warn_of_another_form
from depgen.evaluation.trained import Trained, load_trained
from depgen.locations import check_output, write_atomically
from depgen.metrics.coherence import (
    Credits,
    Resamples,
    credit,
    expected_distance,
    mean_over_documents,
    mean_without_empty,
    one_sided_p,
    paired_interval,
    resampled_means,
    tie_rate,
    z_statistic,
)
from depgen.metrics.significance import percentile_interval
from depgen.trees.text_form import FormName

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answers:
    """How a system answered the questions about each document; one array a document, one entry a question.

    Attributes:
        names: of the documents, or of the pieces that they are cut into.
        documents: what each is a piece of, or itself.
        credits: what each answer is worth (`depgen.metrics.coherence`).
        distances: how far from where it belongs a sentence was put; zeros in tasks that move none.
    """

    names: tuple[str, ...]
    documents: tuple[str, ...]
    credits: Credits
    distances: Credits

    @property
    def by_document(self) -> Float[np.ndarray, " pieces"]:
        """The accuracy at each, per cent, over all its questions."""
        return 100 * np.array([each.mean() for each in self.credits])

    @property
    def document_numbers(self) -> Int[np.ndarray, " pieces"]:
        """The same number for pieces of the same document."""
        return np.unique(self.documents, return_inverse=True)[1]

    def accuracies(self, asked: CoherenceTask) -> Resamples:
        """Of the resampled test sets, per cent."""
        return 100 * resampled_means(self.credits, resamples=asked.resamples, seed=asked.seed)


@dataclass(frozen=True)
class Assessment:
    """A run's answers about a corpus.

    Attributes:
        asked: the task.
        facts: the corpus, the task and the run, by name.
        answers: the run's.
        chance: those of guessing.
        trials: the documents, their arrangements and the questions.
        log_likelihoods: of each trial's arrangements, in nats.
        empty: whether all candidates of a question are the document, as where a shuffle is none.
    """

    asked: CoherenceTask
    facts: dict[str, str | int | float]
    answers: Answers
    chance: Answers
    trials: list[Trial]
    log_likelihoods: list[LogLikelihoods]
    empty: list[Bool[np.ndarray, " questions"]]

    @property
    def accuracies(self) -> Resamples:
        """Of the resampled test sets, per cent."""
        return self.answers.accuracies(self.asked)

    @property
    def sentences_per_document(self) -> float:
        """In the mean."""
        return float(self.facts["sentences"]) / len(self.answers.names)

    @property
    def measures(self) -> dict[str, float]:
        """Accuracy, its mean and deviation over resampled test sets with a 95 % interval, ties; per cent, and places.

        `accuracy`, `ties`, `empty` and `distance` are means over documents (or pieces) of the means over each one's
        questions; the mean over resampled sets tends to `accuracy`. `ties` are those of the system; `empty` questions,
        in which there is nothing to choose, are counted apart, and `accuracy_without_empty` leaves them out.
        """
        resampled = self.accuracies
        low, high = percentile_interval(resampled)
        found = {
            "accuracy": 100 * mean_over_documents(self.answers.credits),
            "accuracy_without_empty": 100 * mean_without_empty(self.answers.credits, self.empty),
            "resampled_mean": float(resampled.mean()),
            "deviation": float(resampled.std()),
            "low": low,
            "high": high,
            "chance": 100 * mean_over_documents(self.chance.credits),
            "ties": 100 * tie_rate(self.answers.credits, self.empty),
            "empty": 100 * mean_over_documents([each.astype(np.float64) for each in self.empty]),
        }
        if self.asked.task == "insertion":
            found["distance"] = mean_over_documents(self.answers.distances)
            found["distance_by_chance"] = mean_over_documents(self.chance.distances)
        return found

    @property
    def documents(self) -> list[dict[str, Any]]:
        """Each document (or piece) with its arrangements and answers, as plain values.

        `sentences` are those of all its arrangements; `arrangements` have their order, as places in `sentences`, and
        their log-probability in nats. `questions` are the places of the candidates in `arrangements`, the document (0)
        first; `credits` and `distances` say what each answer is worth and how far from the right place it is.
        """
        own = self.answers
        rows = zip(self.trials, self.log_likelihoods, own.credits, own.distances, strict=True)
        return [
            {
                "name": trial.name,
                "document": trial.document,
                "sentences": [" ".join(sentence.words) for sentence in trial.sentences],
                "arrangements": [
                    {"order": order, "log_probability": likelihood}
                    for order, likelihood in zip(trial.arrangements.tolist(), likelihoods.tolist(), strict=True)
                ],
                "questions": [question.candidates.tolist() for question in trial.questions],
                "credits": credits.tolist(),
                "distances": distances.tolist(),
            }
            for trial, likelihoods, credits, distances in rows
        ]


def assess(
    trained: Trained,
    asked: CoherenceTask,
    *,
    tokens_per_batch: int = 65_536,
    progress: bool = False,
) -> Assessment:
    """A run's answers to a task.

    Raises:
        UserError: its system gives texts no likelihood, or the corpus has nothing to ask about.
    """
    data = data_of(trained.run / "config.yaml")
    corpus = asked.corpus or getattr(data, "corpus", None)
    if not isinstance(corpus, Corpus):
        raise UserError(f"{trained.run} was trained on no corpus of documents: name one by --corpus.")
    if form_of(corpus) not in (None, "lower"):
        warn_of_another_form(trained.reading.form, corpus)  # which can't be undone
    if trained.model.likelihood != "exact":
        logger.warning("%s gives a likelihood that is %s: not exact.", trained.run, trained.model.likelihood)
    found, reading = trials(asked, corpus), trained.reading
    scores = score_trials(
        trained.model,
        found,
        vocabulary=trained.vocabulary,
        reading=reading,
        tokens_per_batch=tokens_per_batch,
        progress=progress,
    )
    sentences = [trial.sentences[place] for trial in found for place in trial.arrangements[0]]
    words = [word for sentence in sentences for word in reading.words(sentence)]
    unknown = {word: is_unknown(trained.vocabulary, word) for word in set(words)}
    facts: dict[str, str | int | float] = {
        "run": str(trained.run),
        "checkpoint": trained.checkpoint.name,
        "likelihood": trained.model.likelihood,
        "corpus": corpus.name,
        "fingerprint": corpus.fingerprint(asked.split),
        "split": asked.split,
        "whole_documents": len({trial.document for trial in found}),
        "documents": len(found),
        "sentences": len(sentences),
        "form": reading.known_form,
        "unknown_share": float(np.mean([unknown[word] for word in words])) if words else 0.0,
        "task": f"{asked.task}: {asked.asked}",
        "seed": asked.seed,
        "resamples": asked.resamples,
    }
    empty = [np.array([not each.candidates.any() for each in trial.questions]) for trial in found]
    chance = answers(found, [np.zeros(len(trial.arrangements)) for trial in found])  # where all are as likely
    return Assessment(asked, facts, answers(found, scores), chance, found, scores, empty)


def answers(found: list[Trial], scores: list[Float[np.ndarray, " _"]]) -> Answers:
    """What a system answers that gives each trial's arrangements these log-likelihoods."""
    credits, distances = [], []
    for trial, own in zip(found, scores, strict=True):
        asked = [(own[each.candidates], each.distances) for each in trial.questions]
        credits.append(np.array([credit(likelihoods) for likelihoods, _ in asked]))
        distances.append(np.array([expected_distance(*each) for each in asked]))
    names, documents = (tuple(getattr(trial, name) for trial in found) for name in ("name", "document"))
    return Answers(names, documents, credits, distances)


def coherence(
    *,
    run: str | None = None,
    form: FormName | None = None,
    against: Path | None = None,
    output: Path | None = None,
    tokens_per_batch: int = 65_536,
    device: str | None = None,
    json: bool = False,
    questions: CoherenceTask = CoherenceTask(),  # noqa: B008 - frozen
) -> str:
    """How often a run finds documents likelier than other arrangements of sentences, per cent; tab-separated.

    Args:
        run: a run folder (its best checkpoint) or a checkpoint file; by default the newest run.
        form: what words are brought into, as in `depgen score`: by default the form of the run's own corpus.
        against: another run's `--output` of the same task: the difference of the two accuracies, with its 95 % interval
            over documents (pieces of one are drawn together); and the z of the paper, which is of resampled test sets.
        output: a file for the answers about each document, as JSON, with the order and the log-probability of each
            arrangement.
        tokens_per_batch: read at a time; no figure depends on it.
        device: cpu, cuda, …; by default a GPU where there is one.
        json: print JSON.
        questions: about which documents, and how many.

    Raises:
        UserError: no such run or file, a system without likelihood, or nothing to ask about.
    """
    if output is not None:
        check_output(output)
    other = None if against is None else _read(against)
    trained = load_trained(run, device=device, form=form)
    found = assess(trained, questions, tokens_per_batch=tokens_per_batch, progress=sys.stderr.isatty())
    compared = {} if other is None or against is None else _compared(found, other, against)
    content = {**found.facts, **found.measures, **compared}
    if output is not None:
        # A line a document.
        documents = ",\n".join(
            f"  {dumps(json_ready(each), ensure_ascii=False, allow_nan=False)}" for each in found.documents
        )
        facts = dumps(json_ready(content), indent=1, ensure_ascii=False, allow_nan=False).removesuffix("\n}")
        write_atomically(output, f'{facts},\n "documents_asked": [\n{documents}\n ]\n}}\n')
    return dumps(json_ready(content), allow_nan=False) if json else _table(content)


@dataclass(frozen=True)
class _Earlier:
    """What an earlier call has written: its facts, and the credits of each document by its name."""

    facts: dict[str, Any]
    names: tuple[str, ...]
    credits: Credits


def _read(path: Path) -> _Earlier:
    """What an earlier call has written.

    Raises:
        UserError: nothing is there, or something else.
    """
    try:
        content = loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"No answers at {path}: depgen coherence --run RUN --output {path} writes some.") from None
    except OSError as error:
        raise UserError(f"{path}: expected a file that depgen coherence --output writes: {error}.") from error
    except (JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: expected what depgen coherence --output writes, found no JSON: {error}.") from error
    try:
        asked = content["documents_asked"]
        credits = [np.array(each["credits"], dtype=np.float64).reshape(len(each["credits"])) for each in asked]
        return _Earlier({**content, "run": str(content["run"])}, tuple(each["name"] for each in asked), credits)
    except (KeyError, TypeError, ValueError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else "other JSON"
        raise UserError(f"{path}: expected what depgen coherence --output writes, found {what}.") from error


_SAME = ("corpus", "fingerprint", "split", "documents", "sentences", "task", "seed", "resamples")


def _compared(found: Assessment, other: _Earlier, path: Path) -> dict[str, str | float]:
    """The difference from another run's accuracy, over the same questions; and the published z.

    Raises:
        UserError: the other run had other questions.
    """
    own = found.answers
    differing = [
        f"{name} is {other.facts[name]} there" if name in other.facts else f"it does not say its {name}"
        for name in _SAME
        if other.facts.get(name) != found.facts[name]
    ]
    if not differing and other.names != own.names:
        differing = ["other documents"]
    if not differing:
        rows = zip(own.names, own.credits, other.credits, strict=True)
        differing = [f"{name} has {len(b)} answers there and {len(a)} here" for name, a, b in rows if len(a) != len(b)]
    if differing:
        raise UserError(
            f"{path}: its run had other questions: {', '.join(differing[:5])}. Use the same options for both runs."
        )
    theirs = Answers(own.names, own.documents, other.credits, other.credits)
    interval = paired_interval(own.by_document, theirs.by_document, own.document_numbers)
    first, second = found.accuracies, theirs.accuracies(found.asked)
    means, deviations = (float(first.mean()), float(second.mean())), (float(first.std()), float(second.std()))
    z = z_statistic(means, deviations, resamples=len(first))
    return {
        "against": other.facts["run"],
        "difference": interval.value,
        "difference_low": interval.low,
        "difference_high": interval.high,
        "published_z": z,
        "published_p_one_sided": one_sided_p(z),
    }


def _table(content: dict[str, str | int | float]) -> str:
    """A line a fact and a line a measure."""
    shares = ("unknown_share", "published_p_one_sided")
    return "\n".join(
        f"{name}\t{value:.{4 if name in shares else 2}f}" if isinstance(value, float) else f"{name}\t{value}"
        for name, value in content.items()
    )
