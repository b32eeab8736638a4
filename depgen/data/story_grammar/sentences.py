"""Sentences of the generated stories, stage by stage, and how a story goes on.

What a stage settles is said in its sentence, so that a reader knows the state after each full stop: the opening names
the protagonist and the story's thing (and thereby the scenario), the company names the companion, and the turn says by
its verb whether things go well. The ending depends on all of these.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple

from depgen.data.grammar import Rule, Step, Symbol, Word, rule, symbol, word
from depgen.data.story_grammar.lexicon import Gender, Lexicon, Noun, Scenario, preferences
from depgen.data.story_grammar.phrases import (
    AND,
    COMMA,
    PAST_ATTITUDES,
    STOP,
    THAT,
    THAT_MARK,
    THE,
    TO,
    WHEN,
    WHO,
    WOULD,
    article,
    companion_phrase,
    core,
    final_adverb,
    fronted,
    hero,
    hero_and_companion,
    introduction,
    noun_form,
    noun_phrase,
    place_phrase,
    plain_object,
    present,
    pronoun,
    verb,
    verb_form,
    verb_object,
    verb_phrase,
    was,
)

WISHES = ("wanted", "decided", "hoped", "planned")
GETTING = ("bought", "found", "borrowed", "received")
SPEECH = ("said", "thought", "knew", "believed")
GIVING = ("gave", "lent", "showed", "sent")
ASKING = ("asked", "told", "invited")
ARRIVAL = ("arrived", "came", "returned")
VISITING = ("visited", "called", "greeted")
WAITING = ("waited", "laughed", "smiled", "slept")


class State(NamedTuple):
    """What is settled so far; `None` = not yet."""

    gender: Gender
    scenario: Scenario
    thing: Noun
    companion: str | None = None
    lucky: bool | None = None


class Luck(NamedTuple):
    """The words of a story that ended well, or badly."""

    act: tuple[str, ...]
    feeling: tuple[tuple[str, str], ...]
    toward_companion: tuple[str, ...]
    toward_self: tuple[str, ...]
    parting: tuple[str, ...]
    together: tuple[str, ...]
    judgement: tuple[str, ...]


GOOD = Luck(
    ("improved", "finished", "saved"), (("proud", "of"), ("happy", "with")), ("thanked", "hugged"),
    ("praised", "rewarded"), ("kept", "shared"), ("celebrated", "danced"), ("lucky", "brave"),
)  # fmt: skip
BAD = Luck(
    ("dropped", "ruined", "lost"), (("ashamed", "of"), ("angry", "with")), ("blamed", "avoided"),
    ("scolded", "pitied"), ("hid", "abandoned"), ("argued", "cried"), ("careless", "sad"),
)  # fmt: skip


@dataclass(frozen=True)
class StoryLanguage:
    """The language of stories; each sentence has an extraposed relative clause with probability `non_projective`."""

    lexicon: Lexicon
    non_projective: float = 0.0

    def steps(self, stage: str, state: State | None) -> list[Step]:
        """How a story goes on at a stage."""
        if stage == "opening":
            chosen = self._openings(state)
        elif state is not None and stage == "company" and state.companion is None:
            favourite = self.lexicon.scenarios.index(state.scenario) % len(self.lexicon.companions)
            companions = preferences(self.lexicon.companions, favourite, 0.6)
            chosen = [(weight, state._replace(companion=companion)) for weight, companion in companions]
        elif state is not None and stage == "turn":
            chosen = [(0.6, state._replace(lucky=True)), (0.4, state._replace(lucky=False))]
        else:
            assert state is not None, "a story starts with an opening"
            chosen = [(1.0, state)]
        known = {"opening": 3, "company": 4, "detail": 4, "turn": 5, "ending": 5}[stage]
        return [Step(weight, symbol(sentence, stage, self.non_projective, *after[:known]), after) for weight, after in chosen]

    def _openings(self, state: State | None) -> list[tuple[float, State]]:
        """A first episode's protagonist, scenario and thing, or a further episode of the same people."""
        scenarios = self.lexicon.scenarios
        if state is None:
            people: list[tuple[Gender, str | None]] = [(gender, None) for gender in self.lexicon.genders]
            places = [(1.0, scenario) for scenario in scenarios]
        else:
            people = [(state.gender, state.companion)]
            places = preferences(scenarios, scenarios.index(state.scenario) + 1, 0.4)
        return [
            (weight * part, State(gender, scenario, thing, companion))
            for gender, companion in people
            for weight, scenario in places
            for part, thing in preferences(scenario.things, 0, 0.6)
        ]


