"""`depgen coherence`: how often a run finds documents likelier than other arrangements of sentences.

Likelihoods are of whole documents, exact or, from masked systems, pseudo; these read every sentence by itself, as
RNNLM does, so that all orders of a document are as likely and only endings differ.
"""

import logging
import sys
from dataclasses import dataclass
from json import JSONDecodeError, dumps, loads
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from depgen.data.corpus import Corpus, Split
from depgen.data.experiment import data_of
from depgen.data.vocabulary import is_unknown
from depgen.errors import UserError
from depgen.evaluation.coherence.arrangements import CoherenceTask, Task, Trial, trials
from depgen.evaluation.coherence.scoring import score_trials
from depgen.evaluation.forms import warn_of_another_form
from depgen.evaluation.trained import Trained, load_trained
from depgen.locations import write_atomically
from depgen.metrics.coherence import (
    Credits,
    Resamples,
    credit,
    expected_distance,
    mean_over_documents,
    one_sided_p,
    paired_interval,
    resampled_means,
    tie_rate,
    z_test,
)
from depgen.metrics.significance import Interval
from depgen.training.guards import check_writable

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answers:
    """How a system answered the questions about each document; one array a document, one entry a question.

    Attributes:
        names: of the documents.
        credits: what each answer is worth (`depgen.metrics.coherence`).
        distances: how far from where it belongs a sentence was put; zeros in tasks that move none.
    """

    names: tuple[str, ...]
    credits: Credits
    distances: Credits

    def accuracies(self, asked: CoherenceTask) -> Resamples:
        """Of the resampled test sets, per cent."""
        return 100 * resampled_means(self.credits, resamples=asked.resamples, seed=asked.seed)


@dataclass(frozen=True)
class Assessment:
    """A run's answers about a corpus.

    Attributes:
        asked: the task.
        facts: what was asked of whom, by name.
        answers: the run's.
        chance: those of guessing.
    """

    asked: CoherenceTask
    facts: dict[str, str | int | float]
    answers: Answers
    chance: Answers

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

        `accuracy` is over all questions, what the mean over resampled sets tends to.
        """
        resampled = self.accuracies
        low, high = np.quantile(resampled, [0.025, 0.975])
        found = {
            "accuracy": 100 * mean_over_documents(self.answers.credits),
            "resampled_mean": float(resampled.mean()),
            "deviation": float(resampled.std()),
            "low": float(low),
            "high": float(high),
            "chance": 100 * mean_over_documents(self.chance.credits),
            "ties": 100 * tie_rate(self.answers.credits),
        }
        if self.asked.task == "insertion":
            found["distance"] = mean_over_documents(self.answers.distances)
            found["distance_by_chance"] = mean_over_documents(self.chance.distances)
        return found


def assess(
    trained: Trained, asked: CoherenceTask, *, tokens_per_batch: int = 16384, progress: bool = False
) -> Assessment:
    """A run's answers to a task.

    Raises:
        UserError: its system gives texts no likelihood, or the corpus has nothing to ask about.
    """
    data = data_of(trained.run / "config.yaml")
    corpus = asked.corpus or getattr(data, "corpus", None)
    if not isinstance(corpus, Corpus):
        raise UserError(f"{trained.run} was trained on no corpus of documents: name one by --corpus.")
    warn_of_another_form(trained.run, corpus)
    if trained.model.likelihood != "exact":
        logger.warning("%s gives a likelihood that is %s: not exact.", trained.run, trained.model.likelihood)
    found = trials(asked, corpus)
    scores = score_trials(
        trained.model,
        found,
        vocabulary=trained.vocabulary,
        final_word_twice=getattr(data, "duplicate_final_word", False),
        tokens_per_batch=tokens_per_batch,
        progress=progress,
    )
    words = [word for trial in found for sentence in trial.arrangements[0] for word in trial.sentences[sentence]]
    unknown = {word: is_unknown(trained.vocabulary, word) for word in set(words)}
    facts: dict[str, str | int | float] = {
        "run": str(trained.run),
        "checkpoint": trained.checkpoint.name,
        "likelihood": trained.model.likelihood,
        "corpus": corpus.name,
        "split": asked.split,
        "documents": len(found),
        "sentences": sum(trial.arrangements.shape[1] for trial in found),
        "unknown_words": float(np.mean([unknown[word] for word in words])),
        "task": f"{asked.task}: {asked.asked}",
        "seed": asked.seed,
        "resamples": asked.resamples,
    }
    return Assessment(asked, facts, answers(found, scores), _guesses(found))


def answers(found: list[Trial], scores: list[Float[np.ndarray, " _"]]) -> Answers:
    """What a system answers that gives each trial's arrangements these log-likelihoods."""
    credits, distances = [], []
    for trial, own in zip(found, scores, strict=True):
        asked = [(own[each.candidates], each.distances) for each in trial.questions]
        credits.append(np.array([credit(likelihoods) for likelihoods, _ in asked]))
        distances.append(np.array([expected_distance(*each) for each in asked]))
    return Answers(tuple(trial.name for trial in found), credits, distances)


