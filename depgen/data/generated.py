"""A small language whose syntax and probabilities are known: text with gold trees, its exact likelihood, minimal pairs.

A probabilistic grammar writes sentences in which a verb agrees in number with a subject that other nouns part from it
(prepositional phrases, subject and object relative clauses, one in another up to `depth`), and in which a reflexive
agrees in gender or number. In 40 % of the sentences the subject is not the first noun: a phrase is fronted, or the
sentence is the complement of another. In documents, later sentences take up the first subject by a pronoun.

A noun phrase has one modifier at most, so that every sentence has one derivation, and the modifiers' depth bounds the
length. The mean -log p of a test text is then the least loss a model can be expected
to have.
"""

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, Literal, NamedTuple

from depgen.data.corpus import Split, SplitStatistics, log_left_out
from depgen.errors import UserError
from depgen.training.randomness import run_seed
from depgen.trees.sentence import Document, Sentence

VERSION = 1
"""Goes into the fingerprint: to be raised with every change of words, probabilities or controlled pairs."""

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
"""A nonterminal: its name and its features."""
Part = tuple[str, str | Symbol]
"""A relation, and a word or a symbol. The part with the relation "" is the head."""


class Rule(NamedTuple):
    """A right-hand side, from left to right."""

    probability: float
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Grammar:
    """A grammar of sentences and of documents; `rules_of` lists its rules.

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

    def sample(self, random: Random, symbol: Symbol = ("sentence",)) -> Sentence:
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
            rules = rules_of(self, part)
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
        first = self.sample(random, ("opening", number, gender))
        return (first, *(self.sample(random, ("sentence", number, gender)) for _ in range(sentences - 1)))

    def log_prob(self, words: Sequence[str]) -> float:
        """The log-probability (nats) of a sentence; -inf if the grammar doesn't derive it."""
        return _log(self.inside(words))

    def document_log_prob(self, sentences: Sequence[Sequence[str]]) -> float:
        """The log-probability (nats) of a document, given the number of its sentences."""
        probability = 0.0
        for features, share in PROTAGONISTS.items():
            opening = self.inside(sentences[0], ("opening", *features))
            if opening:
                later = (self.inside(words, ("sentence", *features)) for words in sentences[1:])
                probability += share * opening * math.prod(later)
        return _log(probability)

    def inside(self, words: Sequence[str], symbol: Symbol = ("sentence",)) -> float:
        """The probability that a symbol derives the words."""

        @cache
        def ends(part: str | Symbol, start: int) -> Mapping[int, float]:
            """By its end, the probability of a part that begins at `start`."""
            if isinstance(part, str):
                return {start + 1: 1.0} if start < len(words) and words[start] == part else {}
            probabilities: dict[int, float] = {}
            for rule in rules_of(self, part):
                paths = {start: rule.probability}
                for _, child in rule.parts:
                    longer: dict[int, float] = {}
                    for middle, outer in paths.items():
                        for end, inner in ends(child, middle).items():
                            longer[end] = longer.get(end, 0.0) + outer * inner
                    paths = longer
                for end, probability in paths.items():
                    probabilities[end] = probabilities.get(end, 0.0) + probability
            return probabilities

        return ends(symbol, 0).get(len(words), 0.0)


