"""A small language whose syntax and probabilities are known: text with gold trees, its exact likelihood, minimal pairs.

A probabilistic grammar writes sentences in which a verb agrees in number with a subject that other nouns part from it
(prepositional phrases, subject and object relative clauses, one in another up to `depth`), and in which a reflexive
agrees in gender or number. In 40 % of the sentences the subject is not the first noun: a phrase is fronted, or the
sentence is the complement of another. In documents, later sentences take up the first subject by a pronoun.

A noun phrase has one modifier at most, so that every sentence has one derivation (`Grammar.inside` can count them), and
the modifiers' depth bounds the length. The mean -log p of a test text is then the least loss a model can be expected
to have.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, Literal, NamedTuple

from depgen.data.corpus import Split, SplitStatistics
from depgen.errors import UserError
from depgen.trees.sentence import Document, Sentence

VERSION = 1
"""Goes into the fingerprint: to be raised with every change of words or probabilities."""

# -- 1. Words ---------------------------------------------------------------------------------------------------------

Number = Literal["singular", "plural"]
Gender = Literal["masculine", "feminine", "none"]
NUMBERS: tuple[Number, Number] = ("singular", "plural")
GENDERS: Mapping[Gender, float] = {"masculine": 0.25, "feminine": 0.25, "none": 0.5}
"""The share of the nouns of each gender."""

NOUNS: Mapping[Gender, tuple[tuple[str, str], ...]] = {
    "masculine": (("king", "kings"), ("boy", "boys"), ("uncle", "uncles"), ("waiter", "waiters")),
    "feminine": (("queen", "queens"), ("girl", "girls"), ("aunt", "aunts"), ("waitress", "waitresses")),
    "none": (
        ("teacher", "teachers"), ("doctor", "doctors"), ("farmer", "farmers"), ("pilot", "pilots"),
        ("singer", "singers"), ("author", "authors"), ("driver", "drivers"), ("guard", "guards"),
    ),
}  # fmt: skip
VERBS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "intransitive": tuple((f"{verb}s", verb) for verb in ("sleep", "wait", "smile", "laugh", "sing", "work", "run")),
    "transitive": tuple((f"{verb}s", verb) for verb in ("see", "like", "help", "know", "hear", "follow", "admire")),
    "clausal": tuple((f"{verb}s", verb) for verb in ("say", "think", "believe", "hope")),
}
DETERMINERS, ADJECTIVES = ("the", "my", "our"), ("old", "young", "tall", "small", "happy", "quiet")
PREPOSITIONS = ("near", "behind", "beside", "with", "above")
PRONOUNS: Mapping[tuple[Number, Gender], tuple[str, str]] = {
    ("singular", "masculine"): ("he", "himself"),
    ("singular", "feminine"): ("she", "herself"),
    **{("plural", gender): ("they", "themselves") for gender in GENDERS},
}
"""Nominative and reflexive of each subject that has one; a singular noun without gender has none."""
PROTAGONISTS = {(number, gender): GENDERS[gender] / 1.5 if number == "plural" else 1 / 6 for number, gender in PRONOUNS}
TAGS = {
    **dict.fromkeys(DETERMINERS, "DET"), **dict.fromkeys(ADJECTIVES, "ADJ"), **dict.fromkeys(PREPOSITIONS, "ADP"),
    **{form: "NOUN" for nouns in NOUNS.values() for noun in nouns for form in noun},
    **{form: "VERB" for verbs in VERBS.values() for verb in verbs for form in verb},
    **dict.fromkeys(sum(PRONOUNS.values(), ()), "PRON"), "that": "SCONJ", ",": "PUNCT", ".": "PUNCT",
}  # fmt: skip
NUMBER_OF: dict[str, Number] = {
    form: number
    for forms in (*NOUNS.values(), *VERBS.values())
    for pair in forms
    for number, form in zip(NUMBERS, pair, strict=True)
}
"""The number of each form of a noun or a verb."""


# -- 2. Grammar -------------------------------------------------------------------------------------------------------

Symbol = tuple[Any, ...]
"""A nonterminal: the name of the method of `Grammar` that lists its rules, and the arguments of that method."""


class Rule(NamedTuple):
    """A right-hand side: relations and parts from left to right. The part with the relation "" is the head."""

    probability: float
    parts: tuple[tuple[str, str | Symbol], ...]


@dataclass(frozen=True)
class Grammar:
    """A grammar of sentences and of documents. Its methods `_sentence`, `_clause`, … list the rules of a symbol.

    Attributes:
        depth: how many modifiers of a noun may be in one another.
        disagreement: the probability that a noun has another number than the subject whose verb it precedes.
        modified: the share of nouns with a modifier, where `depth` allows one.
        indirect: the share of sentences whose subject is not the first noun: half have a fronted phrase, half are the
            complement of a verb.
        taken_up: the share of later sentences of a document whose subject is a pronoun.
    """

    depth: int = 2
    disagreement: float = 0.5
    modified: float = 0.6
    indirect: float = 0.4
    taken_up: float = 0.6

    def sample(self, random: Random, symbol: Symbol = ("_sentence",)) -> Sentence:
        """A sentence that is derived from a symbol, with its tree."""
        words: list[str] = []
        heads: list[int] = []
        relations: list[str] = []

        def grow(part: str | Symbol) -> int:
            """Append the words of a part; returns the position of its head, from 1."""
            if isinstance(part, str):
                words.append(part)
                heads.append(0)
                relations.append("root")
                return len(words)
            rules = self.rules(part)
            (rule,) = random.choices(rules, [rule.probability for rule in rules])
            grown = [(relation, grow(child)) for relation, child in rule.parts]
            (head,) = (position for relation, position in grown if not relation)
            for relation, position in grown:
                if relation:
                    heads[position - 1], relations[position - 1] = head, relation
            return head

        grow(symbol)
        return Sentence(tuple(words), tuple(heads), tuple(relations), tuple(TAGS[word] for word in words))

    def sample_document(self, random: Random, sentences: int) -> tuple[Sentence, ...]:
        """Sentences of which the first has a subject that pronouns of the others take up."""
        ((number, gender),) = random.choices([*PROTAGONISTS], [*PROTAGONISTS.values()])
        first = self.sample(random, ("_opening", number, gender))
        return (first, *(self.sample(random, ("_sentence", number, gender)) for _ in range(sentences - 1)))

    def log_prob(self, words: Sequence[str]) -> float:
        """The log-probability (nats) of a sentence; -inf if the grammar doesn't derive it."""
        return _log(self.inside(words))

    def document_log_prob(self, sentences: Sequence[Sequence[str]]) -> float:
        """The log-probability (nats) of a document, given the number of its sentences."""
        probability = 0.0
        for features, share in PROTAGONISTS.items():
            opening = self.inside(sentences[0], ("_opening", *features))
            if opening:
                later = (self.inside(words, ("_sentence", *features)) for words in sentences[1:])
                probability += share * opening * math.prod(later)
        return _log(probability)

    def inside(self, words: Sequence[str], symbol: Symbol = ("_sentence",), *, count: bool = False) -> float:
        """The probability that a symbol derives the words, or with `count` the number of derivations."""

        @cache
        def ends(part: str | Symbol, start: int) -> Mapping[int, float]:
            """By its end, the weight of a part that begins at `start`."""
            if isinstance(part, str):
                return {start + 1: 1.0} if start < len(words) and words[start] == part else {}
            weights: dict[int, float] = {}
            for rule in self.rules(part):
                paths = {start: 1.0 if count else rule.probability}
                for _, child in rule.parts:
                    longer: dict[int, float] = {}
                    for middle, weight in paths.items():
                        for end, inner in ends(child, middle).items():
                            longer[end] = longer.get(end, 0.0) + weight * inner
                    paths = longer
                for end, weight in paths.items():
                    weights[end] = weights.get(end, 0.0) + weight
            return weights

        return ends(symbol, 0).get(len(words), 0.0)

    def rules(self, symbol: Symbol) -> list[Rule]:
        """The rules of a symbol; their probabilities sum to 1."""
        return _rules(self, symbol)

    def _sentence(self, *protagonist: Any) -> list[Rule]:  # noqa: ANN401
        """Any sentence; in documents with the number and gender of the subject that a pronoun takes up."""
        plain = 1 - self.taken_up if protagonist else 1.0
        clauses = [(plain / 2, number, ("_clause", number)) for number in NUMBERS]
        if protagonist:
            clauses.append((self.taken_up, protagonist[0], ("_pronoun_clause", *protagonist)))
        rules = []
        for share, number, clause in clauses:
            fronted, matrix = ("_prepositional", self.depth, number), ("_saying", clause)
            rules.append(Rule(share * (1 - self.indirect), (("", clause), ("punct", "."))))
            rules.append(
                Rule(share * self.indirect / 2, (("obl", fronted), ("punct", ","), ("", clause), ("punct", ".")))
            )
            rules.append(Rule(share * self.indirect / 2, (("", matrix), ("punct", "."))))
        return rules

    def _saying(self, clause: Symbol) -> list[Rule]:
        return [
            Rule(
                1 / 2,
                (
                    ("nsubj", ("_some_noun_phrase", number, self.depth, number)),
                    ("", ("_word", _forms(VERBS["clausal"], number))),
                    ("ccomp", ("_complement", clause)),
                ),
            )
            for number in NUMBERS
        ]

    def _complement(self, clause: Symbol) -> list[Rule]:
        return [Rule(1.0, (("mark", "that"), ("", clause)))]

    def _opening(self, number: Number, gender: Gender) -> list[Rule]:
        """The first sentence of a document, whose subject has this number and gender."""
        return [Rule(1.0, (("", ("_subject_clause", number, gender)), ("punct", ".")))]

    def _clause(self, number: Number) -> list[Rule]:
        return [Rule(share, (("", ("_subject_clause", number, gender)),)) for gender, share in GENDERS.items()]

    def _subject_clause(self, number: Number, gender: Gender) -> list[Rule]:
        subject = ("_noun_phrase", number, gender, self.depth, number)
        return [Rule(1.0, (("nsubj", subject), ("", ("_predicate", number, gender))))]

    def _pronoun_clause(self, number: Number, gender: Gender) -> list[Rule]:
        nominative, _ = PRONOUNS[number, gender]
        return [Rule(1.0, (("nsubj", nominative), ("", ("_predicate", number, gender))))]

    def _predicate(self, number: Number, gender: Gender) -> list[Rule]:
        transitive = ("", ("_word", _forms(VERBS["transitive"], number)))
        rules = [
            Rule(0.4, (("", ("_word", _forms(VERBS["intransitive"], number))),)),
            Rule(0.4, (transitive, ("obj", ("_some_noun_phrase", None, min(self.depth, 1), None)))),
        ]
        if (number, gender) not in PRONOUNS:
            return [Rule(0.5, rule.parts) for rule in rules]
        return [*rules, Rule(0.2, (transitive, ("obj", PRONOUNS[number, gender][1])))]

    def _some_noun_phrase(self, number: Number | None, depth: int, subject: Number | None) -> list[Rule]:
        """A noun phrase of any gender; with `number` None, of a number that differs from the subject's at random."""
        numbers = {number: 1.0} if number else self._numbers(subject)
        return [
            Rule(share * part, (("", ("_noun_phrase", each, gender, depth, subject)),))
            for each, share in numbers.items()
            for gender, part in GENDERS.items()
        ]

    def _numbers(self, subject: Number | None) -> dict[Number | None, float]:
        """The probability of each number of a noun that precedes the subject's verb; None: it precedes no verb."""
        if subject is None:
            return dict.fromkeys(NUMBERS, 0.5)
        return {number: 1 - self.disagreement if number == subject else self.disagreement for number in NUMBERS}

    def _noun_phrase(self, number: Number, gender: Gender, depth: int, subject: Number | None) -> list[Rule]:
        """Determiner, noun and at most one modifier, whose nouns precede the verb of a subject of number `subject`."""
        determiner, noun = ("det", ("_word", DETERMINERS)), ("", ("_word", _forms(NOUNS[gender], number)))
        modifiers = (
            ("nmod", ("_prepositional", depth - 1, subject)),
            ("acl:relcl", ("_subject_relative", number, depth - 1, subject)),
            ("acl:relcl", ("_object_relative", depth - 1, subject)),
        )
        modified = self.modified if depth else 0.0
        ends = [(1 - modified, ()), *((modified / len(modifiers), (modifier,)) for modifier in modifiers)]
        return [
            Rule(share * part, (determiner, *adjective, noun, *end))
            for share, adjective in ((0.8, ()), (0.2, (("amod", ("_word", ADJECTIVES)),)))
            for part, end in ends
            if part
        ]

    def _prepositional(self, depth: int, subject: Number | None) -> list[Rule]:
        noun = ("_some_noun_phrase", None, depth, subject)
        return [Rule(1.0, (("case", ("_word", PREPOSITIONS)), ("", noun)))]

    def _subject_relative(self, number: Number, depth: int, subject: Number | None) -> list[Rule]:
        verb, noun = _forms(VERBS["transitive"], number), ("_some_noun_phrase", None, depth, subject)
        return [Rule(1.0, (("nsubj", "that"), ("", ("_word", verb)), ("obj", noun)))]

    def _object_relative(self, depth: int, subject: Number | None) -> list[Rule]:
        """Nouns that modify the clause's subject are drawn against it: they precede its verb first."""
        return [
            Rule(
                share,
                (
                    ("obj", "that"),
                    ("nsubj", ("_some_noun_phrase", number, depth, number)),
                    ("", ("_word", _forms(VERBS["transitive"], number))),
                ),
            )
            for number, share in self._numbers(subject).items()
        ]

    def _word(self, forms: tuple[str, ...]) -> list[Rule]:
        return [Rule(1 / len(forms), (("", form),)) for form in forms]


