"""How likely each row's system finds a text, how fast it scores it, and how fast it was trained."""

from itertools import islice

import numpy as np

from depgen.errors import check_at_least
from depgen.evaluation.scores import PERPLEXITY, score_words, sums, with_perplexities
from depgen.evaluation.system import load
from depgen.evaluation.text_documents import TextDocument
from depgen.evaluation.trained import Trained, load_trained
from depgen.evaluation.trees.parsing import ParsingOptions
from depgen.metrics.perplexity import perplexity
from depgen.reporting.measurement import numbers_of_test
from depgen.reporting.measures.speed import now
from depgen.reporting.measures.syntax import bound_in_words
from depgen.reporting.numbers import Measure, Numbers, TrainedRow
from depgen.reporting.results import BOUND, RunFacts
from depgen.reporting.table import TOKENS, WORDS, settings_as
from depgen.training.evaluated import SplitNumbers
from depgen.trees.sentence import Document

TOKENS_PER_BATCH = 32_768
"""About a dozen of Brown's documents, so that systems of documents read several at once too."""


OWN = ("perplexity", "word_perplexity", "loss", "unk_rate", TOKENS, WORDS)
"""What a system's own test gives is of other items, or of another kind of likelihood, than `Scores`."""


class Scores(Measure):
    """Likelihood and speed of a run on one text for all rows; they replace the figures of its test.

    Args:
        text: the YAML in `experiments/` (without its ending) of that text.
    """

    replaces = OWN

    def __init__(self, text: str) -> None:
        self.text = text

    def measure(self, row: TrainedRow) -> Numbers:
        """The numbers of `scores_of`."""
        text = settings_as(ParsingOptions, self.text)
        return scores_of(load_trained(row.trained.run), text, row.facts)


def scores_of(trained: Trained, text: ParsingOptions, facts: RunFacts) -> Numbers:
    """Perplexity, or pseudo-perplexity, of a text per word, tokens per second of scoring and of training, and sizes.

    Each `<eos>` counts as a word. Systems that know of sentences read documents, the others each sentence by itself.
    Pseudo-perplexity is over the words that the vocabulary has: no masked system learns to predict `<unk>`.

    Raises:
        UserError: the text is not at hand, or the system gives texts no likelihood.
    """
    documents = [_as_text(document) for split in text.splits for document in text.corpus.documents(split)]
    model = trained.model
    began = now(model.device)
    scored = score_words(trained, documents, tokens_per_batch=TOKENS_PER_BATCH)
    seconds = now(model.device) - began
    by_document = sums(scored, ["document"])
    (everything,) = with_perplexities(sums(scored), model.likelihood).to_dict("records")
    found = Numbers({"inner_parameters": _inner_parameters(trained)})
    tokens = facts.curve[-1][0] if facts.curve else facts.budget.train_tokens
    if facts.clock and tokens is not None and facts.clock[-1][1] > 0:  # validation included, at the last point logged
        found.metrics["training_speed"] = tokens / facts.clock[-1][1]
    else:
        found.not_computed["training_speed"] = "the run kept no wall time"
    found.metrics["scoring_speed"] = everything["tokens"] / seconds
    name = PERPLEXITY[model.likelihood]
    for other in {*PERPLEXITY.values()} - {name}:
        found.not_computed[other] = f"its likelihood is {model.likelihood}"
    value = everything[f"known_word_{name}" if model.likelihood == "pseudo" else name]
    if np.isnan(value):
        found.not_computed[name] = "the text has no word that it knows"
        return found
    found.metrics[name] = value
    if model.likelihood == "exact":
        words = (by_document["words"] + by_document["ends"]).to_numpy(np.float64)
        found.metrics["unk_rate"] = everything["unknown"] / words.sum()
        found.items.update({"perplexity": -by_document["log_prob"].to_numpy() / words, TOKENS: words})
    return found


class FirstOfTest(Measure):
    """Perplexity of the first documents of a run's test split, which replaces that of the whole split.

    Scores that are bounds are sums over as many hypotheses as the row's `beam_size` says.

    Args:
        documents: how many.
    """

    replaces = OWN

    def __init__(self, documents: int) -> None:
        check_at_least(1, documents=documents)
        self.documents = documents

    def measure(self, row: TrainedRow) -> Numbers:
        """Perplexity per token and per word, with the items of both, as `depgen test` has them.

        Raises:
            UserError: the system gives documents no likelihood.
        """
        texts = [_as_text(each) for each in islice(row.corpus.documents("test"), self.documents)]
        scores = load(str(row.trained.run)).score(texts, reads="document", beam_size=row.job.row.beam_size)
        totals = sums(scores, ["document"])
        nll, tokens = (-totals["log_prob"]).to_numpy(), totals["tokens"].to_numpy(np.float64)
        words = (totals["words"] + totals["ends"]).to_numpy(np.float64)
        over = {"perplexity": tokens, "word_perplexity": words}
        metrics = {name: perplexity(nll.sum(), each.sum()) for name, each in over.items()}
        found = numbers_of_test(SplitNumbers(metrics, nll / tokens, tokens, words))
        found.settings.update(dict.fromkeys(metrics, f"the first {len(texts):,} test sentences"))
        bound = bound_in_words(scores["beam_size"].iloc[0])
        found.settings.update({} if bound is None else {"perplexity" + BOUND: bound})
        return found


def _as_text(document: Document) -> TextDocument:
    """The same as `depgen score` takes it, each sentence named by its document."""
    return TextDocument(document.identifier, document.sentences, (document.identifier,) * len(document.sentences))


def _inner_parameters(trained: Trained) -> float:
    """Millions of trained numbers outside the matrices and biases that have a row a word."""
    return sum(each.numel() for each in trained.model.parameters() if trained.vocabulary.size not in each.shape) / 1e6
