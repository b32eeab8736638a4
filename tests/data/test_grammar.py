import math
from collections import Counter
from random import Random

import pytest

from depgen.data.grammar import DocumentGrammar, Rule, Step, Word, rule, symbol, word
from depgen.data.story_grammar import clauses, phrases
from depgen.data.story_grammar.language import State, StoryLanguage
from depgen.data.story_grammar.lexicon import FEMALE, LEXICON, MALE, SCENARIOS, Lexicon

STOP = word(".", "PUNCT")


def merged(rules):
    """Right-hand sides with probabilities; equal ones are one."""
    weights = Counter()
    for weight, parts in rules:
        if weight:
            weights[parts] += weight
    total = sum(weights.values())
    return [(weight / total, parts) for parts, weight in weights.items()]


def derivations(entry):
    """Every derivation of a symbol as (probability, words): the slow and obvious reading of the rules."""
    if isinstance(entry, Word):
        return [(1.0, (entry.form,))]
    found = []
    for p, parts in merged(entry.expand(*entry.features)):
        partial = [(p, ())]
        for part in parts:
            inner = derivations(part.symbol)
            partial = [(a * b, left + right) for a, left in partial for b, right in inner]
        found += partial
    return found


def document_derivations(language, plan, state=None):
    if not plan:
        return [(1.0, ())]
    found = []
    total = sum(step.weight for step in language.steps(plan[0], state))
    for weight, sentence, after in language.steps(plan[0], state):
        rest = document_derivations(language, plan[1:], after)
        found += [(weight / total * p * q, a + b) for p, a in derivations(sentence) for q, b in rest]
    return found


# A toy language: two kinds of animal, of which the second sentence depends on the first


def noun_phrase(kind) -> list[Rule]:
    noun = symbol(animal, kind)
    relative = symbol(that_slept)
    return [
        rule(3.0, ("det", word("the", "DET")), noun),
        rule(1.0, ("det", word("a", "DET")), noun, ("acl:relcl", relative)),
    ]


def animal(kind) -> list[Rule]:
    names = {"pet": ("dog", "cat"), "bird": ("owl", "hen", "cat")}[kind]
    return [rule(k + 1.0, word(name, "NOUN")) for k, name in enumerate(names)]


def that_slept() -> list[Rule]:
    return [rule(1.0, ("nsubj", word("that", "PRON")), word("slept", "VERB"))]


def clause(kind) -> list[Rule]:
    return [rule(1.0, ("nsubj", symbol(noun_phrase, kind)), word("ran", "VERB"), ("punct", STOP))]


def extraposed(kind) -> list[Rule]:
    subject, late = symbol(animal, kind), ("advmod", word("late", "ADV"))
    return [
        rule(1.0, ("nsubj", subject), word("ran", "VERB"), late, ("acl:relcl", symbol(that_slept), 0), ("punct", STOP))
    ]


class Toy:
    """`kinds` that share a word make the language ambiguous."""

    def __init__(self, *kinds) -> None:
        self.kinds = kinds

    def steps(self, stage, state) -> list[Step]:
        if state is None:
            return [Step(k + 1.0, symbol(clause, kind), kind) for k, kind in enumerate(self.kinds)]
        return [Step(2.0, symbol(clause, state), state), Step(1.0, symbol(extraposed, state), state)]


@pytest.mark.parametrize("kinds", [("pet",), ("bird", "pet")])
def test_log_probability_sums_all_derivations(kinds):
    grammar = DocumentGrammar(Toy(*kinds), ("first", "second"))
    strings = Counter()
    for p, words in document_derivations(Toy(*kinds), ("first", "second")):
        strings[words] += p
    assert math.isclose(sum(strings.values()), 1)
    for words, p in strings.items():
        assert math.isclose(grammar.log_probability(words), math.log(p), rel_tol=1e-12)


def test_toy_with_a_shared_word_is_ambiguous():
    found = [words for _, words in document_derivations(Toy("bird", "pet"), ("first",))]
    assert len(found) > len(set(found))


def test_moments_equal_the_enumerated_entropy_and_length():
    found = document_derivations(Toy("pet"), ("first", "second"))
    entropy, length = DocumentGrammar(Toy("pet"), ("first", "second")).moments()
    assert math.isclose(entropy, -sum(p * math.log(p) for p, _ in found), rel_tol=1e-12)
    assert math.isclose(length, sum(p * len(words) for p, words in found), rel_tol=1e-12)


