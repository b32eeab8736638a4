"""spaCy's pipelines: sentences as its documents, trees and tags by a pipeline, and its training on a treebank."""

import logging
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from depgen.annotation.annotator import (
    Parse,
    ParserAnnotator,
    check_kind,
    files_digest,
    find_parser,
    lowercase,
    read_description,
)
from depgen.annotation.scores import ParserScores, attachment_scores
from depgen.annotation.training import ParserTraining
from depgen.errors import UserError, check_at_least
from depgen.locations import lines_sha256
from depgen.progress import progress_bar
from depgen.trees.annotator import check_words
from depgen.trees.sentence import Sentence

logger = logging.getLogger(__name__)

SHARED = ("tok2vec", "transformer")
"""Components that others read from."""
GROWTH = 1.004
"""Factor by which the words of a batch grow at each step, until they reach `words_per_batch`."""


def bare_document(vocab: Any, sentence: Sentence) -> Any:  # noqa: ANN401  (spaCy's types)
    """A spaCy `Doc` that holds exactly the words of a sentence, so that the parser cannot split it into two trees."""
    from spacy.tokens import Doc

    return Doc(vocab, words=list(sentence.words), sent_starts=[True] + [False] * (len(sentence) - 1))


def parsed_document(vocab: Any, sentences: Sequence[Sentence], *, spaces: Sequence[bool] | None = None) -> Any:  # noqa: ANN401
    """A spaCy `Doc` of sentences with their trees; `root` becomes spaCy's `ROOT`.

    Args:
        vocab: of a pipeline.
        sentences: with heads and relations.
        spaces: whether a space follows each word; None: after each.
    """
    from spacy.tokens import Doc

    words, tags = list[str](), list[str]()
    heads, relations = [], []
    for sentence in sentences:
        assert sentence.heads is not None
        assert sentence.relations is not None
        first = len(words)
        for index, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True)):
            heads.append(first + (index if head == 0 else head - 1))
            relations.append("ROOT" if head == 0 else relation)
        words += sentence.words
        tags += sentence.tags or ()
    whole = tags if len(tags) == len(words) else []
    return Doc(vocab, words=words, spaces=spaces, tags=whole or None, heads=heads, deps=relations)


def with_tree_of(sentence: Sentence, doc: Any) -> Sentence:  # noqa: ANN401  (a spaCy Doc)
    """The sentence with the heads and relations of a parsed `Doc`; spaCy's `ROOT` becomes `root`."""
    return replace(
        sentence,
        heads=tuple(0 if token.head.i == token.i else token.head.i + 1 for token in doc),
        relations=tuple("root" if token.head.i == token.i else token.dep_ for token in doc),
    )


# -- pipelines that are there -------------------------------------------------------------------------------------


def load_pipeline(name: str, component: str, *, remedy: str = "") -> tuple[Any, bool]:
    """A spaCy `Language` that has nothing but a component and what it reads from; whether it learnt from lower case.

    Args:
        name: of one that was trained here, a folder, or an installed package such as `en_core_web_sm`.
        component: spaCy's name of it, such as `parser`.
        remedy: what a message says to do where the pipeline lacks it.

    Raises:
        UserError: no such pipeline, or one without the component.
    """
    import spacy

    folder = find_parser(name, packages=True)
    check_kind(folder, "spaCy")
    use_numpy_ops()
    try:
        nlp = spacy.load(folder if (folder / "config.cfg").is_file() else name)
    except OSError as error:
        raise UserError(f"{folder}: expected a spaCy pipeline; spaCy says: {error}") from error
    if component not in nlp.pipe_names:
        raise UserError(
            f"{folder}: expected a spaCy pipeline with the component {component}, found {nlp.pipe_names}. {remedy}"
        )
    nlp.select_pipes(enable=[name for name in nlp.pipe_names if name in (*SHARED, component)])
    return nlp, bool(read_description(folder).get("lowercase", False))


def pipeline_fingerprint(name: str) -> str:
    """A digest of what annotations by a pipeline depend on: its files and spaCy's version.

    Raises:
        UserError: no such pipeline.
    """
    return lines_sha256(["spacy", version("spacy"), files_digest(find_parser(name, packages=True))])


def use_numpy_ops() -> None:
    """Let thinc multiply matrices through numpy: spaCy's own BLIS build is several times slower on many CPUs.

    Thinc has no configuration option for it; it holds for pipelines built or loaded afterwards in this context.
    """
    from thinc.api import NumpyOps, set_current_ops

    set_current_ops(NumpyOps(use_blis=False))


