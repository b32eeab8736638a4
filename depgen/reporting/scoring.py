"""How likely each row's system finds one and the same text, how fast it scores it, and how fast it was trained."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray

from depgen.data.vocabulary import encode
from depgen.evaluation.likelihood import score_documents
from depgen.evaluation.scored_text import PERPLEXITY
from depgen.evaluation.trained import Trained, load_trained
from depgen.reporting.intervals import TOKENS
from depgen.reporting.jobs import Job
from depgen.reporting.parses import Treebank, treebank_of
from depgen.reporting.run_facts import RunFacts
from depgen.trees.sentence import Document

OWN = ("perplexity", "word_perplexity", "loss", "unk_rate", TOKENS)
"""What a system's own test gives is of other items, or of another kind of likelihood."""
TOKENS_PER_BATCH = 4096


@dataclass(frozen=True)
class ScoreNumbers:
    """Numbers by column key, per-document ones, and why others are not there; as in `Result`."""

    metrics: dict[str, float] = field(default_factory=dict)
    items: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    not_computed: dict[str, str] = field(default_factory=dict)

    def beside(
        self, metrics: Mapping[str, float], items: Mapping[str, NDArray[np.float64]]
    ) -> tuple[dict[str, float], dict[str, NDArray[np.float64]]]:
        """Other numbers and these, which take the place of those that the system's own test gives."""
        dropped = OWN if self.metrics else ()
        kept = {name: value for name, value in metrics.items() if name not in dropped}
        kept_items = {name: values for name, values in items.items() if name not in dropped}
        return kept | self.metrics, kept_items | self.items


def measure_scores(job: Job, run: Path, facts: RunFacts) -> ScoreNumbers:
    """Nothing where the table names no text to score; else the numbers of `scores_of`."""
    if job.definition.scoring is None:
        return ScoreNumbers()
    return scores_of(load_trained(run), treebank_of(job.definition.scoring), facts)


def scores_of(trained: Trained, text: Treebank, facts: RunFacts) -> ScoreNumbers:
    """Perplexity, or pseudo-perplexity, of a text per word, tokens per second of scoring and of training, and sizes.

    Each `<eos>` counts as a word. Systems that know of sentences read documents, the others each sentence by itself.
    Pseudo-perplexity is over the words that the vocabulary has: no masked system learns to predict `<unk>`.

    Raises:
        UserError: the text is not at hand, or the system gives texts no likelihood.
    """
    documents = [document for split in text.splits for document in text.corpus.documents(split)]
    scored = _scored(trained, documents)
    found = ScoreNumbers(metrics=_sizes(trained) | _training_speed(facts))
    found.metrics["scoring_speed"] = scored.tokens / scored.seconds
    if "training_speed" not in found.metrics:
        found.not_computed["training_speed"] = "the run kept no wall time"
    kind = trained.model.likelihood
    for other in {*PERPLEXITY.values()} - {PERPLEXITY[kind]}:
        found.not_computed[other] = f"its likelihood is {kind}"
    if kind == "pseudo":
        known = scored.words.sum() - scored.unknown.sum()
        found.metrics[PERPLEXITY[kind]] = math.exp(scored.known_nll.sum() / known)
        return found
    found.metrics[PERPLEXITY[kind]] = math.exp(scored.nll.sum() / scored.words.sum())
    if kind == "exact":
        found.metrics["unk_rate"] = float(scored.unknown.sum() / scored.words.sum())
        found.items.update({"perplexity": scored.nll / scored.words, TOKENS: scored.words})
    return found


@dataclass(frozen=True)
class _Scored:
    """Nats and counts of each document; words that are `<unk>` are left out of `known_nll`."""

    nll: Float[np.ndarray, " documents"]
    known_nll: Float[np.ndarray, " documents"]
    words: Float[np.ndarray, " documents"]
    unknown: Float[np.ndarray, " documents"]
    tokens: int
    seconds: float


def _scored(trained: Trained, documents: Sequence[Document]) -> _Scored:
    model, vocabulary = trained.model, trained.vocabulary
    sentences = [sentence for document in documents for sentence in document.sentences]
    encodings = [encode(vocabulary, sentence.words) for sentence in sentences]
    ids = [each.ids.tolist() for each in encodings]
    of_document = np.repeat(np.arange(len(documents)), [len(document.sentences) for document in documents])
    cuts = np.cumsum([len(document.sentences) for document in documents])[:-1]
    whole = [[ids[place] for place in part] for part in np.split(np.arange(len(ids)), cuts)]
    units = whole if model.reads_sentences else [[each] for each in ids]
    began = _now(model.device)
    scores = score_documents(model, units, vocabulary=vocabulary, tokens_per_batch=TOKENS_PER_BATCH)
    seconds = _now(model.device) - began
    columns = np.zeros((4, len(documents)))
    flat = [each for unit in scores for each in unit]
    for document, encoding, log_probs in zip(of_document, encodings, flat, strict=True):
        costs = -log_probs.astype(np.float64)
        is_unknown = np.zeros(len(costs), dtype=bool)
        is_unknown[: len(encoding.ids)] = encoding.ids == vocabulary.unk
        count = len(np.unique(encoding.word_of_piece)) + len(costs) - len(encoding.ids)
        columns[:, document] += costs.sum(), costs[~is_unknown].sum(), count, is_unknown.sum()
    nll, known, words, unknown = columns
    return _Scored(nll, known, words, unknown, tokens=sum(map(len, flat)), seconds=seconds)


def _now(device: torch.device) -> float:
    """Seconds, once the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _sizes(trained: Trained) -> dict[str, float]:
    """Millions of trained numbers outside the matrices and biases that have a row a word."""
    inner = [each.numel() for each in trained.model.parameters() if trained.vocabulary.size not in each.shape]
    return {"inner_parameters": sum(inner) / 1e6}


def _training_speed(facts: RunFacts) -> dict[str, float]:
    """Training tokens over seconds of wall time, validation included, at the last point that the run has logged."""
    if not facts.clock or not facts.curve or facts.clock[-1][1] <= 0:
        return {}
    return {"training_speed": facts.curve[-1][0] / facts.clock[-1][1]}
