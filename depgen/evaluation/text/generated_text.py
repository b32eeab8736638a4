"""Texts that a system generates: new words after a prompt, or new sentences after those of a document."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from depgen.data.vocabulary import LABELS, Vocabulary
from depgen.decoding.generation import Generated
from depgen.decoding.settings import made_options
from depgen.errors import UserError, check_at_least
from depgen.evaluation.frames import Row, TextResults
from depgen.evaluation.text.document_generation import continue_documents
from depgen.evaluation.text_documents import TextDocument
from depgen.evaluation.trained import Trained
from depgen.evaluation.trees.bracketing import constituents_over_words
from depgen.language_models.document import DocumentLanguageModel
from depgen.language_models.left_to_right import GraphNetwork
from depgen.models.itexp import ExpansionOptions
from depgen.seeds import seed_of
from depgen.trees.conllu import format_conllu
from depgen.trees.constituency import format_constituents
from depgen.trees.sentence import Constituent, Sentence

log = logging.getLogger(__name__)
T = TypeVar("T")
Tree = tuple[tuple[int, ...], tuple[str, ...]]
"""Heads (1-based, 0 = root) and relations of words."""


@dataclass(frozen=True)
class GeneratedText:
    """A text that a system has generated.

    Attributes:
        prompt: the text before it; empty where it begins from nothing.
        text: its words in one line, or its sentences, one a line.
        seed: of its sampling.
        log_prob: in nats, of its tokens given the prompt, under the system's own distribution, with that of the end
            unless the text was cut; of all sentences together. With a structure, the joint log-probability.
        structure: what the system has built over it; None from systems without structure.
        words: those of prompt and text, over which the structure is a graph or tree; None where it is neither.
        tree: heads and relations of the words; None where the structure is no tree.
        brackets: prompt and text as labelled constituents over words, `(S (NP the dog) (VP barks))`; None from systems
            without labels of constituents.
        prompt_sentences: the sentences of the prompt, for systems that read documents sentence by sentence; else None.
        sentences: the new sentences, for such systems; else None. A sentence may have no word.
    """

    prompt: str
    text: str
    seed: int
    log_prob: float
    structure: Any = None
    words: tuple[str, ...] | None = None
    tree: Tree | None = None
    brackets: str | None = None
    prompt_sentences: tuple[str, ...] | None = None
    sentences: tuple[str, ...] | None = None

    def to_conllu(self, identifier: str) -> str:
        """Prompt and text as a sentence in CoNLL-U, a graph in DEPS; empty for a text without words.

        Raises:
            UserError: it has neither graph nor tree.
        """
        if self.words is None:
            raise UserError(
                "CoNLL-U holds texts with graphs or trees, found one without: take a run of GiLT or ITEXP, or text."
            )
        if not self.words:
            return ""
        if self.tree is None:
            lines = format_conllu(Sentence(self.words, edges=self.structure))
        else:
            lines = format_conllu(Sentence(self.words, *self.tree))
        return f"# sent_id = {identifier}\n# text = {' '.join(self.words)}\n{lines}\n"


@dataclass(frozen=True, repr=False)
class GeneratedTexts(TextResults[GeneratedText]):
    """Generated texts in the order of the prompts, all texts of a prompt one after the other."""

    def rows(self) -> list[Row]:
        """A row for each text, with its structure where it has one."""
        return [
            {"prompt": each.prompt, "text": each.text, "seed": each.seed, "log_prob": each.log_prob}
            | ({} if each.words is None else {"words": each.words})
            | ({} if each.structure is None else {"structure": each.structure})
            | ({} if each.brackets is None else {"brackets": each.brackets})
            for each in self.texts
        ]

    def to_conllu(self) -> str:
        """All texts that have words, prompts included, in CoNLL-U with their trees, or their graphs in DEPS.

        Raises:
            UserError: the system builds neither.
        """
        return "".join(each.to_conllu(f"text-{number}") for number, each in enumerate(self.texts, start=1))


@dataclass(frozen=True)
class TextGenerator:
    """Generates texts by a trained system.

    Text k of prompt i depends on the seed, i and k alone: not on the batch, nor on the other prompts.

    Attributes:
        trained: the system.
        options: the system's own options, by name.
        number: texts of each prompt.
        max_new_tokens: where a text, or a sentence of a document, is cut.
        batch_size: texts generated at once.
        seed: of the sampling.
        progress: show a progress bar.
    """

    trained: Trained
    options: Mapping[str, Any] = field(default_factory=dict)
    number: int = 1
    max_new_tokens: int = 100
    batch_size: int = 64
    seed: int = 0
    progress: bool = False

    def __post_init__(self) -> None:
        check_at_least(1, number=self.number, max_new_tokens=self.max_new_tokens, batch_size=self.batch_size)

    def generate(self, prompts: Sequence[TextDocument]) -> GeneratedTexts:
        """New text after each prompt, or new sentences from systems that read documents.

        Raises:
            UserError: the system does not write, has no such option, or can't read a text of this length.
        """
        model = self.trained.model
        kind, name = model.generation_options, type(model).__name__
        if kind is None:
            raise UserError(f"{self.trained.checkpoint} holds a {name}, which does not write texts.")
        options = made_options(kind, self.options, system=name)
        write = self._documents if isinstance(model, DocumentLanguageModel) else self._texts
        return GeneratedTexts(write(model, prompts, options) if prompts else ())

    def _texts(self, model: Any, prompts: Sequence[TextDocument], options: Any) -> tuple[GeneratedText, ...]:  # noqa: ANN401
        """The sentences of a prompt are one sequence."""
        vocabulary, seeds = self.vocabulary, self._seeds(len(prompts))
        ids = [self._ids_of_all(prompt) for prompt in prompts]
        _log_unknown(ids, vocabulary)
        texts: list[Generated] = model.generate(
            ids,
            vocabulary=vocabulary,
            options=options,
            seeds=seeds,
            number=self.number,
            max_new_tokens=self.max_new_tokens,
            batch_size=self.batch_size,
            progress=self.progress,
        )
        writes_trees = isinstance(options, ExpansionOptions)
        counted = isinstance(model, GraphNetwork) or writes_trees
        labelled = not counted and LABELS in vocabulary.tables
        return tuple(
            GeneratedText(
                prompt.text, _one_line(vocabulary, each.ids), seed, each.log_prob, each.structure,
                _words(vocabulary, [*begun, *each.ids]) if counted else None,
                _tree_of_words([*begun, *each.ids], each.structure, vocabulary) if writes_trees else None,
                _brackets([*begun, *each.ids], each.structure, vocabulary) if labelled and each.structure else None,
            )
            for prompt, begun, each, seed in zip(self._copies(prompts), self._copies(ids), texts, seeds, strict=True)
        )  # fmt: skip

    def _documents(self, model: Any, prompts: Sequence[TextDocument], options: Any) -> tuple[GeneratedText, ...]:  # noqa: ANN401
        """Where last words are read twice, those that are generated twice are written once."""
        self._refuse_longer(max(len(prompt.sentences) for prompt in prompts) + options.sentences)
        ids = [[found for each in prompt.sentences if (found := self._ids(each))] for prompt in prompts]
        _log_unknown([each for document in ids for each in document], self.vocabulary)
        seeds = self._seeds(len(prompts))
        documents = continue_documents(
            model,
            self._copies(ids),
            vocabulary=self.vocabulary,
            sampling=options,
            seeds=seeds,
            sentences=options.sentences,
            max_new_tokens=self.max_new_tokens,
            batch_size=self.batch_size,
            progress=self.progress,
        )
        return tuple(map(self._document, self._copies(prompts), documents, seeds))

    def _document(self, prompt: TextDocument, document: Sequence[Generated], seed: int) -> GeneratedText:
        sentences = [each.ids for each in document]
        if self.trained.reading.final_word_twice:
            sentences = [self._without_repeat(ids) for ids in sentences]
        lines = tuple(_one_line(self.vocabulary, ids) for ids in sentences)
        before = tuple(" ".join(each.words) for each in prompt.sentences)
        log_prob = math.fsum(each.log_prob for each in document)
        return GeneratedText(prompt.text, "\n".join(lines), seed, log_prob, prompt_sentences=before, sentences=lines)

    @property
    def vocabulary(self) -> Vocabulary:
        """The system's."""
        return self.trained.vocabulary

    def _ids(self, sentence: Sentence, *, begins: bool = True) -> list[int]:
        """Token ids of a sentence in the form that the run has learnt from; none where that leaves no word."""
        words = self.trained.reading.words(sentence)
        found: list[int] = self.trained.reading.encode(words, self.vocabulary, begins=begins).ids.tolist()
        return found

    def _ids_of_all(self, prompt: TextDocument) -> list[int]:
        """Token ids of a prompt's sentences, one after the other."""
        found: list[int] = []
        for sentence in prompt.sentences:
            found += self._ids(sentence, begins=not found)
        return found

    def _refuse_longer(self, sentences: int) -> None:
        """Refuse documents that the run's data module would cut: a segment knows nothing of the segments before it."""
        longest = self.trained.reading.longest
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


