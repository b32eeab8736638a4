"""Part-of-speech tags (Penn Treebank's) for words that are already separated."""

from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from typing import Protocol, runtime_checkable

from depgen.locations import lines_sha256
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


class SuffixTagger:
    """Tags by rule, for where no tagger is at hand: function words by list, the rest by their endings.

    A function word is `IN`, what has no letter `.`, a placeholder in brackets `NNP`. A verb after `to` and
    modal verbs is `VB`. Of the rest `-ing` is `VBG`, `-ed` `VBD`, `-ly` `RB`, `-ful -ous -able -ible -ive -less
    -ish` `JJ`, `-s` (not `-ss`) `NNS`, everything else `NN`.
    """

    method = "rules on endings"
    _ENDINGS = (
        ("ing", "VBG"), ("ed", "VBD"), ("ly", "RB"), ("ful", "JJ"), ("ous", "JJ"), ("able", "JJ"), ("ible", "JJ"),
        ("ive", "JJ"), ("less", "JJ"), ("ish", "JJ"), ("ss", "NN"), ("s", "NNS"),
    )  # fmt: skip
    _BEFORE_VERBS = frozenset(
        ("to", "can", "could", "will", "would", "shall", "should", "may", "might", "must", "ca", "wo")
    )

    def fingerprint(self) -> str:
        """The version of the rules and the list of function words."""
        return lines_sha256(["suffix 1", *sorted(FUNCTION_WORDS)])

    def tag(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The same sentences with tags."""
        return [replace(sentence, tags=self._tags([w.lower() for w in sentence.words])) for sentence in sentences]

    def _tags(self, words: Sequence[str]) -> tuple[str, ...]:
        return tuple(self._one(word, before) for word, before in zip(words, ("", *words), strict=False))

    def _one(self, word: str, before: str) -> str:
        if word.startswith("["):
            return "NNP"
        if not any(character.isalpha() for character in word):
            return "."
        if word in FUNCTION_WORDS:
            return "IN"
        if before in self._BEFORE_VERBS:
            return "VB"
        return next((tag for ending, tag in self._ENDINGS if word.endswith(ending)), "NN")
