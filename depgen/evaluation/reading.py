"""How a run's system is given a text: in which form, with last words once or twice, whole or in segments."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from depgen.data.corpus import Corpus, WithSteps, form_of
from depgen.data.documents import Segmentation, segment_bounds
from depgen.data.experiment import data_of
from depgen.data.steps import Rewrite
from depgen.data.tokenization import SentenceSplitter, Tokens
from depgen.data.vocabulary import Encoding, Vocabulary, encode
from depgen.trees.removal import Orphans, keep_words
from depgen.trees.sentence import Sentence
from depgen.trees.text_form import FORMS, FormName

T = TypeVar("T")
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reading:
    """How a run's data module gives sentences and documents to its system when that is tested.

    Attributes:
        form: what words are brought into, that of the corpus which the run has learnt from; None where this does not
            say, and words stay as they are.
        tokens: how a text becomes words, where nobody says it: as that of the corpus which the run has learnt from.
        splitter: how lines of raw text, which rules cut into words, become sentences: as in that corpus, where the
            system reads sentences by themselves or knows of them. It reads other lines as one.
        final_word_twice: the last token of every sentence is repeated, as some systems of 2015 were trained; it
            belongs to its word.
        longest: sentences of the segments that documents are read in; None for whole documents.
        segmentation: how documents are cut (`depgen.data.documents`).
        first_word_space: whether a space precedes the first word of a text too, where words are cut into pieces that
            hold the space before them, as GPT-2's do.
    """

    form: FormName | None = None
    tokens: Tokens = "whitespace"
    splitter: SentenceSplitter = "lines"
    final_word_twice: bool = False
    longest: int | None = None
    segmentation: Segmentation = "paper"
    first_word_space: bool = True

    def rules(self, tokens: Tokens | None) -> tuple[SentenceSplitter, Tokens]:
        """How a text becomes sentences and words, where a user says `tokens` or nothing."""
        tokens = tokens or self.tokens
        return self.splitter if tokens == "rules" else "lines", tokens

    @property
    def known_form(self) -> FormName:
        """The form, `as_is` where none is known."""
        return self.form or "as_is"

    def kept(self, sentence: Sentence) -> list[bool]:
        """Whether each word of a sentence is read."""
        return FORMS[self.known_form].kept(sentence)

    def words(self, sentence: Sentence) -> list[str]:
        """The words that are read, in the form."""
        return self.spelt(sentence, self.kept(sentence))

    def spelt(self, sentence: Sentence, kept: Sequence[bool]) -> list[str]:
        """The words to keep, in the form."""
        spelt = FORMS[self.known_form].spelt
        return [spelt(word) for word, keep in zip(sentence.words, kept, strict=True) if keep]

    def encode(self, words: Sequence[str], vocabulary: Vocabulary, *, begins: bool = True) -> Encoding:
        """Token ids of words in the form; `begins` says whether they are the first of a text.

        >>> from depgen.data.vocabulary import Vocabulary
        >>> vocabulary = Vocabulary.of_words(["the", "cat"])
        >>> Reading(final_word_twice=True).encode(["the", "cat"], vocabulary).word_of_piece.tolist()
        [0, 1, 1]
        """
        once = encode(vocabulary, words, first_word_space=self.first_word_space or not begins)
        if not self.final_word_twice:
            return once
        return Encoding(*(np.append(each, each[-1:]) for each in (once.ids, once.word_of_piece)))

    def segments(self, sentences: Sequence[T]) -> list[Sequence[T]]:
        """What of a document's sentences is read as one; nothing where there are none.

        >>> Reading(longest=2).segments("abc")
        ['ab', 'c']
        """
        if not sentences:
            return []
        bounds = segment_bounds(len(sentences), self.longest, self.segmentation)
        return [sentences[begin:end] for begin, end in pairwise(bounds)]


def reading_of_run(run: Path, checkpoint: Mapping[str, Any] | None = None) -> Reading:
    """What a checkpoint's content keeps of its data module's reading; where it keeps none, that of the run's settings.

    Weights that `depgen push` has written keep none.
    """
    for state in (checkpoint or {}).values():
        if isinstance(state, Mapping) and "reading" in state:
            return Reading(**state["reading"])
    settings = run / "config.yaml"
    return Reading(**getattr(data_of(settings), "reading", {})) if settings.is_file() else Reading()


# -- corpora in a form ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IntoForm(Rewrite):
    """Brings sentences into a form, their trees closed over the words that go; what is in it already stays as it is.

    Of `bare`, words that lose their root are roots, as by `BareWords`; of others, one of them is, as by `Normalized`.
    """

    into: FormName

    def sentence(self, sentence: Sentence) -> Sentence:
        """The sentence in the form, maybe without words."""
        form = FORMS[self.into]
        orphans: Orphans = "roots" if self.into == "bare" else "one_root"
        kept = keep_words(sentence, form.kept(sentence), orphans=orphans)
        return replace(kept, words=tuple(map(form.spelt, kept.words)))

    def form(self, form: FormName | None) -> FormName | None:
        """The one that it is brought into."""
        return self.into

    def name(self, name: str) -> str:
        """What results call such a corpus."""
        return f"{name} (brought into the form `{self.into}`)"


def in_form(corpus: Corpus, reading: Reading) -> Corpus:
    """A corpus in the form that a run reads; its name says where it had to be brought into it.

    A corpus that is in the form stays as it is, and so does any where the run's form is unknown, which is logged.
    """
    if reading.form is None:
        logger.warning(
            "The run's corpus does not say in which form its text is, so %s is read as it is: words that are spelt "
            "otherwise there are unknown. Name the form by --form; as_is means none.",
            corpus.name,
        )
        return corpus
    if reading.form in ("as_is", form_of(corpus)):
        return corpus
    return WithSteps(corpus, steps=(IntoForm(reading.form),))


def warn_of_another_form(trained_on: FormName | None, corpus: Corpus) -> None:
    """Say in the log that a corpus is not in the form of the text that a run has learnt from, where that is known."""
    form = form_of(corpus)
    if trained_on not in (None, "as_is", form):
        logger.warning(
            "The run has learnt from text in the form `%s`, but %s %s: punctuation is read too or missing, and words "
            "that are spelt otherwise are unknown. A step of depgen.data.steps brings a corpus into that form.",
            trained_on, corpus.name, f"is in the form `{form}`" if form else "does not say that it is in it",
        )  # fmt: skip
