"""The protocol by which words get their trees."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from depgen.trees.sentence import Sentence


@runtime_checkable
class Annotator(Protocol):
    """Anything that gives each sentence a dependency tree.

    Attributes:
        scheme: the annotation scheme and parser, named beside every number that depends on it.
    """

    scheme: str

    def fingerprint(self) -> str:
        """A hex digest of everything the trees depend on: parser files, options, library versions."""
        ...

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The same sentences, word for word, with heads and relations filled in."""
        ...