IMPOSSIBLE = (
    "",
    "the dog",
    "the dog ran .",
    ". .",
    "the dog ran . the owl ran .",
    "the dog ran . the dog ran . the dog ran .",
    "the dog ran . the dog ran late .",
    "the dog dog ran . the dog ran .",
    "the dog ran . the yak ran .",
)


@pytest.mark.parametrize("words", IMPOSSIBLE)
def test_other_strings_are_impossible(words):
    assert DocumentGrammar(Toy("pet", "bird"), ("first", "second")).log_probability(words.split()) == -math.inf


def test_samples_carry_trees_and_the_log_probability_of_their_choices():
    grammar = DocumentGrammar(Toy("pet"), ("first", "second"))
    seen = {}
    for k in range(200):
        sample = grammar.sample(Random(k))
        for sentence in sample.sentences:
            seen[" ".join(sentence.words)] = sentence
        words = [form for sentence in sample.sentences for form in sentence.words]
        assert math.isclose(grammar.log_probability(words), sample.log_probability, rel_tol=1e-12)
    relative, moved = seen["a dog that slept ran ."], seen["cat ran late that slept ."]
    assert relative.heads == (2, 5, 4, 2, 0, 5)
    assert relative.relations == ("det", "nsubj", "nsubj", "acl:relcl", "root", "punct")
    assert relative.tags == ("DET", "NOUN", "PRON", "VERB", "VERB", "PUNCT")
    assert moved.heads == (2, 0, 2, 5, 1, 2)  # the relative clause depends on the subject across the verb


def test_sampled_frequencies_follow_the_weights():
    grammar = DocumentGrammar(Toy("bird", "pet"), ("first",))
    expected = Counter()
    for p, words in document_derivations(Toy("bird", "pet"), ("first",)):
        expected[words] += p
    counts = Counter(grammar.sample(Random(k)).sentences[0].words for k in range(4000))
    assert set(counts) == set(expected)
    for words, p in expected.items():
        assert abs(counts[words] / 4000 - p) < 5 * math.sqrt(p / 4000)


def test_a_rule_needs_one_head():
    with pytest.raises(AssertionError, match="one head"):
        rule(1.0, word("a", "X"), word("b", "X"))


# The story grammar: exhaustive on a shrunken lexicon, and a proof of unambiguity


class From(StoryLanguage):
    """Stories that go on from a given state."""

    def steps(self, stage, state):
        return super().steps(stage, START if state is None and stage != "opening" else state)


START = State(FEMALE, SCENARIOS[0], SCENARIOS[0].things[0], "sister", True)
STAGES = ("opening", "company", "detail", "turn", "ending")


@pytest.fixture
def shrunken(monkeypatch):
    """All word lists of the grammar cut to one or two words, and one scenario with one thing."""
    for name in ("PERSON_QUALITIES", "COMMON_QUALITIES", "NOUN_PREPOSITIONS", "ATTITUDES", "ACQUAINTANCE", "MANNER"):
        monkeypatch.setattr(phrases, name, getattr(phrases, name)[:1])
    for name in ("FINAL_ADVERBS", "TIMES", "DEGREES"):
        monkeypatch.setattr(phrases, name, getattr(phrases, name)[:1])
    monkeypatch.setattr(phrases, "ADVERBIALS", {stage: words[:1] for stage, words in phrases.ADVERBIALS.items()})
    for module in (phrases, clauses):
        for name in ("WISHES", "GETTING", "SPEECH", "GIVING", "ASKING", "ARRIVAL", "VISITING", "WAITING", "ATTITUDES"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, getattr(module, name)[:1])
    if hasattr(clauses, "DEGREES"):
        monkeypatch.setattr(clauses, "DEGREES", clauses.DEGREES[:1])
    whole = SCENARIOS[0]
    scenario = type(whole)(
        name="tiny", things=whole.things[:1], parts=whole.parts[:1], roles=whole.roles[:1], places=whole.places[:1],
        verbs=whole.verbs[:2], qualities=whole.qualities[:1], thriving=whole.thriving[:1], failing=whole.failing[:1],
    )  # fmt: skip
    monkeypatch.setattr(f"{__name__}.START", State(FEMALE, scenario, scenario.things[0], "sister", True))
    return From(Lexicon((scenario,), (MALE, FEMALE), ("sister", "uncle")), 0.25)


