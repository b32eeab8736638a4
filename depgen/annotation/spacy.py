"""spaCy's pipelines: sentences as its documents, trees and tags by a pipeline, and its training on a treebank."""

import logging
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from depgen.annotation.annotator import ParserAnnotator, content_of, find_parser, lowercased, read_description
from depgen.annotation.training import ParserTraining, scores_of, summary_of
from depgen.errors import UserError
from depgen.progress import progress_bar
from depgen.trees.annotator import check_words
from depgen.trees.sentence import Sentence

logger = logging.getLogger(__name__)

SHARED = ("tok2vec", "transformer")
"""Components that others read from."""
GROWTH = 1.004
"""Factor by which the words of a batch grow at each step, until they reach `words_per_batch`."""


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


# -- pipelines that are there -------------------------------------------------------------------------------------


class SpacyPipeline:
    """A spaCy `Language` that parses or tags words that are already separated."""

    def __init__(self, pipeline: Any) -> None:  # noqa: ANN401  (spaCy's Language)
        self.pipeline = pipeline

    def documents(self, sentences: Sequence[Sentence], batch_size: int) -> Iterator[Any]:
        """The processed `Doc` of each sentence, which holds exactly its words, as one sentence of spaCy's."""
        yield from self.pipeline.pipe(map(self.bare, sentences), batch_size=batch_size)

    def bare(self, sentence: Sentence) -> Any:  # noqa: ANN401
        """The `Doc` of a sentence's words, which the parser can't split into two trees."""
        from spacy.tokens import Doc

        starts = [True] + [False] * (len(sentence) - 1)
        return Doc(self.pipeline.vocab, words=list(sentence.words), sent_starts=starts)

    def parse(self, sentences: Sequence[Sentence], *, batch_size: int = 64) -> list[Sentence]:
        """The sentences with their trees; spaCy's `ROOT` becomes `root`."""
        return [
            replace(
                sentence,
                heads=tuple(0 if token.head.i == token.i else token.head.i + 1 for token in doc),
                relations=tuple("root" if token.head.i == token.i else token.dep_ for token in doc),
            )
            for sentence, doc in zip(sentences, self.documents(sentences, batch_size), strict=True)
        ]

    def save(self, folder: Path) -> None:
        """Write the pipeline as spaCy does; `spacy.load` reads it."""
        self.pipeline.to_disk(folder)


def load_pipeline(name: str, component: str) -> tuple[SpacyPipeline, bool]:
    """A pipeline of nothing but a component and what it reads from; whether it was trained on lower-cased words.

    Args:
        name: of one that was trained here, a folder, or an installed package such as `en_core_web_sm`.
        component: spaCy's name of it, such as `parser`.

    Raises:
        UserError: no such pipeline, or one without the component.
    """
    import spacy

    folder = find_parser(name, packages=True)
    description = read_description(folder, "spaCy")
    use_numpy_ops()
    try:
        nlp = spacy.load(folder if (folder / "config.cfg").is_file() else name)
    except OSError as error:
        raise UserError(f"{folder}: expected a spaCy pipeline; spaCy says: {error}") from error
    if component not in nlp.pipe_names:
        raise UserError(f"{folder}: expected a spaCy pipeline with the component {component}, found {nlp.pipe_names}.")
    nlp.select_pipes(enable=[pipe for pipe in nlp.pipe_names if pipe in (*SHARED, component)])
    return SpacyPipeline(nlp), bool(description.get("lowercase", False))


def use_numpy_ops() -> None:
    """Let thinc multiply matrices through numpy: spaCy's own BLIS build is several times slower on many CPUs.

    Thinc has no configuration option for it; it holds for pipelines built or loaded afterwards in this context.
    """
    from thinc.api import NumpyOps, set_current_ops

    set_current_ops(NumpyOps(use_blis=False))


class SpacyAnnotator(ParserAnnotator):
    """Gives each sentence the tree that a spaCy pipeline finds; always a single root.

    Args:
        pipeline: the name of one that was trained here (`depgen annotate --train`), a folder, or an installed package
            such as `en_core_web_sm`.
        batch_size: sentences parsed at a time; 64 was the fastest on a CPU. The trees do not depend on it.
    """

    library, versions_of, packages = "spaCy", ("spacy",), True

    def __init__(self, pipeline: str = "ewt_lowercased", batch_size: int = 64) -> None:
        super().__init__(pipeline, batch_size)

    def _load(self) -> tuple[SpacyPipeline, bool]:
        return load_pipeline(self.name, "parser")


