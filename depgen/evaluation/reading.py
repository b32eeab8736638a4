"""How a run's system is given a text: in which form, with last words once or twice, whole or in segments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from depgen.data.documents import Segmentation, segment_bounds
from depgen.data.vocabulary import Encoding, Vocabulary, encode
from depgen.evaluation.forms import kept_reading
from depgen.trees.sentence import Sentence
from depgen.trees.text_form import FORMS, FormName

T = TypeVar("T")


@dataclass(frozen=True)
class Reading:
    """How a run's data module gives sentences and documents to its system when that is tested.

    Attributes:
        form: what words are brought into.
        final_word_twice: the last token of every sentence is repeated, as some systems of 2015 were trained; it
            belongs to its word.
        longest: sentences of the segments that documents are read in; None for whole documents.
        segmentation: how documents are cut (`depgen.data.documents`).
        first_word_space: whether a space precedes the first word of a text too, where words are cut into pieces that
            hold the space before them, as GPT-2's do.
    """

    form: FormName = "as_is"
    final_word_twice: bool = False
    longest: int | None = None
    segmentation: Segmentation = "paper"
    first_word_space: bool = True

    def kept(self, sentence: Sentence) -> list[bool]:
        """Whether each word of a sentence is read."""
        return FORMS[self.form].kept(sentence)

    def words(self, sentence: Sentence) -> list[str]:
        """Those that are read, as they are."""
        return self.spelt(sentence, self.kept(sentence))

    def spelt(self, sentence: Sentence, kept: Sequence[bool]) -> list[str]:
        """The words to keep, in the form."""
        spelt = FORMS[self.form].spelt
        return [spelt(word) for word, keep in zip(sentence.words, kept, strict=True) if keep]

    def encode(self, words: Sequence[str], vocabulary: Vocabulary, *, begins: bool = True) -> Encoding:
        """Token ids of words in the form; `begins` says whether they are the first of a text.

        >>> from depgen.data.vocabulary import Vocabulary
        >>> vocabulary = Vocabulary.of_words(["the", "cat"])
        >>> Reading(final_word_twice=True).encode(["the", "cat"], vocabulary).word_of_piece.tolist()
        [0, 1, 1]
        """
        found = encode(vocabulary, words, first_word_space=self.first_word_space or not begins)
        if not self.final_word_twice:
            return found
        return Encoding(*(np.append(each, each[-1:]) for each in (found.ids, found.word_of_piece)))

    def segments(self, sentences: Sequence[T]) -> list[Sequence[T]]:
        """What of a document's sentences is read as one; nothing where there are none.

        >>> Reading(longest=2).segments("abc")
        ['ab', 'c']
        """
        if not sentences:
            return []
        bounds = segment_bounds(len(sentences), self.longest, self.segmentation)
        return [sentences[begin:end] for begin, end in pairwise(bounds)]


def reading_of(data: object, form: FormName | None = None) -> Reading:
    """That of a data module; by default in the form of its corpus, and `as_is` where this does not say."""
    return _reading(getattr(data, "reading", {}), form)


def reading_of_run(run: Path, form: FormName | None = None, *, checkpoint: Path | None = None) -> Reading:
    """The same of a run folder whose settings name a data module; else what a checkpoint keeps of that."""
    return _reading(kept_reading(run, checkpoint=checkpoint), form)


def _reading(found: Mapping[str, Any], form: FormName | None) -> Reading:
    return Reading(**{**found, "form": form or found.get("form") or "as_is"})