@pytest.mark.parametrize("stage", STAGES)
def test_a_shrunken_stage_is_unambiguous_and_sums_to_one(shrunken, stage):
    found = document_derivations(shrunken, (stage,))
    probabilities = {words: p for p, words in found}
    assert len(probabilities) == len(found)  # no two derivations share a string
    grammar = DocumentGrammar(shrunken, (stage,))
    assert math.isclose(sum(probabilities.values()), 1)
    strings = list(probabilities) if len(found) < 1500 else Random(0).sample(list(probabilities), 1500)
    for words in strings:
        assert math.isclose(grammar.log_probability(words), math.log(probabilities[words]), rel_tol=1e-9)
    assert math.isclose(grammar.moments()[0], -sum(p * math.log(p) for p in probabilities.values()), rel_tol=1e-9)


def ambiguity(language, stage, state):
    """A string with two derivations, or None: a search over pairs of parsers that read the same words.

    A parser is its stack of symbols to come. Two that have parted and still reach the end of the same string are two
    derivations of it; every pair is followed once, so that the answer is a proof.
    """
    rules, first = {}, {}

    def openings(stack):
        if stack not in first:
            ways, agenda = {}, [stack]
            while agenda:
                top, *rest = agenda.pop()
                if isinstance(top, Word):
                    ways.setdefault(top.form, []).append(tuple(rest))
                    continue
                if top not in rules:
                    rules[top] = [
                        tuple(part.symbol for part in parts) for _, parts in merged(top.expand(*top.features))
                    ]
                agenda += [(*parts, *rest) for parts in rules[top]]
            first[stack] = ways
        return first[stack]

    steps = {(sentence, after) for _, sentence, after in language.steps(stage, state)}
    roots = [(sentence,) for sentence, _ in steps]
    agenda = [(a, b, True) for k, a in enumerate(roots) for b in roots[:k]] + [(a, a, False) for a in roots]
    before = dict.fromkeys(agenda)
    while agenda:
        pair = agenda.pop()
        left, right, parted = pair
        if not left or not right:
            if parted and left == right:
                return spell(before, pair)
            continue
        for form, ways in openings(left).items():
            others = openings(right).get(form, ())
            for i, one in enumerate(ways):
                for j, other in enumerate(others):
                    if not parted and j > i:
                        break
                    following = (one, other, parted or i != j)
                    if following not in before:
                        before[following] = (pair, form)
                        agenda.append(following)
    return None


def spell(before, pair):
    words = []
    while before[pair]:
        pair, form = before[pair]
        words.append(form)
    return words[::-1]


def test_the_search_finds_an_ambiguity():
    assert ambiguity(Toy("bird", "pet"), "first", None) in (
        ["the", "cat", "ran", "."],
        ["a", "cat", "that", "slept", "ran", "."],
    )
    assert ambiguity(Toy("bird"), "first", None) is None


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_stories_are_unambiguous(stage):
    few = Lexicon(SCENARIOS[4:5], LEXICON.genders[1:], LEXICON.companions[:2])
    start = State(FEMALE, SCENARIOS[4], SCENARIOS[4].things[1], None if stage == "company" else "sister", False)
    assert ambiguity(StoryLanguage(few, 0.2), stage, None if stage == "opening" else start) is None


@pytest.mark.slow
def test_all_stories_are_unambiguous():
    language = StoryLanguage(LEXICON, 0.2)
    for gender in LEXICON.genders:
        assert ambiguity(StoryLanguage(Lexicon(SCENARIOS, (gender,), LEXICON.companions), 0.2), "opening", None) is None
    for scenario in SCENARIOS:  # "her" is both object and possessive: the gender where ambiguity is likeliest
        state = State(FEMALE, scenario, scenario.things[0], None, None)
        assert ambiguity(language, "company", state) is None
        for stage in ("detail", "turn", "ending"):
            assert ambiguity(language, stage, state._replace(companion="uncle", lucky=True)) is None
