"""A tagger by rule, which needs no pipeline."""

from collections.abc import Sequence
from dataclasses import replace

from depgen.evaluation.corruption import FUNCTION_WORDS
from depgen.locations import lines_sha256
from depgen.trees.sentence import Sentence


class SuffixTagger:
    """Function words by list, the rest by their endings.

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

    def _tags(self, words):
        return tuple(self._one(word, before) for word, before in zip(words, ("", *words), strict=False))

    def _one(self, word, before):
        if word.startswith("["):
            return "NNP"
        if not any(character.isalpha() for character in word):
            return "."
        if word in FUNCTION_WORDS:
            return "IN"
        if before in self._BEFORE_VERBS:
            return "VB"
        return next((tag for ending, tag in self._ENDINGS if word.endswith(ending)), "NN")
