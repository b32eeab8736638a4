"""Training of a spaCy pipeline (tagger and dependency parser over one tok2vec network) on a treebank, on the CPU."""

import logging
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from depgen.annotation.scores import ParserScores, attachment_scores
from depgen.trees.sentence import Sentence

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SpacyTraining:
    """Options of a spaCy training run.

    Attributes:
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
    """

    steps: int = 3000
    words_per_batch: int = 1000
    first_words_per_batch: int = 100
    learning_rate: float = 2e-3
    warmup: int = 100
    dropout: float = 0.1
    evaluate_every: int = 300
    width: int = 96
    depth: int = 4
    min_action_freq: int = 10


def use_numpy_ops() -> None:
    """Let thinc multiply matrices through numpy: spaCy's own BLIS build is several times slower on many CPUs.

    Thinc has no configuration option for it; it holds for pipelines built or loaded afterwards in this context.
    """
    from thinc.api import NumpyOps, set_current_ops

    set_current_ops(NumpyOps(use_blis=False))


def document(vocab: Any, sentence: Sentence, *, gold: bool) -> Any:
    """A spaCy `Doc` that holds exactly this sentence, so that the parser cannot split it into several trees."""
    from spacy.tokens import Doc

    words = list(sentence.words)
    if not gold:
        return Doc(vocab, words=words, sent_starts=[True] + [False] * (len(words) - 1))
    assert sentence.heads is not None and sentence.relations is not None
    heads = [index if head == 0 else head - 1 for index, head in enumerate(sentence.heads)]
    relations = ["ROOT" if head == 0 else rel for head, rel in zip(sentence.heads, sentence.relations, strict=True)]
    return Doc(vocab, words=words, tags=list(sentence.tags or ()) or None, heads=heads, deps=relations)


def tree_of(doc: Any) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Heads (1-based, 0 = root) and relations of a parsed `Doc`; spaCy's `ROOT` becomes `root`."""
    heads = tuple(0 if token.head.i == token.i else token.head.i + 1 for token in doc)
    relations = tuple("root" if token.head.i == token.i else token.dep_ for token in doc)
    return heads, relations


def train_spacy(
    train: Sequence[Sentence],
    valid: Sequence[Sentence],
    *,
    options: SpacyTraining,
    seed: int,
    tagged: bool,
) -> tuple[Any, ParserScores]:
    """A trained pipeline with the weights that were best on `valid`, and their scores there.

    Args:
        train: sentences with heads and relations, and with tags when `tagged`.
        valid: the like, to choose the weights by.
        options: sizes and budget.
        seed: of weights and batches.
        tagged: also train a tagger, which helps the shared network.
    """
    from spacy.training import Example
    from spacy.util import fix_random_seed

    use_numpy_ops()
    fix_random_seed(seed)
    pipeline = _blank_pipeline(options, tagged=tagged)
    examples = [
        Example(document(pipeline.vocab, sentence, gold=False), document(pipeline.vocab, sentence, gold=True))
        for sentence in train
    ]
    optimizer = pipeline.initialize(lambda: examples, sgd=_optimizer(options))
    best: tuple[float, bytes, ParserScores] | None = None
    started = time.perf_counter()
    batches = _batches(examples, options, random.Random(seed))
    for step in _progress(options.steps):
        pipeline.update(next(batches), drop=options.dropout, sgd=optimizer)
        optimizer.step_schedules()
        if (step + 1) % options.evaluate_every == 0 or step + 1 == options.steps:
            with pipeline.use_params(optimizer.averages):
                scores = evaluate(pipeline, valid)
                content = pipeline.to_bytes()
            seconds = time.perf_counter() - started
            logger.info("step %d of %d (%.0f s): valid %s", step + 1, options.steps, seconds, scores.summary())
            if best is None or scores.las > best[0]:
                best = (scores.las, content, scores)
    assert best is not None
    pipeline.from_bytes(best[1])
    return pipeline, best[2]


def evaluate(pipeline: Any, gold: Sequence[Sentence], *, batch_size: int = 64) -> ParserScores:
    """Attachment scores of a pipeline on sentences with gold words, and its speed in words per second."""
    started = time.perf_counter()
    docs = list(pipeline.pipe((document(pipeline.vocab, s, gold=False) for s in gold), batch_size=batch_size))
    seconds = time.perf_counter() - started
    trees = [tree_of(doc) for doc in docs]
    predicted = [
        Sentence(sentence.words, heads=heads, relations=relations, tags=tuple(token.tag_ for token in doc))
        for sentence, (heads, relations), doc in zip(gold, trees, docs, strict=True)
    ]
    return attachment_scores(gold, predicted, seconds=seconds)


def _blank_pipeline(options: SpacyTraining, *, tagged: bool) -> Any:
    import spacy
    from spacy.cli.init_config import init_config

    names = ["tagger", "parser"] if tagged else ["parser"]
    config = init_config(lang="en", pipeline=names, optimize="efficiency", silent=True)
    encoder = config["components"]["tok2vec"]["model"]["encode"]
    encoder["width"], encoder["depth"] = options.width, options.depth
    config["components"]["parser"]["min_action_freq"] = options.min_action_freq
    # `init_config` gives a language-specific config whose readers are never opened here.
    return spacy.util.load_model_from_config(config, auto_fill=True)


def _optimizer(options: SpacyTraining) -> Any:
    """Adam as spaCy's own configuration has it, with averaged weights and a rate that falls to 0 with the budget."""
    from thinc.api import Adam, warmup_linear

    schedule = warmup_linear(options.learning_rate, options.warmup, options.steps)
    return Adam(schedule, L2=0.01, L2_is_weight_decay=True, grad_clip=1.0, use_averages=True)


def _batches(examples: list[Any], options: SpacyTraining, generator: random.Random) -> Iterator[list[Any]]:
    """Endless batches of examples, reshuffled each pass, whose words grow from the first size to the last."""
    size = float(options.first_words_per_batch)
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
                size = min(float(options.words_per_batch), size * 1.004)
        if batch:
            yield batch


def _progress(steps: int) -> Iterator[int]:
    from rich.console import Console
    from rich.progress import track

    yield from track(range(steps), description="Training the parser", console=Console(stderr=True))
