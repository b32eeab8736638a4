"""Texts that a system generates: new words after a prompt, or new sentences after those of a document."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from depgen.data.vocabulary import Vocabulary
from depgen.decoding.generation import Writer
from depgen.decoding.settings import Sampling
from depgen.errors import UserError, check_at_least
from depgen.evaluation.document_generation import continue_documents
from depgen.evaluation.reading import Reading
from depgen.evaluation.tabular import Results, Row
from depgen.evaluation.text_documents import TextDocument
from depgen.evaluation.trained import Trained
from depgen.language_models.document import DocumentLanguageModel
from depgen.seeds import seed_of
from depgen.trees.sentence import Sentence

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class GeneratedText:
    """A text that a system has generated.

    Attributes:
        prompt: the text before it; empty where it begins from nothing.
        text: its words in one line, or its sentences, one a line.
        seed: of its sampling.
        prompt_sentences: the sentences of the prompt, for systems that read documents sentence by sentence; else None.
        sentences: the new sentences, for such systems; else None. A sentence may have no word.
    """

    prompt: str
    text: str
    seed: int
    prompt_sentences: tuple[str, ...] | None = None
    sentences: tuple[str, ...] | None = None


@dataclass(frozen=True)
class GeneratedTexts(Results[GeneratedText]):
    """Generated texts in the order of the prompts, all texts of a prompt one after the other."""

    def rows(self) -> list[Row]:
        """A row for each text."""
        return [{"prompt": each.prompt, "text": each.text, "seed": each.seed} for each in self.texts]


@dataclass(frozen=True)
class TextGenerator:
    """Generates texts by a trained system.

    Text k of prompt i depends on the seed, i and k alone: not on the batch, nor on the other prompts.

    Attributes:
        trained: the system.
        reading: how prompts are given to it.
        sampling: how a token is drawn from the distribution.
        number: texts of each prompt.
        max_new_tokens: where a text, or a sentence of a document, is cut.
        batch_size: texts generated at once.
        seed: of the sampling.
        progress: show a progress bar.
    """

    trained: Trained
    reading: Reading
    sampling: Sampling
    number: int = 1
    max_new_tokens: int = 100
    batch_size: int = 64
    seed: int = 0
    progress: bool = False

    def __post_init__(self) -> None:
        check_at_least(1, number=self.number, max_new_tokens=self.max_new_tokens, batch_size=self.batch_size)

    def generate(self, prompts: Sequence[TextDocument], *, sentences: int | None = None) -> GeneratedTexts:
        """New text after each prompt; `sentences` new ones (1 by default) from systems that read documents.

        Raises:
            UserError: the system does not write, reads no sentences, or can't read a text of this length.
        """
        check_at_least(1, sentences=sentences)
        model, checkpoint = self.trained.model, self.trained.checkpoint
        if isinstance(model, DocumentLanguageModel):
            return GeneratedTexts(self._documents(model, prompts, sentences or 1) if prompts else ())
        if sentences is not None:
            raise UserError(
                f"{checkpoint} holds a {type(model).__name__}, which reads no sentences: leave --sentences "
                "out, or take a system that reads documents sentence by sentence."
            )
        if not isinstance(model, Writer):
            raise UserError(f"{checkpoint} holds a {type(model).__name__}, which does not write texts.")
        return GeneratedTexts(self._texts(model, prompts) if prompts else ())

    def _texts(self, model: Writer, prompts: Sequence[TextDocument]) -> tuple[GeneratedText, ...]:
        """The sentences of a prompt are one sequence."""
        vocabulary, seeds = self.vocabulary, self._seeds(len(prompts))
        ids = [self._ids_of_all(prompt) for prompt in prompts]
        _log_unknown(ids, vocabulary)
        texts = model.generate(
            self._copies(ids),
            eos=vocabulary.eos,
            sampling=self.sampling,
            seeds=seeds,
            max_new_tokens=self.max_new_tokens,
            batch_size=self.batch_size,
            progress=self.progress,
        )
        found = zip(self._copies(prompts), texts, seeds, strict=True)
        return tuple(GeneratedText(prompt.text, _one_line(vocabulary, each), seed) for prompt, each, seed in found)

    def _documents(
        self, model: DocumentLanguageModel, prompts: Sequence[TextDocument], sentences: int
    ) -> tuple[GeneratedText, ...]:
        """Where last words are read twice, those that are generated twice are written once."""
        self._refuse_longer(max(len(prompt.sentences) for prompt in prompts) + sentences)
        ids = [[found for each in prompt.sentences if (found := self._ids(each))] for prompt in prompts]
        _log_unknown([each for document in ids for each in document], self.vocabulary)
        seeds = self._seeds(len(prompts))
        documents = continue_documents(
            model,
            self._copies(ids),
            vocabulary=self.vocabulary,
            sampling=self.sampling,
            seeds=seeds,
            sentences=sentences,
            max_new_tokens=self.max_new_tokens,
            batch_size=self.batch_size,
            progress=self.progress,
        )
        return tuple(map(self._document, self._copies(prompts), documents, seeds))

    def _document(self, prompt: TextDocument, document: Sequence[list[int]], seed: int) -> GeneratedText:
        if self.reading.final_word_twice:
            document = [self._without_repeat(ids) for ids in document]
        lines = tuple(_one_line(self.vocabulary, ids) for ids in document)
        before = tuple(" ".join(each.words) for each in prompt.sentences)
        return GeneratedText(prompt.text, "\n".join(lines), seed, before, lines)

    @property
    def vocabulary(self) -> Vocabulary:
        """The system's."""
        return self.trained.vocabulary

    def _ids(self, sentence: Sentence, *, begins: bool = True) -> list[int]:
        """Token ids of a sentence in the form that the run has learnt from; none where that leaves no word."""
        words = self.reading.words(sentence)
        found: list[int] = self.reading.encode(words, self.vocabulary, begins=begins).ids.tolist()
        return found

    def _ids_of_all(self, prompt: TextDocument) -> list[int]:
        """Token ids of a prompt's sentences, one after the other."""
        found: list[int] = []
        for sentence in prompt.sentences:
            found += self._ids(sentence, begins=not found)
        return found

    def _refuse_longer(self, sentences: int) -> None:
        """Refuse documents that the run's data module would cut: a segment knows nothing of the segments before it."""
        longest = self.reading.longest
        if longest is not None and sentences > longest:
            raise UserError(
                f"{self.trained.run} is tested on segments of at most {longest} sentences "
                f"(eval_sentences_per_segment), and a document with its continuation would have {sentences}: give "
                "shorter prompts or fewer --sentences."
            )

    def _without_repeat(self, ids: list[int]) -> list[int]:
        """A sentence without the second of two equal last tokens, as the system has learnt them.

        A sentence that was cut has no last word, so it stays as it is.
        """
        ended = len(ids) < self.max_new_tokens
        return ids[:-1] if ended and ids[-1:] == ids[-2:-1] else ids

    def _seeds(self, prompts: int) -> list[int]:
        return [text_seed(self.seed, prompt, copy) for prompt in range(prompts) for copy in range(self.number)]

    def _copies(self, prompts: Sequence[T]) -> list[T]:
        return [prompt for prompt in prompts for _ in range(self.number)]


def _one_line(vocabulary: Vocabulary, ids: Sequence[int]) -> str:
    """The words of a text; one line, whatever the pieces hold."""
    return " ".join(vocabulary.decode(ids).split())


def _log_unknown(prompts: Sequence[Sequence[int]], vocabulary: Vocabulary) -> None:
    ids = [each for prompt in prompts for each in prompt]
    if unknown := ids.count(vocabulary.unk):
        log.info("%d of the prompts' %d tokens are unknown to the model and read as <unk>.", unknown, len(ids))


def text_seed(seed: int, prompt: int, copy: int) -> int:
    """The seed of one text."""
    return seed_of(f"{seed} {prompt} {copy}")