@cache
def rules_of(grammar: Grammar, symbol: Symbol) -> list[Rule]:
    """The rules of a symbol, whose probabilities sum to 1.

    Features are numbers and genders; `depth`, how many modifiers may still be in one another; and `subject`, the number
    of the subject whose verb the nouns of a phrase precede, None where they precede no verb.
    """
    match symbol:
        case ["sentence", *protagonist]:  # in documents with number and gender of the subject that a pronoun takes up
            plain = 1 - grammar.taken_up if protagonist else 1.0
            clauses = [(plain / 2, number, ("clause", number)) for number in NUMBERS]
            if protagonist:
                clauses.append((grammar.taken_up, protagonist[0], ("pronoun clause", *protagonist)))
            rules = []
            for share, number, clause in clauses:
                indirect = share * grammar.indirect / 2
                fronted = ("prepositional", grammar.depth, number)
                rules.append(_rule(share * (1 - grammar.indirect), ("", clause), ("punct", ".")))
                rules.append(_rule(indirect, ("obl", fronted), ("punct", ","), ("", clause), ("punct", ".")))
                rules.append(_rule(indirect, ("", ("saying", clause)), ("punct", ".")))
            return rules
        case ["saying", clause]:
            return [
                _rule(
                    1 / 2,
                    ("nsubj", ("some noun phrase", number, grammar.depth, number)),
                    ("", _verb("clausal", number)),
                    ("ccomp", ("complement", clause)),
                )
                for number in NUMBERS
            ]
        case ["complement", clause]:
            return [_rule(1.0, ("mark", "that"), ("", clause))]
        case ["opening", number, gender]:  # the first sentence of a document
            return [_rule(1.0, ("", ("subject clause", number, gender)), ("punct", "."))]
        case ["clause", number]:
            return [_rule(share, ("", ("subject clause", number, gender))) for gender, share in GENDERS.items()]
        case ["subject clause", number, gender]:
            subject = ("noun phrase", number, gender, grammar.depth, number)
            return [_rule(1.0, ("nsubj", subject), ("", ("predicate", number, gender)))]
        case ["pronoun clause", number, gender]:
            return [_rule(1.0, ("nsubj", PRONOUNS[number, gender][0]), ("", ("predicate", number, gender)))]
        case ["predicate", number, gender]:
            intransitive, transitive = ("", _verb("intransitive", number)), ("", _verb("transitive", number))
            objects = ("some noun phrase", None, min(grammar.depth, 1), None)
            if (number, gender) not in PRONOUNS:
                return [_rule(0.5, intransitive), _rule(0.5, transitive, ("obj", objects))]
            reflexive = PRONOUNS[number, gender][1]
            return [
                _rule(0.4, intransitive),
                _rule(0.4, transitive, ("obj", objects)),
                _rule(0.2, transitive, ("obj", reflexive)),
            ]
        case ["some noun phrase", number, depth, subject]:  # number None: one that agrees with the subject or not
            numbers = {number: 1.0} if number else _numbers(grammar, subject)
            return [
                _rule(share * part, ("", ("noun phrase", one, gender, depth, subject)))
                for one, share in numbers.items()
                for gender, part in GENDERS.items()
            ]
        case ["noun phrase", number, gender, depth, subject]:  # with one modifier at most
            noun = ("", ("word", _forms(NOUNS[gender], number)))
            modifiers: list[Part] = [
                ("nmod", ("prepositional", depth - 1, subject)),
                ("acl:relcl", ("subject relative", number, depth - 1, subject)),
                ("acl:relcl", ("object relative", depth - 1, subject)),
            ]
            modified = grammar.modified if depth else 0.0
            ends = [(1 - modified, ()), *((modified / len(modifiers), (modifier,)) for modifier in modifiers)]
            return [
                _rule(share * part, ("det", ("word", DETERMINERS)), *adjective, noun, *end)
                for share, adjective in ((0.8, ()), (0.2, (("amod", ("word", ADJECTIVES)),)))
                for part, end in ends
                if part
            ]
        case ["prepositional", depth, subject]:
            return [_rule(1.0, ("case", ("word", PREPOSITIONS)), ("", ("some noun phrase", None, depth, subject)))]
        case ["subject relative", number, depth, subject]:
            noun_phrase = ("some noun phrase", None, depth, subject)
            return [_rule(1.0, ("nsubj", "that"), ("", _verb("transitive", number)), ("obj", noun_phrase))]
        case ["object relative", depth, subject]:  # nouns in its subject are drawn against that, whose verb comes first
            return [
                _rule(
                    share,
                    ("obj", "that"),
                    ("nsubj", ("some noun phrase", number, depth, number)),
                    ("", _verb("transitive", number)),
                )
                for number, share in _numbers(grammar, subject).items()
            ]
        case ["word", forms]:
            return [_rule(1 / len(forms), ("", form)) for form in forms]
    raise ValueError(f"no rules of {symbol}")


def _rule(probability: float, *parts: Part) -> Rule:
    return Rule(probability, parts)


