"""Part-of-speech tags (Penn Treebank's) for words that are already separated."""

from collections.abc import Sequence
from importlib import resources
from typing import Protocol, runtime_checkable

from depgen.trees.sentence import Sentence

FUNCTION_WORDS = frozenset(resources.files("depgen.annotation").joinpath("function_words.txt").read_text().split())
"""Pronouns, determiners, auxiliaries, prepositions, conjunctions, particles and the adverbs that grammar needs."""


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