def _guesses(found: list[Trial]) -> Answers:
    """What is answered where all are as likely."""
    return answers(found, [np.zeros(len(trial.arrangements)) for trial in found])


def coherence(
    *,
    run: str | None = None,
    task: Task = "order",
    corpus: Corpus | None = None,
    split: Split = "test",
    max_documents: int | None = None,
    sentences: int | None = None,
    shuffles: int = 24,
    insertions: int | None = None,
    distractors: int = 3,
    seed: int = 0,
    resamples: int = 1000,
    against: Path | None = None,
    output: Path | None = None,
    tokens_per_batch: int = 16384,
    device: str | None = None,
    json: bool = False,
) -> str:
    """How often a run finds documents likelier than other arrangements of sentences, per cent; tab-separated.

    Args:
        run: a run folder (its best checkpoint) or a checkpoint file; by default the newest run.
        task: `order`, the document or its sentences shuffled; `insertion`, where a sentence belongs that was taken out;
            `ending`, its own last sentence or another document's.
        corpus: whose documents; by default that of the run's own.
        split: of it.
        max_documents: only the first so many; by default all.
        sentences: cut documents into pieces of like length of at most so many sentences, each a document from here on.
        shuffles: (order) of each document.
        insertions: (insertion) sentences that are taken out of each document, one at a time; by default every one.
        distractors: (ending) last sentences of other documents, each against the true one.
        seed: of all draws; they depend on it and on the corpus alone.
        resamples: of the test set.
        against: another run's `--output` of the same task: the difference, with the z-test and a paired interval.
        output: a file for the answers about each document, as JSON.
        tokens_per_batch: read at a time; no figure depends on it.
        device: cpu, cuda, …; by default a GPU where there is one.
        json: print JSON.

    Raises:
        UserError: no such run or file, a system without likelihood, nothing to ask about, numbers out of range.
    """
    asked = CoherenceTask(
        task, corpus, split, max_documents, sentences, shuffles, insertions, distractors, seed, resamples
    )
    if tokens_per_batch < 1:
        raise UserError(f"--tokens-per-batch must be at least 1, found {tokens_per_batch}.")
    if output is not None:
        check_writable(output.parent)
        if output.is_dir():
            raise UserError(f"--output {output} is a folder: name a file.")
    other = None if against is None else _read(against)
    trained = load_trained(run, device=device)
    found = assess(trained, asked, tokens_per_batch=tokens_per_batch, progress=sys.stderr.isatty())
    compared = {} if other is None or against is None else _compared(found, other, against)
    content = {**found.facts, **found.measures, **compared}
    if output is not None:
        write_atomically(output, dumps({**content, "documents_asked": _documents(found.answers)}, indent=1) + "\n")
    return dumps(content) if json else _table(content)


def _documents(found: Answers) -> list[dict[str, Any]]:
    """Each document's answers, as JSON holds them."""
    rows = zip(found.names, found.credits, found.distances, strict=True)
    return [{"name": name, "credits": own.tolist(), "distances": far.tolist()} for name, own, far in rows]


def _read(path: Path) -> dict[str, Any]:
    """What an earlier call has written.

    Raises:
        UserError: nothing is there, or something else.
    """
    try:
        content = loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"No answers at {path}: depgen coherence --run RUN --output {path} writes some.") from None
    except (JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: expected what depgen coherence --output writes, found no JSON: {error}.") from error
    if not isinstance(content, dict) or "documents_asked" not in content:
        raise UserError(f"{path}: expected what depgen coherence --output writes, found other JSON.")
    return content


_SAME = ("corpus", "split", "documents", "sentences", "task", "seed", "resamples")


def _compared(found: Assessment, other: dict[str, Any], path: Path) -> dict[str, str | float]:
    """The difference from another run's accuracy, over the same draws.

    Raises:
        UserError: the other run was asked something else.
    """
    differing = [f"{name} is {other.get(name)} there" for name in _SAME if other.get(name) != found.facts[name]]
    names = tuple(each["name"] for each in other["documents_asked"])
    if differing or names != found.answers.names:
        raise UserError(f"{path}: its run was asked something else: {', '.join(differing) or 'other documents'}.")
    credits = [np.array(each["credits"]) for each in other["documents_asked"]]
    theirs = Answers(names, credits, credits).accuracies(found.asked)
    interval: Interval = paired_interval(found.accuracies, theirs)
    z = z_test(found.accuracies, theirs).statistic
    assert z is not None
    return {
        "against": str(other["run"]),
        "difference": interval.value,
        "difference_low": interval.low,
        "difference_high": interval.high,
        "z": z,
        "p_one_sided": one_sided_p(z),
    }


def _table(content: dict[str, str | int | float]) -> str:
    """A line a fact and a line a measure."""
    shares = ("unknown_words", "p_one_sided")
    return "\n".join(
        f"{name}\t{value:.{4 if name in shares else 2}f}" if isinstance(value, float) else f"{name}\t{value}"
        for name, value in content.items()
    )