@cache
def _rules(grammar: Grammar, symbol: Symbol) -> list[Rule]:
    method, *features = symbol
    rules: list[Rule] = getattr(grammar, method)(*features)
    return rules


def _forms(words: Sequence[tuple[str, str]], number: Number | None) -> tuple[str, ...]:
    """The singular or the plural of all words."""
    return tuple(pair[number == "plural"] for pair in words)


def _log(probability: float) -> float:
    return math.log(probability) if probability else -math.inf


# -- 3. Corpora -------------------------------------------------------------------------------------------------------


class GeneratedLanguage:
    """Text of the small language, with trees and tags.

    Document k of a split depends on the seed, the split and k alone: a smaller corpus is the beginning of a larger one,
    and the splits are independent draws with repeats.

    Args:
        train: number of training documents.
        valid: number of validation documents.
        test: number of test documents.
        seed: of the draws.
        sentences: least and greatest number of sentences of a document, uniformly drawn; None: single sentences.
        depth: how many modifiers of a noun may be in one another.
        disagreement: the probability that a noun has another number than the subject whose verb it precedes.
        name: what results call it.
    """

    published: Mapping[Split, SplitStatistics] = {}

    def __init__(
        self,
        train: int = 2000,
        valid: int = 300,
        test: int = 300,
        *,
        seed: int = 1,
        sentences: tuple[int, int] | None = None,
        depth: int = 2,
        disagreement: float = 0.5,
        name: str = "generated",
    ) -> None:
        if min(train, valid, test, depth) < 0 or not 0 <= disagreement <= 1:
            raise UserError("GeneratedLanguage: sizes and depth are at least 0, disagreement is from 0 to 1.")
        if sentences is not None and not 1 <= sentences[0] <= sentences[1]:
            raise UserError(f"GeneratedLanguage: sentences are [least, greatest], at least 1, found {sentences}.")
        self.name, self.seed, self.sentences = name, seed, sentences
        self.sizes: dict[Split, int] = {"train": train, "valid": valid, "test": test}
        self.grammar = Grammar(depth=depth, disagreement=float(disagreement))

    def documents(self, split: Split) -> Iterator[Document]:
        """The documents of a split, drawn again at each call."""
        for k in range(self.sizes[split]):
            random = Random(f"{self.seed}/{split}/{k}")
            if self.sentences is None:
                sentences: tuple[Sentence, ...] = (self.grammar.sample(random),)
            else:
                sentences = self.grammar.sample_document(random, random.randint(*self.sentences))
            yield Document(sentences, f"{self.name}-{split}-{k}")

    def fingerprint(self, split: Split) -> str:
        """SHA-256 of all that determines the text."""
        grammar = [self.grammar.depth, self.grammar.disagreement]
        values = [VERSION, self.seed, split, self.sizes[split], self.sentences, grammar]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()

    def log_prob(self, document: Document) -> float:
        """The log-probability (nats) of a document's words and of where its sentences and itself end."""
        words = [sentence.words for sentence in document.sentences]
        if self.sentences is None:
            return self.grammar.log_prob(words[0]) if len(words) == 1 else -math.inf
        least, greatest = self.sentences
        if not least <= len(words) <= greatest:
            return -math.inf
        return self.grammar.document_log_prob(words) - math.log(greatest - least + 1)

    def floor(self, split: Split = "test") -> float:
        """The mean -log p a token (nats; one end a document is a token) of a split, under the grammar itself.

        No model can be expected to have a lower loss on it.
        """
        documents = list(self.documents(split))
        tokens = sum(sum(map(len, document.sentences)) + 1 for document in documents)
        return -math.fsum(map(self.log_prob, documents)) / tokens