def sentence(stage: str, non_projective: float, *features: Hashable) -> list[Rule]:
    """A clause of the stage with its full stop, and mostly without an adverbial before it."""
    plain, extraposed = CLAUSES[stage]
    front = FRONTED_SHARE[stage]
    rules = []
    for share, clause in ((1 - non_projective, symbol(plain, *features)), (non_projective, symbol(extraposed, *features))):
        rules.append(rule(share * (1 - front), clause, ("punct", STOP)))
        adverbials = [(1.0, "obl:tmod" if stage == "opening" else "advmod", symbol(fronted, stage))]
        if stage == "turn":
            gender, companion = features[0], features[3]
            adverbials = [(0.5, *adverbials[0][1:]), (0.5, "advcl", symbol(when_clause, companion, gender))]
        for weight, relation, adverbial in adverbials:
            rules.append(rule(share * front * weight, (relation, adverbial), ("punct", COMMA), clause, ("punct", STOP)))
    return rules


def when_clause(companion: str, gender: Gender) -> list[Rule]:
    """A temporal clause about the companion."""
    subject = symbol(companion_phrase, companion, gender)
    return [rule(w, ("advmod", WHEN), ("nsubj", subject), verb(past)) for w, past in preferences(ARRIVAL, 0)]


def infinitive(thing: Noun, scenario: Scenario, gender: Gender, about: bool) -> list[Rule]:
    """What somebody wants or is asked to do."""
    return [rule(1, ("mark", TO), symbol(verb_phrase, "base", thing, scenario, gender, about, 0.1))]


# The opening: protagonist, scenario, thing


def named_hero(gender: Gender, scenario: Scenario) -> list[Rule]:
    """The protagonist's first mention, with an appositive relative clause now and then."""
    name = word(gender.placeholder, "PROPN")
    rules = [rule(0.82, name)]
    for weight, choice in preferences(scenario.verbs, 0):
        clause = symbol(habit, scenario.verbs.index(choice), scenario)
        rules.append(rule(0.18 * weight, name, ("punct", COMMA, 2), ("acl:relcl", clause), ("punct", COMMA, 2)))
    return rules


def habit(verb_index: int, scenario: Scenario) -> list[Rule]:
    """A relative clause on a person: what that person did in general."""
    past = verb_form(scenario.verbs[verb_index], "past")
    return [rule(1, ("nsubj", WHO), past, ("obj", symbol(plain_object, verb_index, scenario)))]


def opening(gender: Gender, scenario: Scenario, thing: Noun) -> list[Rule]:
    """Somebody wants, gets or makes the story's thing."""
    subject = symbol(named_hero, gender, scenario)
    where = symbol(place_phrase, scenario)
    favourite = scenario.things.index(thing)
    rules = []
    for weight, wish in preferences(WISHES, favourite, 0.4):
        rules.append(rule(0.5 * weight, ("nsubj", subject), verb(wish), ("xcomp", symbol(infinitive, thing, scenario, gender, True))))
    for weight, get in preferences(GETTING, favourite, 0.4):
        target = symbol(introduction, thing, scenario)
        rules.append(rule(0.25 * weight, ("nsubj", subject), verb(get), ("obj", target)))
        rules.append(rule(0.15 * weight, ("nsubj", subject), verb(get), ("obj", target), ("obl", where)))
    for weight, role in preferences(scenario.roles, favourite, 0.4):
        nature = symbol(profession, role, thing, scenario, gender)
        rules.append(rule(0.2 * weight, ("nsubj", word(gender.placeholder, "PROPN")), ("cop", was(False)), nature))
    return rules


def profession(role: Noun, thing: Noun, scenario: Scenario, gender: Gender) -> list[Rule]:
    """What the protagonist is: "a baker who tasted a pie"."""
    deed = symbol(deed_of, thing, scenario, gender, True)
    return [rule(1, ("det", article(role.singular)), noun_form(role, False), ("acl:relcl", deed))]


