"""Training of a spaCy pipeline (tagger and dependency parser over one tok2vec network) on a treebank, on the CPU."""

import logging
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from depgen.annotation.scores import ParserScores, attachment_scores
from depgen.annotation.spacy_documents import document, tree_of
from depgen.annotation.spacy_pipelines import use_numpy_ops
from depgen.annotation.training import ParserTraining
from depgen.errors import check_at_least
from depgen.trees.sentence import Sentence

logger = logging.getLogger(__name__)

GROWTH = 1.004
"""Factor by which the words of a batch grow at each step, until they reach `words_per_batch`."""


class SpacyTraining(ParserTraining):
    """A spaCy pipeline of tagger and parser; the sizes of spaCy's own `efficiency` settings.

    Args:
        steps: updates of the weights; the budget is steps, so that the result does not depend on the machine's load.
        words_per_batch: words an update sees; it grows to this from `first_words_per_batch`.
        first_words_per_batch: words of the first update.
        learning_rate: the peak of Adam's rate, reached after `warmup` steps; it then falls to 0 in a line.
        warmup: steps of linear warm-up.
        dropout: of the whole pipeline.
        evaluate_every: steps between two evaluations on the development set, whose best LAS is kept.
        width: of the tok2vec network.
        depth: convolutions of the tok2vec network.
        min_action_freq: relations rarer than this are given the relation `dep`.
        tagger: also train a tagger where the treebank has tags, which helps the shared network.

    Raises:
        UserError: a size of nothing.
    """

    kind = "spaCy"

    def __init__(
        self,
        *,
        steps: int = 3000,
        words_per_batch: int = 1000,
        first_words_per_batch: int = 100,
        learning_rate: float = 2e-3,
        warmup: int = 100,
        dropout: float = 0.1,
        evaluate_every: int = 300,
        width: int = 96,
        depth: int = 4,
        min_action_freq: int = 10,
        tagger: bool = True,
    ) -> None:
        check_at_least(
            1, steps=steps, words_per_batch=words_per_batch, first_words_per_batch=first_words_per_batch,
            evaluate_every=evaluate_every, width=width, depth=depth,
        )  # fmt: skip
        self.steps, self.warmup, self.learning_rate, self.dropout = steps, warmup, learning_rate, dropout
        self.words_per_batch, self.first_words_per_batch = words_per_batch, first_words_per_batch
        self.evaluate_every, self.width, self.depth = evaluate_every, width, depth
        self.min_action_freq, self.tagger = min_action_freq, tagger

    def options(self) -> dict[str, Any]:
        """All arguments."""
        return dict(vars(self))

    def train(self, train: list[Sentence], valid: list[Sentence], *, seed: int) -> "SpacyPipeline":
        """The pipeline with the weights that had the best LAS on `valid`."""
        from spacy.training import Example
        from spacy.util import fix_random_seed

        use_numpy_ops()
        fix_random_seed(seed)
        pipeline = self._blank_pipeline(tagged=self.tagger and train[0].tags is not None)
        vocab = pipeline.vocab
        examples = [Example(document(vocab, s, gold=False), document(vocab, s, gold=True)) for s in train]
        optimizer = pipeline.initialize(lambda: examples, sgd=self._optimizer())
        best: tuple[float, bytes] | None = None
        started = time.perf_counter()
        batches = self._batches(examples, random.Random(seed))
        for step in _progress(self.steps):
            pipeline.update(next(batches), drop=self.dropout, sgd=optimizer)
            optimizer.step_schedules()
            if step % self.evaluate_every == 0 or step == self.steps:
                with pipeline.use_params(optimizer.averages):
                    scores = SpacyPipeline(pipeline).evaluate(valid)
                    content = pipeline.to_bytes()
                seconds = time.perf_counter() - started
                logger.info("step %d of %d (%.0f s): valid %s", step, self.steps, seconds, scores.summary())
                if best is None or scores.las > best[0]:
                    best = (scores.las, content)
        assert best is not None
        pipeline.from_bytes(best[1])
        return SpacyPipeline(pipeline)

    def _blank_pipeline(self, *, tagged: bool) -> Any:  # noqa: ANN401  (spaCy's Language)
        from spacy.cli.init_config import init_config
        from spacy.util import load_model_from_config

        names = ["tagger", "parser"] if tagged else ["parser"]
        config = init_config(lang="en", pipeline=names, optimize="efficiency", silent=True)
        encoder = config["components"]["tok2vec"]["model"]["encode"]
        encoder["width"], encoder["depth"] = self.width, self.depth
        config["components"]["parser"]["min_action_freq"] = self.min_action_freq
        return load_model_from_config(config, auto_fill=True)

    def _optimizer(self) -> Any:  # noqa: ANN401  (thinc's Optimizer)
        """Adam as in spaCy's own configuration, with averaged weights and a rate that falls to 0 with the budget."""
        from thinc.api import Adam, warmup_linear

        schedule = warmup_linear(self.learning_rate, self.warmup, self.steps)
        return Adam(schedule, L2=0.01, L2_is_weight_decay=True, grad_clip=1.0, use_averages=True)

    def _batches(self, examples: list[Any], generator: random.Random) -> Iterator[list[Any]]:
        """Endless batches of examples, reshuffled each pass, whose words grow from the first size to the last."""
        size = float(self.first_words_per_batch)
        while True:
            generator.shuffle(examples)
            batch: list[Any] = []
            words = 0
            for example in examples:
                batch.append(example)
                words += len(example.reference)
                if words >= size:
                    yield batch
                    batch, words = [], 0
                    size = min(float(self.words_per_batch), size * GROWTH)
            if batch:
                yield batch


class SpacyPipeline:
    """A spaCy pipeline in memory, with its scores and its file."""

    def __init__(self, pipeline: Any) -> None:  # noqa: ANN401  (spaCy's Language)
        self.pipeline = pipeline

    def evaluate(self, gold: Sequence[Sentence]) -> ParserScores:
        """Attachment scores on sentences with gold words, and the speed of the whole pipeline in words per second."""
        pipeline = self.pipeline
        started = time.perf_counter()
        docs = list(pipeline.pipe((document(pipeline.vocab, s, gold=False) for s in gold), batch_size=64))
        seconds = time.perf_counter() - started
        tagged = "tagger" in pipeline.pipe_names
        predicted = []
        for sentence, doc in zip(gold, docs, strict=True):
            heads, relations = tree_of(doc)
            tags = tuple(token.tag_ for token in doc) if tagged else None
            predicted.append(Sentence(sentence.words, heads=heads, relations=relations, tags=tags))
        return attachment_scores(gold, predicted, seconds=seconds)

    def save(self, folder: Path, description: dict[str, Any]) -> None:
        """Write the pipeline as spaCy does; `spacy.load` reads it."""
        self.pipeline.meta["description"] = description["scheme"]
        self.pipeline.to_disk(folder)


def _progress(steps: int) -> Iterator[int]:
    """Steps from 1, with a progress bar on standard error where that is a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    counted = range(1, steps + 1)
    yield from track(counted, description="Training the parser", console=console, disable=not console.is_terminal)
