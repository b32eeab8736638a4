"""Positions of the names of people in a story, and whose names they are."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Protocol

from depgen.annotation.spacy_pipelines import Pipeline, load_pipeline
from depgen.errors import UserError
from depgen.trees.lines import read_lines

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
_NO_NAMES = frozenset(resources.files("depgen.annotation").joinpath("no_names.txt").read_text().split())


class NameFinder(Protocol):
    """Says which tokens of a story are names of people; results name its `method`."""

    method: str

    def find(self, story: Story) -> set[Position]:
        """The positions of names."""
        ...


def read_name_genders(path: Path) -> dict[str, Gender]:
    """Genders by lower-cased name, from lines of name, tab and male, female or neutral (m, f, n will do).

    Raises:
        UserError: a line of another form.
    """
    initials: Mapping[str, Gender] = {"m": "MALE", "f": "FEMALE", "n": "NEUTRAL"}
    genders: dict[str, Gender] = {}
    for number, line in read_lines(path):
        name, tab, gender = line.partition("\t")
        if not (tab and name.strip() and gender.strip().lower() in ("m", "f", "n", "male", "female", "neutral")):
            raise UserError(f"{path}:{number}: expected name, tab and male, female or neutral, found {line!r}")
        genders[name.strip().lower()] = initials[gender.strip()[0].lower()]
    return genders


def library_name_genders() -> dict[str, Gender | None]:
    """Genders by lower-cased name, from the English name lists of Faker (MIT); None for names on both lists.

    Raises:
        UserError: Faker is not installed.
    """
    try:
        from faker.providers.person.en import Provider
    except ImportError as error:
        raise UserError(
            "Expected a list of names and their genders: install Faker by pip install 'depgen[names]', or give a file "
            "of your own, one name, tab and male, female or neutral a line."
        ) from error
    genders: dict[str, Gender | None] = {name.lower(): "FEMALE" for name in Provider.first_names_female}
    for name in Provider.first_names_male:
        genders[name.lower()] = None if genders.get(name.lower(), "MALE") != "MALE" else "MALE"
    return genders


class EntityNames:
    """Names as a spaCy pipeline's entity recogniser finds them (labels PERSON and PER).

    Raises:
        UserError: no such pipeline, or one without an entity recogniser.
    """

    def __init__(self, pipeline: str) -> None:
        self.method = f"entities of the spaCy pipeline {pipeline}"
        self._pipeline = load_pipeline(pipeline, ["ner", "entity_ruler"], alone=False)

    def find(self, story: Story) -> set[Position]:
        """The positions of tokens in entities that are people."""
        return {
            (number, token.i)
            for number, sentence in enumerate(_parse(self._pipeline, story))
            for token in sentence
            if token.ent_type_ in ("PERSON", "PER") and token.text not in ("'s", "’s", "'")
        }


class ProperNounNames:
    """Names among the proper nouns of a spaCy tagger, by the evidence of `people`.

    Raises:
        UserError: no such pipeline, or one without a tagger.
    """

    def __init__(self, pipeline: str, genders: Mapping[str, Gender | None]) -> None:
        self.method = f"proper nouns of the spaCy pipeline {pipeline}"
        self._pipeline = load_pipeline(pipeline, ["tagger", "morphologizer"], alone=False)
        self._genders = genders

    def find(self, story: Story) -> set[Position]:
        """The positions of proper nouns that name people."""
        proper = {
            (number, token.i)
            for number, sentence in enumerate(_parse(self._pipeline, story))
            for token in sentence
            if (token.tag_ == "NNP" or token.pos_ == "PROPN") and token.lower_ not in _NO_NAMES
        }
        return people(story, proper, self._genders)


class CapitalizedNames:
    """Names among the capitalised words of cased stories, by the evidence of `people` and of the whole collection.

    A capitalised word within a sentence is proper unless a determiner precedes it or it is mostly a place (never first
    in a sentence, a third of the time after "in" and the like). At the start of a sentence it is proper if it is so
    elsewhere in the story, or if the collection capitalises it at least as often as not.

    Raises:
        UserError: the stories have no capitals.
    """

    method = "capitalised words"

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
            raise UserError("Expected stories with capitals, found none: name a spaCy pipeline with ner or a tagger.")

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
            if _is_capitalized(token) and token.lower() not in _NO_NAMES and not self._is_place(token)
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


def _parse(pipeline: Pipeline, story: Story) -> Iterable[Any]:
    """A spaCy `Doc` for each sentence, in lower case where the pipeline has learnt from such words."""
    from spacy.tokens import Doc

    nlp = pipeline.nlp
    read = [[token.lower() for token in sentence] if pipeline.lowercase else list(sentence) for sentence in story]
    return nlp.pipe([Doc(nlp.vocab, words=words) for words in read])  # type: ignore[no-any-return]