def _numbers(grammar: Grammar, subject: Number | None) -> dict[Number, float]:
    """The probability of each number of a noun that precedes the subject's verb; None: it precedes no verb."""
    if subject is None:
        return dict.fromkeys(NUMBERS, 0.5)
    return {number: 1 - grammar.disagreement if number == subject else grammar.disagreement for number in NUMBERS}


def _verb(kind: str, number: Number) -> Symbol:
    return ("word", _forms(VERBS[kind], number))


def _forms(words: Sequence[tuple[str, str]], number: Number) -> tuple[str, ...]:
    """The singular or the plural of all words."""
    return tuple(pair[number == "plural"] for pair in words)


def _log(probability: float) -> float:
    return math.log(probability) if probability else -math.inf


# -- 3. Minimal pairs -------------------------------------------------------------------------------------------------


POOL = 10
"""Times as many pairs as are needed, from which they are chosen; guesses without syntax answer half of them."""
Row = dict[str, Any]
"""A row of a file of minimal pairs."""


@cache
def controlled_pairs() -> tuple[Row, ...]:
    """The pairs of the table `controlled`, the same for all its systems.

    Agreement with 1 to 4 nouns between subject and verb, 300 pairs each; 100 pairs each of agreement without such
    nouns and of reflexives with 0 to 4.
    """
    rows = [{**row, "linguistics_term": "agreement of neighbours"} for row in agreement_pairs(100, depth=0)]
    for depth in range(5):
        rows += agreement_pairs(300, depth=depth) if depth else []
        rows += reflexive_pairs(100, depth=depth)
    return tuple({**row, "pairID": str(number)} for number, row in enumerate(rows, start=1))


@cache
def controlled_contexts() -> tuple[Row, ...]:
    """The pairs of contexts of the table `controlled`: 300 that differ in the subject's gender, 300 in its number."""
    rows = [*pronoun_pairs(300, swapped="gender"), *pronoun_pairs(300, swapped="number")]
    return tuple({**row, "pairID": str(number)} for number, row in enumerate(rows, start=1))


@cache
def sentences_of_pairs() -> frozenset[str]:
    """Both sentences of all controlled pairs."""
    return frozenset(row[side] for row in controlled_pairs() for side in ("sentence_good", "sentence_bad"))


def agreement_pairs(number: int, *, depth: int, seed: int = 1) -> list[Row]:
    """Sentences whose verb is parted from its subject by `depth` nouns, and the same with the verb's other number.

    With nouns between, guesses without syntax are balanced: each answers about half of the pairs. They are the number
    of the first noun, of the last one, of most nouns and of the last verb before the verb; one that has no answer
    counts half. Each is a column.
    """

    def pair(sentence: Sentence) -> Row | None:
        subject, verb = subject_and_verb(sentence)
        before, after = sentence.words[:verb], sentence.words[verb + 1 :]
        if TAGS[before[subject]] != "NOUN" or _nouns(before[subject + 1 :]) != depth or after != (".",):
            return None
        right = NUMBER_OF[before[subject]]
        nouns, verbs = ([NUMBER_OF[word] for word in before if TAGS[word] == tag] for tag in ("NOUN", "VERB"))
        balance = 2 * nouns.count(right) - len(nouns)
        guesses = {
            "first_noun": float(nouns[0] == right),
            "last_noun": float(nouns[-1] == right),
            "most_nouns": 0.5 if balance == 0 else float(balance > 0),
            "last_verb": float(verbs[-1] == right) if verbs else 0.5,
        }
        wrong = (_other_form(sentence.words[verb]),)
        return _row("agreement", depth, sentence.words, (*before, *wrong, *after)) | guesses

    return _balanced(number, pair, depth=depth, seed=seed)


