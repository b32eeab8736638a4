"""People's names in raw stories: where they stand, whose they are, and placeholders in their place.

The published ROCStories are in lower case, with Penn tokens and `[MALE]`, `[FEMALE]` and `[NEUTRAL]` for names.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import metadata, resources
from pathlib import Path
from typing import Literal

from depgen.data.tokenization import tokenize
from depgen.errors import UserError
from depgen.trees.text_files import read_lines

Gender = Literal["MALE", "FEMALE", "NEUTRAL"]
Story = Sequence[Sequence[str]]
"""The tokens of each sentence, in their original case."""
Position = tuple[int, int]
"""Sentence and token, from 0."""

PRONOUNS: Mapping[str, Gender] = {
    **dict.fromkeys(("he", "him", "his", "himself"), "MALE"),
    **dict.fromkeys(("she", "her", "hers", "herself"), "FEMALE"),
}
_POSSESSIVES = ["my", "your", "his", "its", "our", "their"]
_DETERMINERS = frozenset(["a", "an", "the", "this", "that", "these", "those", "some", "any", "every", *_POSSESSIVES])
_LOCATIVE = frozenset(["in", "near", "around", "through", "into", "across"])
NO_NAMES = frozenset(resources.files("depgen.data").joinpath("no_names.txt").read_text().split())


_SPACED_CLITIC = re.compile(r"(\w) ' (s|t|d|m|re|ve|ll)\b", re.IGNORECASE)
_QUOTES = str.maketrans({'"': "``", "“": "``", "”": "``", "’": "'"})  # the published stories close quotes by `` too


def tokens_of_story(texts: Sequence[str]) -> Story:
    """The Penn tokens of each sentence, clitics joined to their words first."""
    return [tokenize(_SPACED_CLITIC.sub(r"\1'\2", text.translate(_QUOTES))) for text in texts]


def read_name_genders(path: Path) -> dict[str, Gender]:
    """Genders by lower-cased name, from lines of name, tab and male, female or neutral (m, f, n will do)."""
    initials: Mapping[str, Gender] = {"m": "MALE", "f": "FEMALE", "n": "NEUTRAL"}
    genders: dict[str, Gender] = {}
    for number, line in read_lines(path):
        name, tab, gender = line.partition("\t")
        if not (tab and name.strip() and gender.strip().lower() in ("m", "f", "n", "male", "female", "neutral")):
            raise UserError(f"{path}:{number}: expected name, tab and male, female or neutral, found {line!r}")
        genders[name.strip().lower()] = initials[gender.strip()[0].lower()]
    return genders


def library_version() -> str:
    """That of Faker, whose lists of names change."""
    try:
        return metadata.version("Faker")
    except metadata.PackageNotFoundError as error:
        raise UserError(
            "Expected a list of names and their genders: install Faker by pip install 'depgen[names]', or give a file "
            "of your own, one name, tab and male, female or neutral a line."
        ) from error


def library_name_genders() -> dict[str, Gender | None]:
    """Genders by lower-cased name, from the English name lists of Faker (MIT); None for names on both lists."""
    library_version()
    from faker.providers.person.en import Provider

    genders: dict[str, Gender | None] = {name.lower(): "FEMALE" for name in Provider.first_names_female}
    for name in Provider.first_names_male:
        genders[name.lower()] = None if genders.get(name.lower(), "MALE") != "MALE" else "MALE"
    return genders


class CapitalizedNames:
    """Names among the capitalised words of cased stories, by the evidence of `people` and of the whole collection.

    A capitalised word within a sentence is proper unless a determiner precedes it or it is mostly a place (never first
    in a sentence, a third of the time after "in" and the like). At the start of a sentence it is proper if it is so
    elsewhere in the story, or if the collection capitalises it at least as often as not.
    """

    def __init__(self, stories: Sequence[Story], genders: Mapping[str, Gender | None]) -> None:
        self._genders = genders
        self._lower: Counter[str] = Counter()
        self._capitalized: Counter[str] = Counter()
        self._first: Counter[str] = Counter()
        self._located: Counter[str] = Counter()
        for story in stories:
            for sentence in story:
                for index, token in enumerate(sentence):
                    self._count(sentence, index, token)
        if not self._capitalized:
            raise UserError("Expected stories with capitals, found none: leave the step PlaceholdersForNames out.")

    def _count(self, sentence: Sequence[str], index: int, token: str) -> None:
        if not _is_capitalized(token):
            self._lower[token] += 1
            return
        self._capitalized[token] += 1
        self._first[token] += _is_first(sentence, index)
        self._located[token] += index > 0 and sentence[index - 1] in _LOCATIVE

    def find(self, story: Story) -> set[Position]:
        """The positions of capitalised words that name people."""
        capitalized = {
            (number, index)
            for number, sentence in enumerate(story)
            for index, token in enumerate(sentence)
            if _is_capitalized(token) and token.lower() not in NO_NAMES and not self._is_place(token)
        }
        within = {(number, index) for number, index in capitalized if self._is_proper_within(story[number], index)}
        names = {story[number][index] for number, index in within}
        first = {
            (number, index)
            for number, index in capitalized
            if _is_first(story[number], index) and self._is_proper_first(story[number][index], names)
        }
        return people(story, within | first, self._genders)

    def _is_place(self, token: str) -> bool:
        return not self._first[token] and 3 * self._located[token] > self._capitalized[token]

    def _is_proper_within(self, sentence: Sequence[str], index: int) -> bool:
        return not _is_first(sentence, index) and sentence[index - 1].lower() not in _DETERMINERS

    def _is_proper_first(self, token: str, names: set[str]) -> bool:
        return token in names or self._lower[token.lower()] <= self._capitalized[token]


def people(story: Story, proper: set[Position], genders: Mapping[str, Gender | None]) -> set[Position]:
    """The proper nouns that name people: known names, and in a story of he or she what starts a sentence and recurs.

    A proper noun right after a name belongs to it (a surname).
    """
    word = {position: story[position[0]][position[1]].lower() for position in proper}
    recurring = Counter(word.values())
    starting = {word[position] for position in proper if _is_first(story[position[0]], position[1])}
    told_of_someone = any(token.lower() in PRONOUNS for sentence in story for token in sentence)
    known = {name for name in recurring if name in genders}
    inferred = {name for name in starting if recurring[name] > 1} if told_of_someone else set()
    found = {position for position in proper if word[position] in known | inferred}
    for number, index in sorted(proper - found):
        if (number, index - 1) in found:
            found.add((number, index))
    return found


def everywhere(story: Story, found: set[Position]) -> set[Position]:
    """The positions found and all others of the same capitalised words, so that a story treats a name in one way."""
    names = {story[number][index] for number, index in found}
    same = {
        (number, index)
        for number, sentence in enumerate(story)
        for index, token in enumerate(sentence)
        if token in names and token[0].isupper()
    }
    return found | same


def _is_capitalized(token: str) -> bool:
    return token[0].isupper() and token[1:].islower() and token.isalpha()


def _is_first(sentence: Sequence[str], index: int) -> bool:
    return index == 0 or sentence[index - 1] in {".", "!", "?", '"', "``", "“", ":"}


def genders_in_story(
    story: Story, positions: set[Position], genders: Mapping[str, Gender | None]
) -> dict[Position, Gender]:
    """One gender a name throughout a story: the list's; for other names, and for names listed with None, that of the
    story's pronouns if they agree.

    >>> genders_in_story([["Kit", "met", "Ann", "."], ["Kit", "fed", "his", "cat"]], {(0, 0), (0, 2), (1, 0)},
    ...                  {"ann": "FEMALE"})
    {(0, 0): 'MALE', (0, 2): 'FEMALE', (1, 0): 'MALE'}
    """
    pronouns = {PRONOUNS[token.lower()] for sentence in story for token in sentence if token.lower() in PRONOUNS}
    inferred: Gender = pronouns.pop() if len(pronouns) == 1 else "NEUTRAL"
    result: dict[Position, Gender] = {}
    for number, index in sorted(positions):
        result[number, index] = genders.get(story[number][index].lower()) or inferred
    return result


def delexicalize(story: Story, names: Mapping[Position, Gender]) -> list[str]:
    """The story's sentences in lower case, one placeholder for each run of names (that of its first).

    >>> delexicalize([["Ann", "Lee", "'s", "Dog", "ran"]], {(0, 0): "FEMALE", (0, 1): "NEUTRAL"})
    ["[FEMALE] 's dog ran"]
    """
    sentences = []
    for number, sentence in enumerate(story):
        tokens: list[str] = []
        for index, token in enumerate(sentence):
            if (number, index) not in names:
                tokens.append(token.lower())
            elif (number, index - 1) not in names:
                tokens.append(f"[{names[number, index]}]")
        sentences.append(" ".join(tokens))
    return sentences