def _tree_of_words(ids: Sequence[int], structure: Mapping[str, Any], vocabulary: Vocabulary) -> Tree:
    """Heads and relations of a text's words, of those of its tokens: a word has the arc of its first piece."""
    numbers = [0, *vocabulary.word_of_token(ids).tolist()]
    firsts = [token for token in range(1, len(numbers)) if numbers[token] != numbers[token - 1]]
    heads, relations = structure["heads"], structure["relations"]
    return tuple(numbers[heads[token - 1]] for token in firsts), tuple(relations[token - 1] for token in firsts)


def _brackets(ids: Sequence[int], structure: Sequence[Constituent], vocabulary: Vocabulary) -> str:
    """The words of a text as constituents; those that cut a word of several tokens are left out."""
    over_words = constituents_over_words(structure, vocabulary.word_of_token(ids) - 1)
    return format_constituents(_words(vocabulary, ids), over_words)


def _words(vocabulary: Vocabulary, ids: Sequence[int]) -> tuple[str, ...]:
    """The words that tokens spell, as edges number them; `_` for one that has no visible character."""
    word = vocabulary.word_of_token(ids)
    parts = np.split(np.array(ids), np.flatnonzero(np.diff(word)) + 1) if ids else []
    return tuple("_".join(vocabulary.decode(part.tolist()).split()) or "_" for part in parts)


def _log_unknown(prompts: Sequence[Sequence[int]], vocabulary: Vocabulary) -> None:
    ids = [each for prompt in prompts for each in prompt]
    if unknown := ids.count(vocabulary.unk):
        log.info("%d of the prompts' %d tokens are unknown to the model and read as <unk>.", unknown, len(ids))


def text_seed(seed: int, prompt: int, copy: int) -> int:
    """The seed of one text."""
    return seed_of(f"{seed} {prompt} {copy}")