def deed_of(thing: Noun, scenario: Scenario, gender: Gender, about: bool) -> list[Rule]:
    """A relative clause on a person: what that person did."""
    return [rule(1, ("nsubj", WHO), symbol(verb_phrase, "past", thing, scenario, gender, about, 0.0))]


def extraposed_opening(gender: Gender, scenario: Scenario, thing: Noun) -> list[Rule]:
    """Somebody with the story's thing visits the protagonist."""
    deed = symbol(deed_of, thing, scenario, gender, True)
    return [
        rule(w * v, ("nsubj", symbol(plain_person, role)), verb(past), ("obj", word(gender.placeholder, "PROPN")),
             ("advmod", symbol(final_adverb)), ("acl:relcl", deed, 0))
        for w, role in preferences(scenario.roles, 0) for v, past in preferences(VISITING, 0)
    ]  # fmt: skip


def plain_person(role: Noun) -> list[Rule]:
    """A person with an article."""
    return [
        rule(share, ("det", determiner), noun_form(role, False))
        for share, determiner in ((0.7, article(role.singular)), (0.3, THE))
    ]


# The company: the companion


def company(gender: Gender, scenario: Scenario, thing: Noun, companion: str) -> list[Rule]:
    """The companion gives something, says something, is asked for something, or joins in."""
    other = symbol(companion_phrase, companion, gender)
    rules = []
    for weight, past in preferences(GIVING, scenario.things.index(thing), 0.4):
        for k, (share, _) in enumerate(preferences(scenario.verbs, 0)):
            gift = symbol(verb_object, k, thing, scenario, gender)
            rules.append(rule(0.35 * weight * share, ("nsubj", other), verb(past), ("iobj", pronoun(gender.object)), ("obj", gift)))
    for weight, past in preferences(SPEECH, 0, 0.5):
        rules.append(rule(0.25 * weight, ("nsubj", other), verb(past), ("ccomp", symbol(prospect, thing, scenario, gender))))
    for weight, past in preferences(ASKING, 0, 0.5):
        task = symbol(infinitive, thing, scenario, gender, False)
        rules.append(rule(0.3 * weight, ("nsubj", symbol(hero, gender)), verb(past), ("obj", other), ("xcomp", task)))
    both = symbol(hero_and_companion, companion, gender)
    rules.append(rule(0.4, ("nsubj", both), symbol(verb_phrase, "past", thing, scenario, gender, False, 0.3)))
    return rules


def prospect(thing: Noun, scenario: Scenario, gender: Gender) -> list[Rule]:
    """A clausal complement: what the protagonist would do."""
    deed = symbol(verb_phrase, "base", thing, scenario, gender, False, 0.1)
    return [rule(1, ("mark", THAT_MARK), ("nsubj", pronoun(gender.subject)), ("aux", WOULD), deed)]


def extraposed_company(gender: Gender, scenario: Scenario, thing: Noun, companion: str) -> list[Rule]:
    """The companion comes, who did something before."""
    other = symbol(companion_phrase, companion, gender)
    deed = symbol(deed_of, thing, scenario, gender, False)
    return [
        rule(weight, ("nsubj", other), verb(past), ("advmod", symbol(final_adverb)), ("acl:relcl", deed, 0))
        for weight, past in preferences(ARRIVAL, 0)
    ]


# Details


def detail(gender: Gender, scenario: Scenario, thing: Noun, companion: str) -> list[Rule]:
    """How things are, what people do in general, and what happens meanwhile."""
    rules = [rule(0.4, symbol(description, thing, scenario, gender))]
    rules += [rule(0.2, symbol(generality, thing, scenario, gender))]
    deed = symbol(verb_phrase, "past", thing, scenario, gender, False, 0.0)
    rules.append(rule(0.2, ("nsubj", symbol(hero, gender)), deed, ("cc", AND, 3), ("conj", deed, 1)))
    for weight, past in preferences(SPEECH, 1, 0.5):
        thought = symbol(reported, thing, scenario, gender)
        rules.append(rule(0.1 * weight, ("nsubj", symbol(hero, gender)), verb(past), ("ccomp", thought)))
    other = symbol(companion_phrase, companion, gender)
    for weight, past in preferences(WAITING, scenario.things.index(thing), 0.4):
        rules.append(rule(0.1 * weight, ("nsubj", other), verb(past), ("obl", symbol(place_phrase, scenario))))
    return rules


