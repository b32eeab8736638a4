"""What gives words their trees."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Literal

from depgen.errors import UserError
from depgen.trees.sentence import Sentence

Structure = Literal["tree", "graph", "constituency"]
"""What an annotator gives each sentence: heads and relations, edges, or the spans of constituents."""

FIELDS: Mapping[Structure, str] = {"tree": "heads", "graph": "edges", "constituency": "spans"}
"""The field of a sentence that holds each structure."""


class SentenceError(UserError):
    """A sentence that an annotator can't take.

    Args:
        number: which of the sentences given, from 1; whoever gave them knows the document.
        complaint: what was expected and found, and the remedy.
    """

    def __init__(self, number: int, complaint: str) -> None:
        super().__init__(number, complaint)
        self.number, self.complaint = number, complaint

    def __str__(self) -> str:
        return f"sentence {self.number}: {self.complaint}"


def check_words(sentences: Sequence[Sentence]) -> None:
    """Raises SentenceError unless every sentence has words and every word has a visible character.

    Raises:
        SentenceError: one has not.
    """
    for number, sentence in enumerate(sentences, start=1):
        if not sentence.words:
            raise SentenceError(number, "expected words to parse, found none.")
        for position, word in enumerate(sentence.words, start=1):
            if not word.strip():
                raise SentenceError(
                    number,
                    f"expected words to parse, found {word!r} as word {position}: {' '.join(sentence.words[:8])!r}",
                )


class Annotator(ABC):
    """Base of all that give each sentence a dependency tree, a graph, or constituents.

    Attributes:
        scheme: the annotation scheme and parser, named in every result that depends on it.
        structure: what it gives. One that gives graphs or constituents may give trees too.
        leaves_out: whether it may give a sentence nothing: heads of -1 alone, or edges or spans of None.
        self_loops: whether a word may be its own head in its graphs. Those of CoNLL-U have such edges where a path
            through an empty node leads back to the word that it began at.
    """

    scheme: str
    structure: Structure = "tree"
    leaves_out: bool = False
    self_loops: bool = False

    @abstractmethod
    def fingerprint(self) -> str:
        """A hex digest of everything the trees depend on: parser files, options, library versions."""

    @abstractmethod
    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The same sentences, word for word, with heads and relations filled in, or edges, or spans.

        Raises:
            SentenceError: one of them can't be annotated.
        """


class Rearranger(Annotator):
    """Gives each sentence what another annotator gives to another sentence: it needs all sentences of a split at once.

    Attributes:
        annotator: the other one. Its annotation of the split is made first, or found where it was made before.
    """

    annotator: Annotator

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with trees or graphs that the other annotator gives to one another."""
        return self.rearranged(self.annotator.annotate(sentences))

    @abstractmethod
    def rearranged(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The same sentences, which the other annotator has annotated, with trees or graphs of one another.

        Raises:
            SentenceError: one of them can't be given any.
        """