@runtime_checkable
class Tagger(Protocol):
    """Anything that gives each word a tag of the Penn Treebank.

    Attributes:
        method: what results call it.
    """

    method: str

    def fingerprint(self) -> str:
        """A digest of everything that the tags depend on."""
        ...

    def tag(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The same sentences with tags."""
        ...


class SpacyTagger:
    """The tagger of a spaCy pipeline, which is trained with the parser where the treebank has tags.

    Args:
        pipeline: the name of one that was trained here, a folder, or an installed package such as `en_core_web_sm`.
        batch_size: sentences tagged at a time; the tags do not depend on it.
    """

    def __init__(self, pipeline: str = "ewt_lowercased", batch_size: int = 256) -> None:
        self.pipeline, self.batch_size = pipeline, batch_size
        self.method = f"spaCy pipeline {pipeline}"

    def fingerprint(self) -> str:
        """Of the pipeline's files and spaCy's version."""
        return content_of(find_parser(self.pipeline, packages=True), ("spacy",))

    def tag(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The same sentences with tags.

        Raises:
            UserError: no such pipeline, a pipeline without a tagger, a sentence or a word is empty.
        """
        check_words(sentences)
        pipeline, lower = load_pipeline(self.pipeline, "tagger")
        spelt = [lowercased(sentence) for sentence in sentences] if lower else sentences
        return [
            replace(sentence, tags=tuple(token.tag_ for token in doc))
            for sentence, doc in zip(sentences, pipeline.documents(spelt, self.batch_size), strict=True)
        ]


# -- training -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SpacyTraining(ParserTraining):
    """Training of spaCy's transition-based parser over a small convolutional network.

    Args:
        steps: updates of the weights.
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

    kind = "spaCy"

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

    def options(self) -> dict[str, Any]:
        """All arguments."""
        return asdict(self)

    def train(self, train: list[Sentence], valid: list[Sentence], *, seed: int) -> SpacyPipeline:
        """The pipeline with the weights that had the best LAS on `valid`."""
        from spacy.training import Example
        from spacy.util import fix_random_seed
        from thinc.api import Adam, warmup_linear

        use_numpy_ops()
        fix_random_seed(seed)
        nlp = self._blank_pipeline(tagged=train[0].tags is not None)
        parser = SpacyPipeline(nlp)
        examples = [Example(parser.bare(each), parsed_document(nlp.vocab, [each])) for each in train]
        # as in spaCy's own configuration, but for a rate that falls to 0 with the budget
        schedule = warmup_linear(self.learning_rate, self.warmup, self.steps)
        adam = Adam(schedule, L2=0.01, L2_is_weight_decay=True, grad_clip=1.0, use_averages=True)
        optimizer = nlp.initialize(lambda: examples, sgd=adam)
        best, content = -1.0, b""
        started = time.perf_counter()
        batches = self._batches(examples, random.Random(seed))
        with progress_bar("Training the parser", total=self.steps, unit="steps") as advance:
            for step in range(1, self.steps + 1):
                nlp.update(next(batches), drop=self.dropout, sgd=optimizer)
                optimizer.step_schedules()
                advance(1)
                if step % self.evaluate_every == 0 or step == self.steps:
                    with nlp.use_params(optimizer.averages):
                        scores = scores_of(parser, valid)
                        if scores["las"] > best:
                            best, content = scores["las"], nlp.to_bytes()
                    seconds = time.perf_counter() - started
                    logger.info("step %d of %d (%.0f s): valid %s", step, self.steps, seconds, summary_of(scores))
        nlp.from_bytes(content)
        return parser

    def _blank_pipeline(self, *, tagged: bool) -> Any:  # noqa: ANN401  (spaCy's Language)
        from spacy.cli.init_config import init_config
        from spacy.util import load_model_from_config

        names = ["tagger", "parser"] if tagged else ["parser"]  # tags help the network that both share
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