def description(thing: Noun, scenario: Scenario, gender: Gender) -> list[Rule]:
    """A copular clause about things, whose verb agrees with its subject over whatever stands between."""
    rules = []
    for weight, noun in preferences(scenario.things + scenario.parts, scenario.things.index(thing), 0.55):
        for plural in (False, True):
            subject = symbol(noun_phrase, noun, plural, scenario, gender, 0.6)
            for share, copula in ((0.65, was(plural)), (0.35, word("are" if plural else "is", "AUX"))):
                for fit, quality in preferences(scenario.qualities, scenario.things.index(thing), 0.3):
                    rules.append(rule(weight * share * fit, ("nsubj", subject), ("cop", copula), word(quality, "ADJ")))
    return rules


def reported(thing: Noun, scenario: Scenario, gender: Gender) -> list[Rule]:
    """A description as a clausal complement."""
    return [rule(1, ("mark", THAT_MARK), symbol(description, thing, scenario, gender))]


def generality(thing: Noun, scenario: Scenario, gender: Gender) -> list[Rule]:
    """What people of the scenario do, in the present tense."""
    rules = []
    for weight, role in preferences(scenario.roles, scenario.things.index(thing), 0.5):
        for plural in (False, True):
            subject = symbol(noun_phrase, role, plural, scenario, gender, 0.6)
            for fit, choice in preferences(scenario.verbs, scenario.roles.index(role), 0.3):
                target = symbol(plain_object, scenario.verbs.index(choice), scenario)
                rules.append(rule(weight * fit, ("nsubj", subject), verb_form(choice, present(plural)), ("obj", target)))
    return rules


def extraposed_detail(gender: Gender, scenario: Scenario, thing: Noun, companion: str) -> list[Rule]:
    """Things come to light that somebody had noticed."""
    rules = []
    for weight, noun in preferences(scenario.parts + scenario.things, scenario.things.index(thing), 0.5):
        for plural in (False, True):
            subject = symbol(core, noun, plural, scenario, gender, True)
            clause = symbol(opinion, companion, gender)
            rules.append(rule(weight, ("nsubj", subject), verb("appeared"), ("advmod", symbol(final_adverb)), ("acl:relcl", clause, 0)))
    return rules


def opinion(companion: str, gender: Gender) -> list[Rule]:
    """An object relative clause: "that her sister liked"."""
    other = symbol(companion_phrase, companion, gender)
    return [rule(w, ("obj", THAT), ("nsubj", other), verb(past)) for w, past in preferences(PAST_ATTITUDES, 0)]


# The turn: luck


def turn(gender: Gender, scenario: Scenario, thing: Noun, companion: str, lucky: bool) -> list[Rule]:
    """Something happens to the story's thing."""
    fates = scenario.thriving if lucky else scenario.failing
    luck = GOOD if lucky else BAD
    subject = symbol(noun_phrase, thing, False, scenario, gender, 0.5)
    rules = []
    for weight, fate in preferences(fates, scenario.things.index(thing)):
        rules.append(rule(0.35 * weight, ("nsubj", subject), verb(fate)))
        rules.append(rule(0.2 * weight, ("nsubj", subject), verb(fate), ("advmod", symbol(final_adverb))))
    target = symbol(core, thing, False, scenario, gender, True)
    for weight, act in preferences(luck.act, scenario.things.index(thing)):
        actor = symbol(hero, gender)
        rules.append(rule(0.3 * weight, ("nsubj", actor), verb(act), ("obj", target)))
        rules.append(rule(0.15 * weight, ("nsubj", actor), verb(act), ("obj", target), ("obl", symbol(place_phrase, scenario))))
    return rules


def extraposed_turn(gender: Gender, scenario: Scenario, thing: Noun, companion: str, lucky: bool) -> list[Rule]:
    """Something happens to the story's thing, of which the companion had an opinion."""
    subject = symbol(core, thing, False, scenario, gender, True)
    clause = symbol(opinion, companion, gender)
    return [
        rule(weight, ("nsubj", subject), verb(fate), ("advmod", symbol(final_adverb)), ("acl:relcl", clause, 0))
        for weight, fate in preferences(scenario.thriving if lucky else scenario.failing, 0)
    ]


# The ending