def reflexive_pairs(number: int, *, depth: int, seed: int = 1) -> list[Row]:
    """Sentences with `himself` or `herself`, and the same with the other.

    Of the `depth` nouns between subject and verb, at least one has the other gender. From two on, guesses by the gender
    of the first and of the last noun with a gender are balanced. The grammar writes all but verb and reflexive, which
    take the place of an intransitive verb.
    """
    genders = {form: gender for gender, nouns in NOUNS.items() for pair in nouns for form in pair}

    def pair(sentence: Sentence) -> Row | None:
        subject, verb = subject_and_verb(sentence)
        before, after = sentence.words[:verb], sentence.words[verb + 1 :]
        features = (NUMBER_OF.get(before[subject]), genders.get(before[subject]))
        is_wanted = features in (("singular", "masculine"), ("singular", "feminine")) and after == (".",)
        if not is_wanted or _nouns(before[subject + 1 :]) != depth:
            return None
        right = features[1]
        between = {genders.get(word, "none") for word in before[subject + 1 :]} - {"none", right}
        if depth and not between:
            return None
        guesses = [genders[word] == right for word in before if genders.get(word, "none") != "none"]
        transitive, _ = Random(" ".join(before)).choice(VERBS["transitive"])
        reflexives = ("himself", "herself") if right == "masculine" else ("herself", "himself")
        row = _row("reflexive", depth, *((*before, transitive, reflexive, *after) for reflexive in reflexives))
        return row | {"first_gender": float(guesses[0]), "last_gender": float(guesses[-1])}

    return _balanced(number, pair, depth=depth, seed=seed)


def pronoun_pairs(number: int, *, swapped: Literal["gender", "number"], seed: int = 1) -> list[Row]:
    """Sentences whose subject is a pronoun, after a sentence whose subject it can take up and after one it can't.

    The two contexts are the same but for the subject's gender or number and the words that agree with it. A system that
    doesn't see the context gives the sentence the same probability after both.
    """
    random, rows = Random(f"pronouns/{swapped}/{seed}"), []
    for k in range(number):
        number_of: Number = random.choice(NUMBERS) if swapped == "number" else "singular"
        genders: list[Gender] = ["masculine", "feminine"]
        random.shuffle(genders)
        gender, other_gender = genders
        other = (_other(number_of), gender) if swapped == "number" else (number_of, other_gender)
        good, bad = (
            Grammar(depth=0).sample(Random(f"{seed}/{k}"), ("opening", *features))
            for features in ((number_of, gender), other)
        )
        sentence = Grammar().sample(random, ("sentence", number_of, gender))
        while PRONOUNS[number_of, gender][0] not in sentence.words:
            sentence = Grammar().sample(random, ("sentence", number_of, gender))
        texts = {"sentence_good": sentence, "sentence_bad": sentence, "context_good": good, "context_bad": bad}
        names = {"UID": f"pronoun_{swapped}", "linguistics_term": "pronoun"}
        rows.append({name: " ".join(text.words) for name, text in texts.items()} | names)
    return rows


def subject_and_verb(sentence: Sentence) -> tuple[int, int]:
    """The places, from 0, of the subject and the verb of the last clause that is no relative clause."""
    assert sentence.heads is not None
    assert sentence.relations is not None
    verb = sentence.relations.index("ccomp" if "ccomp" in sentence.relations else "root")
    clause = zip(sentence.heads, sentence.relations, strict=True)
    return list(clause).index((verb + 1, "nsubj")), verb


def _balanced(number: int, pair: Callable[[Sentence], Row | None], *, depth: int, seed: int) -> list[Row]:
    """Different pairs, chosen one by one so that of each guess (a float of the row) about half are right."""
    random, grammar = Random(f"pairs/{seed}/{depth}"), Grammar(depth=depth, modified=1.0)
    pool: dict[str, Row] = {}
    while len(pool) < POOL * number:
        row = pair(grammar.sample(random))
        if row is not None:
            pool.setdefault(row["sentence_good"], row)
    by_guesses: dict[tuple[float, ...], list[Row]] = {}
    for row in pool.values():
        by_guesses.setdefault(tuple(value for value in row.values() if isinstance(value, float)), []).append(row)
    chosen: list[Row] = []
    balance = [0.0] * len(next(iter(by_guesses)))
    for _ in range(number):
        after = {
            guesses: [total + right - 0.5 for total, right in zip(balance, guesses, strict=True)]
            for guesses, rows in by_guesses.items()
            if rows
        }
        best = min(after, key=lambda guesses: (sum(total**2 for total in after[guesses]), -len(by_guesses[guesses])))
        balance = after[best]
        chosen.append(by_guesses[best].pop())
    return chosen


