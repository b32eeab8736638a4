"""How likely each row's system finds a text, how fast it scores it, and how fast it was trained."""

import time
from collections.abc import Sequence
from itertools import islice

import numpy as np
import torch

from depgen.data.record import DataSource
from depgen.data.vocabulary import Vocabulary, special_tokens
from depgen.errors import UserError, check_at_least
from depgen.evaluation.scores import PERPLEXITY, score_words, sums, with_perplexities
from depgen.evaluation.system import load
from depgen.evaluation.text_documents import TextDocument
from depgen.evaluation.trained import Trained, load_trained
from depgen.evaluation.treebank import ParsingOptions
from depgen.evaluation.unit_scores import beam_of
from depgen.language_models.left_to_right import LeftToRight
from depgen.language_models.structured import StructuredLanguageModel
from depgen.metrics.item_scores import perplexity
from depgen.reporting.measures import Measure, Numbers, TrainedRow, numbers_of_test
from depgen.reporting.measures.syntax import bound_in_words
from depgen.reporting.results import BOUND, RunFacts
from depgen.reporting.table import TOKENS, WORDS, settings_as
from depgen.training.evaluated import SplitNumbers
from depgen.training.experiment import Experiment
from depgen.training.hyper_parameters import build
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
        """Perplexity per token and per word, with the items of both, as `depgen test` has them."""
        texts = [_as_text(each) for each in islice(row.corpus.documents("test"), self.documents)]
        scores = load(str(row.trained.run)).score(texts, reads="document", beam_size=row.job.row.beam_size)
        totals = sums(scores, ["document"])
        nll, tokens = (-totals["log_prob"]).to_numpy(), totals["tokens"].to_numpy(np.float64)
        words = (totals["words"] + totals["ends"]).to_numpy(np.float64)
        over = {"perplexity": tokens, "word_perplexity": words}
        metrics = {name: perplexity(nll.sum(), int(each.sum())) for name, each in over.items()}
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


# -- speed ------------------------------------------------------------------------------------------------------------

SPEED, BATCHED, MEMORY = "tokens_per_second", "batched_tokens_per_second", "cuda_memory"
TYPES = 32_772
"""The size of the paper's vocabulary."""
RANDOM_SENTENCES, WORDS_OF_EACH, TOKENS_OF_EACH = 4, 24, 33
RANDOM = DataSource(f"{RANDOM_SENTENCES} random sentences", reduced=False)
"""What is scored: as in the paper's text, 24 words are 33 tokens."""


def measure_speed(experiment: Experiment, beam_size: int | None = None) -> Numbers:
    """Tokens a second, ends included, of sentences one by one and all at once; and the memory of the former, in GiB.

    Table 5 of Huang et al. (2026), without training: neither figure depends on the weights, since a beam is full after
    the first words whatever they are. All in single precision, with warm caches, and token by token from the state
    after the tokens before, as in generation: a system without a beam does not read a sentence at once.

    Args:
        experiment: its system is built with fresh weights.
        beam_size: hypotheses of a sentence; None: the system's own, or none.
    """
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = build(experiment.settings["model"], vocabulary_size=TYPES).eval().to(device)
    if not isinstance(model, LeftToRight):
        raise UserError(f"{experiment}: expected a system that scores token by token, found {type(model).__name__}.")
    vocabulary, numbers = random_vocabulary(), Numbers()
    sentences = random_sentences(vocabulary)
    with beam_of(model, beam_size) as size, torch.inference_mode():

        def tokens_per_second(parts: Sequence[list[list[int]]]) -> float:
            began = now(device)
            for rows in parts:
                if size is None:
                    _step_through(model, rows, vocabulary)
                else:
                    model.sentence_log_probs([[row] for row in rows], vocabulary=vocabulary)
            return RANDOM_SENTENCES * (TOKENS_OF_EACH + 1) / (now(device) - began)

        alone = [[sentence] for sentence in sentences]
        tokens_per_second(alone[:1])  # to warm up
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        numbers.metrics[SPEED] = tokens_per_second(alone)
        if device.type == "cuda":
            numbers.metrics[MEMORY] = torch.cuda.max_memory_allocated(device) / 2**30
        else:
            numbers.not_computed[MEMORY] = "measured on a GPU alone"
        tokens_per_second([sentences])  # to warm up
        numbers.metrics[BATCHED] = tokens_per_second([sentences])
    return numbers


def _step_through(model: LeftToRight, rows: Sequence[list[int]], vocabulary: Vocabulary) -> None:
    """Score sentences of one length, token by token, by a system that scores exactly."""
    if isinstance(model, StructuredLanguageModel):
        raise UserError(f"{type(model).__name__} also draws a structure, and its scores are exact: nothing to time.")
    ids = torch.tensor(rows, device=model.device)
    tokens = torch.nn.functional.pad(ids, (1, 1), value=vocabulary.eos)
    total, state = torch.zeros(len(rows), device=model.device), None
    for place in range(tokens.size(1) - 1):
        log_probs, state = model.generation_step(tokens[:, place : place + 1], None, state)
        total += log_probs.gather(1, tokens[:, place + 1 :][:, :1])[:, 0]
    assert bool(total.isfinite().all())


def now(device: torch.device) -> float:
    """Seconds, once the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def random_vocabulary() -> Vocabulary:
    """As many pieces as the paper's vocabulary has; the first half begin words."""
    from tokenizers import Tokenizer, models

    special = special_tokens()
    pieces = [f"{'▁' if number < TYPES // 2 else ''}{number}" for number in range(len(special), TYPES)]
    scored = [(piece, 0.0) for piece in (*special.values(), *pieces)]
    return Vocabulary(Tokenizer(models.Unigram(scored, 1, False)).to_str(), specials=special)


def random_sentences(vocabulary: Vocabulary) -> list[list[int]]:
    """Token ids of sentences, all as long."""
    generator, found = np.random.default_rng(0), list[list[int]]()
    begins, continues = (np.flatnonzero(vocabulary.opens_word == each)[-TYPES // 3 :] for each in (True, False))
    for _ in range(RANDOM_SENTENCES):
        ids = generator.choice(begins, TOKENS_OF_EACH)
        others = 1 + generator.permutation(TOKENS_OF_EACH - 1)[: TOKENS_OF_EACH - WORDS_OF_EACH]
        ids[others] = generator.choice(continues, len(others))
        found.append(ids.tolist())
    return found