def ending(gender: Gender, scenario: Scenario, thing: Noun, companion: str, lucky: bool) -> list[Rule]:
    """How people feel and what they do in the end; everything depends on what came before."""
    luck = GOOD if lucky else BAD
    subject = pronoun(gender.subject)
    other = symbol(companion_phrase, companion, gender)
    favourite = scenario.things.index(thing)
    target = symbol(core, thing, False, scenario, gender, True)
    rules = []
    for weight, (feeling, preposition) in preferences(luck.feeling, favourite):
        for share, reason in ((0.5, pronoun(gender.reflexive)), (0.3, other), (0.2, target)):
            mood = symbol(feeling_about, feeling, preposition, reason)
            rules.append(rule(0.3 * weight * share, ("nsubj", subject), ("cop", was(gender.plural)), mood))
    for weight, past in preferences(luck.toward_companion, favourite):
        cause = symbol(for_thing, thing, scenario, gender)
        rules.append(rule(0.25 * weight, ("nsubj", subject), verb(past), ("obj", other), ("obl", cause)))
    for weight, past in preferences(luck.toward_self, favourite):
        for share, parting in preferences(luck.parting, favourite):
            second = symbol(parted, parting, target)
            reflexive = ("obj", pronoun(gender.reflexive))
            rules.append(rule(0.2 * weight * share, ("nsubj", subject), verb(past), reflexive, ("cc", AND, 4), ("conj", second)))
    for weight, past in preferences(luck.together, favourite):
        both = symbol(hero_and_companion, companion, gender)
        rules.append(rule(0.15 * weight, ("nsubj", both), verb(past), ("obl", symbol(place_phrase, scenario))))
    for weight, past in preferences(SPEECH, 0, 0.3):
        rules.append(rule(0.2 * weight, ("nsubj", other), verb(past), ("ccomp", symbol(verdict, gender, lucky))))
    return rules


def feeling_about(feeling: str, preposition: str, reason: Word | Symbol) -> list[Rule]:
    """An adjective and what it is about."""
    return [rule(1, word(feeling, "ADJ"), ("obl", symbol(about, preposition, reason)))]


def about(preposition: str, reason: Word | Symbol) -> list[Rule]:
    """A prepositional phrase."""
    return [rule(1, ("case", word(preposition, "ADP")), reason)]


def for_thing(thing: Noun, scenario: Scenario, gender: Gender) -> list[Rule]:
    """For the story's thing."""
    return [rule(1, ("case", word("for", "ADP")), symbol(core, thing, False, scenario, gender, True))]


def parted(past: str, target: Symbol) -> list[Rule]:
    """A verb and its object."""
    return [rule(1, verb(past), ("obj", target))]


def verdict(gender: Gender, lucky: bool) -> list[Rule]:
    """A clausal complement: what somebody is like after all."""
    return [
        rule(w, ("mark", THAT_MARK), ("nsubj", pronoun(gender.subject)), ("cop", was(gender.plural)), word(quality, "ADJ"))
        for w, quality in preferences((GOOD if lucky else BAD).judgement, 0)
    ]


def extraposed_ending(gender: Gender, scenario: Scenario, thing: Noun, companion: str, lucky: bool) -> list[Rule]:
    """Somebody comes who takes a stand on the protagonist."""
    stand = symbol(stand_on, gender, lucky)
    return [
        rule(w * v, ("nsubj", symbol(plain_person, role)), verb(past), ("advmod", symbol(final_adverb)), ("acl:relcl", stand, 0))
        for w, role in preferences(scenario.roles, scenario.things.index(thing))
        for v, past in preferences(ARRIVAL, 0)
    ]


def stand_on(gender: Gender, lucky: bool) -> list[Rule]:
    """A relative clause: how somebody treats the protagonist."""
    return [
        rule(w, ("nsubj", WHO), verb(past), ("obj", pronoun(gender.object)))
        for w, past in preferences((GOOD if lucky else BAD).toward_self, 0)
    ]


FRONTED_SHARE = {"opening": 0.5, "company": 0.25, "detail": 0.15, "turn": 0.45, "ending": 0.25}

CLAUSES: dict[str, tuple[Callable[..., list[Rule]], Callable[..., list[Rule]]]] = {
    "opening": (opening, extraposed_opening),
    "company": (company, extraposed_company),
    "detail": (detail, extraposed_detail),
    "turn": (turn, extraposed_turn),
    "ending": (ending, extraposed_ending),
}