def _row(phenomenon: str, depth: int, good: Sequence[str], bad: Sequence[str]) -> Row:
    texts = {"sentence_good": " ".join(good), "sentence_bad": " ".join(bad)}
    return {**texts, "UID": f"{phenomenon}_{depth}", "linguistics_term": phenomenon, "depth": depth}


def _nouns(words: Sequence[str]) -> int:
    return sum(TAGS[word] == "NOUN" for word in words)


def _other(number: Number) -> Number:
    return "plural" if number == "singular" else "singular"


def _other_form(form: str) -> str:
    """The plural of a verb's singular, and the reverse."""
    (pair,) = (pair for verbs in VERBS.values() for pair in verbs if form in pair)
    return pair[1 - pair.index(form)]


# -- 4. Corpora -------------------------------------------------------------------------------------------------------


class GeneratedLanguage:
    """Text of the small language, with trees and tags.

    A document of a split depends on the seed, the split and its place alone: a smaller corpus is the beginning of a
    larger one, and the splits are independent draws with repeats.

    Args:
        train: number of training documents.
        valid: number of validation documents.
        test: number of test documents.
        seed: of the draws. None: training documents are drawn by the seed of the run, the others by 1, so that runs
            differ in what they learn from and are tested on the same.
        sentences: least and greatest number of sentences of a document, uniformly drawn; None: single sentences.
        depth: how many modifiers of a noun may be in one another.
        disagreement: the probability that a noun has another number than the subject whose verb it precedes.
        without_pairs: leave out, of the training draws, those with a sentence of
            `controlled_pairs`; the log counts them.
        name: what results call it.
    """

    published: Mapping[Split, SplitStatistics] = {}

    def __init__(
        self,
        train: int = 2000,
        valid: int = 300,
        test: int = 300,
        *,
        seed: int | None = 1,
        sentences: tuple[int, int] | None = None,
        depth: int = 2,
        disagreement: float = 0.5,
        without_pairs: bool = False,
        name: str = "generated",
    ) -> None:
        if min(train, valid, test, depth) < 0 or not 0 <= disagreement <= 1:
            raise UserError("GeneratedLanguage: sizes and depth are at least 0, disagreement is from 0 to 1.")
        if sentences is not None and not 1 <= sentences[0] <= sentences[1]:
            raise UserError(f"GeneratedLanguage: sentences are [least, greatest], at least 1, found {sentences}.")
        self.name, self.sentences, self.without_pairs = name, sentences, without_pairs
        training_seed, others = (run_seed(), 1) if seed is None else (seed, seed)
        self.seeds: dict[Split, int] = {"train": training_seed, "valid": others, "test": others}
        self.sizes: dict[Split, int] = {"train": train, "valid": valid, "test": test}
        self.grammar = Grammar(depth=depth, disagreement=float(disagreement))

    def documents(self, split: Split) -> Iterator[Document]:
        """The documents of a split, drawn again at each call."""
        left_out = self._left_out(split)
        kept = 0
        for k in itertools.count():
            if kept == self.sizes[split]:
                log_left_out(k - kept, "draws that hold a sentence of a pair", f"{self.name} {split}")
                return
            random = Random(f"{self.seeds[split]}/{split}/{k}")
            if self.sentences is None:
                sentences: tuple[Sentence, ...] = (self.grammar.sample(random),)
            else:
                sentences = self.grammar.sample_document(random, random.randint(*self.sentences))
            if left_out.isdisjoint(" ".join(sentence.words) for sentence in sentences):
                kept += 1
                yield Document(sentences, f"{self.name}-{split}-{k}")

    def _left_out(self, split: Split) -> frozenset[str]:
        """The sentences that no document of a split may hold."""
        if split != "train" or not self.without_pairs:
            return frozenset()
        return sentences_of_pairs()

    def fingerprint(self, split: Split) -> str:
        """SHA-256 of all that determines the text."""
        grammar = [self.grammar.depth, self.grammar.disagreement]
        values: list[Any] = [VERSION, self.seeds[split], split, self.sizes[split], self.sentences, grammar]
        if split == "train" and self.without_pairs:
            values.append("without pairs")
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
