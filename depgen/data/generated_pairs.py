"""Minimal pairs of the small language of `depgen.data.generated`, which guesses without syntax answer by half."""

from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any, Literal

from depgen.data.generated import NOUNS, NUMBER_OF, NUMBERS, PRONOUNS, TAGS, VERBS, Gender, Grammar, Number
from depgen.trees.sentence import Sentence

POOL = 10
"""Times as many pairs as are needed, from which they are chosen."""
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