class SpacyAnnotator(ParserAnnotator):
    """Gives each sentence the tree that a spaCy pipeline finds; always a single root.

    The pipeline is loaded at the first sentence. A pipeline trained here on a lower-cased treebank sees the words
    lower-cased; the sentences keep theirs.

    Args:
        pipeline: the name of one that was trained here (`depgen train-parser`), a folder, or an installed package such
            as `en_core_web_sm`.
        batch_size: sentences parsed at a time; 64 was the fastest on a CPU. The trees do not depend on it.
    """

    library, packages = "spaCy", True

    def __init__(self, pipeline: str = "ewt_lowercased", batch_size: int = 64) -> None:
        self.pipeline = pipeline
        super().__init__(pipeline, batch_size)

    def _content(self) -> str:
        return pipeline_fingerprint(self.pipeline)

    def _load(self) -> Parse:
        nlp, self._lowercase = load_pipeline(self.pipeline, "parser")

        def parse(sentences: list[Sentence]) -> list[Sentence]:
            docs = nlp.pipe((bare_document(nlp.vocab, each) for each in sentences), batch_size=self.batch_size)
            return [with_tree_of(sentence, doc) for sentence, doc in zip(sentences, docs, strict=True)]

        return parse


class SpacyTagger:
    """The tagger of a spaCy pipeline, which `depgen train-parser` trains with the parser.

    Args:
        pipeline: the name of one that was trained here, a folder, or an installed package such as `en_core_web_sm`.
        batch_size: sentences tagged at a time; the tags do not depend on it.
    """

    def __init__(self, pipeline: str = "ewt_lowercased", batch_size: int = 256) -> None:
        self.pipeline, self.batch_size = pipeline, batch_size
        self.method = f"spaCy pipeline {pipeline}"

    def fingerprint(self) -> str:
        """Of the pipeline's files and spaCy's version."""
        return pipeline_fingerprint(self.pipeline)

    def tag(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The same sentences with tags.

        Raises:
            UserError: no such pipeline, a pipeline without a tagger, a sentence or a word is empty.
        """
        check_words(sentences)
        nlp, lower = load_pipeline(
            self.pipeline,
            "tagger",
            remedy="Train one on a tagged treebank, or name depgen.annotation.tagger.SuffixTagger, which wants none.",
        )
        seen = [lowercase(sentence) for sentence in sentences] if lower else sentences
        docs = nlp.pipe((bare_document(nlp.vocab, each) for each in seen), batch_size=self.batch_size)
        return [
            replace(sentence, tags=tuple(token.tag_ for token in doc))
            for sentence, doc in zip(sentences, docs, strict=True)
        ]


# -- training -----------------------------------------------------------------------------------------------------


class SpacyTraining(ParserTraining):
    """A spaCy pipeline of tagger and parser over one tok2vec network, trained on the CPU.

    The sizes are those of spaCy's own `efficiency` settings.

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
        check_at_least(1, steps=steps, evaluate_every=evaluate_every)
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
        from thinc.api import Adam, warmup_linear

        use_numpy_ops()
        fix_random_seed(seed)
        pipeline = self._blank_pipeline(tagged=self.tagger and train[0].tags is not None)
        vocab = pipeline.vocab
        examples = [Example(bare_document(vocab, each), parsed_document(vocab, [each])) for each in train]
        # as in spaCy's own configuration, but for a rate that falls to 0 with the budget
        schedule = warmup_linear(self.learning_rate, self.warmup, self.steps)
        adam = Adam(schedule, L2=0.01, L2_is_weight_decay=True, grad_clip=1.0, use_averages=True)
        optimizer = pipeline.initialize(lambda: examples, sgd=adam)
        best: tuple[float, bytes] | None = None
        started = time.perf_counter()
        batches = self._batches(examples, random.Random(seed))
        with progress_bar("Training the parser", total=self.steps, unit="steps") as advance:
            for step in range(1, self.steps + 1):
                pipeline.update(next(batches), drop=self.dropout, sgd=optimizer)
                optimizer.step_schedules()
                advance(1)
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
    """A trained spaCy pipeline, with its scores and its files."""

    def __init__(self, pipeline: Any) -> None:  # noqa: ANN401  (spaCy's Language)
        self.pipeline = pipeline

    def evaluate(self, gold: Sequence[Sentence]) -> ParserScores:
        """Attachment scores on sentences with gold words, and the speed of the whole pipeline in words per second."""
        pipeline = self.pipeline
        started = time.perf_counter()
        docs = list(pipeline.pipe((bare_document(pipeline.vocab, each) for each in gold), batch_size=64))
        seconds = time.perf_counter() - started
        tagged = "tagger" in pipeline.pipe_names
        predicted = [
            with_tree_of(Sentence(sentence.words, tags=tuple(token.tag_ for token in doc) if tagged else None), doc)
            for sentence, doc in zip(gold, docs, strict=True)
        ]
        return attachment_scores(gold, predicted, seconds=seconds)

    def save(self, folder: Path, description: dict[str, Any]) -> None:
        """Write the pipeline as spaCy does; `spacy.load` reads it."""
        self.pipeline.meta["description"] = description["scheme"]
        self.pipeline.to_disk(folder)
