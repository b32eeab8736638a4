"""Clauses of the generated stories: one function a stage, and one for its variant with an extraposed relative clause.

Their features are what is settled by then: protagonist, scenario, thing, companion, luck.
"""

from typing import NamedTuple

from depgen.data.grammar import Rule, Symbol, Word, rule, symbol, word
from depgen.data.story_grammar.lexicon import Gender, Noun, Scenario, preferences
from depgen.data.story_grammar.phrases import (
    AND,
    ATTITUDES,
    COMMA,
    DEGREES,
    THAT,
    THAT_MARK,
    THE,
    WHO,
    WOULD,
    article,
    companion_phrase,
    core,
    deed,
    deed_of,
    final_adverb,
    hero,
    hero_and_companion,
    infinitive,
    introduction,
    noun_form,
    noun_phrase,
    one_of,
    place_phrase,
    plain_object,
    present,
    pronoun,
    verb,
    verb_among,
    verb_form,
    verb_object,
    verb_phrase,
    was,
)  # fmt: skip

WISHES = ("wanted", "decided", "hoped", "planned", "learned", "tried", "started")
GETTING = ("bought", "found", "borrowed", "received", "won", "stole")
SPEECH = ("said", "thought", "knew", "believed", "dreamed", "heard", "guessed")
GIVING = ("gave", "lent", "showed", "sent", "offered", "sold")
ASKING = ("asked", "told", "invited", "begged")
ARRIVAL = ("arrived", "came", "left", "called", "returned")
VISITING = ("visited", "greeted", "surprised", "startled")
WAITING = ("waited", "laughed", "smiled", "slept", "read")


class Luck(NamedTuple):
    """The words of a story that ends well, or badly."""

    act: tuple[str, ...]
    feeling: tuple[tuple[str, str], ...]
    toward_companion: tuple[str, ...]
    toward_self: tuple[str, ...]
    parting: tuple[str, ...]
    together: tuple[str, ...]
    judgement: tuple[str, ...]


GOOD = Luck(
    act=("improved", "finished", "saved", "cleaned", "fixed"),
    feeling=(("proud", "of"), ("happy", "with"), ("glad", "about")),
    toward_companion=("thanked", "hugged", "kissed", "rewarded"),
    toward_self=("praised", "congratulated", "comforted"),
    parting=("kept", "shared", "displayed"),
    together=("celebrated", "danced", "sang"),
    judgement=("lucky", "brave", "wise", "talented"),
)
BAD = Luck(
    act=("dropped", "ruined", "lost", "scratched", "forgot"),
    feeling=(("ashamed", "of"), ("angry", "with"), ("upset", "about")),
    toward_companion=("blamed", "avoided", "insulted", "mocked"),
    toward_self=("scolded", "pitied", "cursed"),
    parting=("hid", "abandoned", "buried"),
    together=("argued", "cried", "sulked"),
    judgement=("careless", "sad", "lazy", "unlucky"),
)


# The opening: protagonist, scenario, thing


def named_hero(gender: Gender, scenario: Scenario) -> list[Rule]:
    """The protagonist's first mention, with an appositive relative clause now and then."""
    name = word(gender.placeholder, "PROPN")
    rules = [rule(0.8, name)]
    total = sum(weight for weight, _ in preferences(scenario.verbs, 0))
    for weight, choice in preferences(scenario.verbs, 0):
        clause = symbol(habit, scenario.verbs.index(choice), scenario)
        share = 0.2 * weight / total
        rules.append(rule(share, name, ("punct", COMMA, 2), ("acl:relcl", clause), ("punct", COMMA, 2)))
    return rules


def habit(verb_index: int, scenario: Scenario) -> list[Rule]:
    """A relative clause on a person: what that person did in general."""
    past = verb_form(scenario.verbs[verb_index], "past")
    return [rule(1.0, ("nsubj", WHO), past, ("obj", symbol(plain_object, verb_index, scenario)))]


def opening(gender: Gender, scenario: Scenario, thing: Noun) -> list[Rule]:
    """Somebody wants, gets or makes the story's thing."""
    favourite = scenario.things.index(thing)
    subject, name = symbol(named_hero, gender, scenario), word(gender.placeholder, "PROPN")
    aim = symbol(infinitive, thing, scenario, gender, "about")
    got, target = verb_among(GETTING, favourite), symbol(introduction, thing, scenario)
    rules = [
        rule(0.45, ("nsubj", subject), verb_among(WISHES, favourite), ("xcomp", aim)),
        rule(0.2, ("nsubj", subject), got, ("obj", target)),
        rule(0.15, ("nsubj", subject), got, ("obj", target), ("obl", symbol(place_phrase, scenario))),
    ]
    for role in scenario.roles:
        nature = symbol(profession, role, thing, scenario, gender)
        rules.append(rule(0.1, ("nsubj", name), ("cop", was(False)), nature))
    return rules


def profession(role: Noun, thing: Noun, scenario: Scenario, gender: Gender) -> list[Rule]:
    """What the protagonist is: "a baker who tasted a pie"."""
    relative = symbol(deed_of, thing, scenario, gender, "about")
    return [rule(1.0, ("det", article(role.singular)), noun_form(role, False), ("acl:relcl", relative))]


def extraposed_opening(gender: Gender, scenario: Scenario, thing: Noun) -> list[Rule]:
    """Somebody with the story's thing visits the protagonist."""
    relative = symbol(deed_of, thing, scenario, gender, "about")
    name = word(gender.placeholder, "PROPN")
    guest, visited = symbol(person, scenario), verb_among(VISITING)
    return [rule(1.0, ("nsubj", guest), visited, ("obj", name), ("advmod", final_adverb()), ("acl:relcl", relative, 0))]


def person(scenario: Scenario) -> list[Rule]:
    """One of the scenario's people."""
    rules = []
    for role in scenario.roles:
        form = noun_form(role, False)
        rules += [rule(0.7, ("det", article(form.form)), form), rule(0.3, ("det", THE), form)]
    return rules


# The company: the companion


def company(gender: Gender, scenario: Scenario, thing: Noun, companion: str) -> list[Rule]:
    """The companion gives something, says something, is asked for something, or joins in."""
    other, favourite = symbol(companion_phrase, companion, gender), scenario.things.index(thing)
    plan = symbol(prospect, thing, scenario, gender)
    task = symbol(infinitive, thing, scenario, gender, "full")
    both = symbol(hero_and_companion, companion, gender)
    return [
        rule(0.3, ("nsubj", other), symbol(giving, thing, scenario, gender)),
        rule(0.2, ("nsubj", other), verb_among(SPEECH, favourite), ("ccomp", plan)),
        rule(0.25, ("nsubj", symbol(hero, gender)), verb_among(ASKING, favourite), ("obj", other), ("xcomp", task)),
        rule(0.25, ("nsubj", both), symbol(verb_phrase, "past", thing, scenario, gender, "full")),
    ]


def giving(thing: Noun, scenario: Scenario, gender: Gender) -> list[Rule]:
    """A ditransitive verb, which chooses the gift, with the protagonist as recipient."""
    recipient = pronoun(gender.object)
    rules = []
    for weight, past in preferences(GIVING, scenario.things.index(thing), 0.95):
        gift = symbol(verb_object, GIVING.index(past), thing, scenario, gender, 0.3)
        rules.append(rule(weight, verb(past), ("iobj", recipient), ("obj", gift)))
    return rules


def prospect(thing: Noun, scenario: Scenario, gender: Gender) -> list[Rule]:
    """A clausal complement: what the protagonist would do."""
    future = symbol(verb_phrase, "base", thing, scenario, gender, "full")
    return [rule(1.0, ("mark", THAT_MARK), ("nsubj", pronoun(gender.subject)), ("aux", WOULD), future)]


def extraposed_company(gender: Gender, scenario: Scenario, thing: Noun, companion: str) -> list[Rule]:
    """The companion comes, who did something before."""
    other = symbol(companion_phrase, companion, gender)
    relative = symbol(deed_of, thing, scenario, gender, "full")
    return [rule(1.0, ("nsubj", other), verb_among(ARRIVAL), ("advmod", final_adverb()), ("acl:relcl", relative, 0))]


# Details


def detail(gender: Gender, scenario: Scenario, thing: Noun, companion: str) -> list[Rule]:
    """How things are, what people do in general, and what happens meanwhile."""
    other, waiting = symbol(companion_phrase, companion, gender), verb_among(WAITING, scenario.things.index(thing))
    return [
        rule(0.9, symbol(circumstance, gender, scenario, thing)),
        rule(0.1, ("nsubj", other), waiting, ("obl", symbol(place_phrase, scenario))),
    ]


def circumstance(gender: Gender, scenario: Scenario, thing: Noun) -> list[Rule]:
    """Details without the companion."""
    subject = symbol(hero, gender)
    rules = [
        rule(0.35, symbol(description, thing, scenario, gender)),
        rule(0.25, symbol(generality, thing, scenario, gender)),
        rule(0.15, ("nsubj", subject), verb_among(SPEECH, 1), ("ccomp", symbol(reported, thing, scenario, gender))),
    ]
    count = len(scenario.verbs)
    for k in range(count):
        first = symbol(deed, k, "past", thing, scenario, gender, "short")
        second = symbol(deed, (k + 1) % count, "past", thing, scenario, gender, "full")
        rules.append(rule(0.25 / count, ("nsubj", subject), first, ("cc", AND, 3), ("conj", second)))
    return rules


def description(thing: Noun, scenario: Scenario, gender: Gender) -> list[Rule]:
    """A copular clause about things, whose verb agrees with its subject over whatever is between."""
    favourite = scenario.things.index(thing)
    rules = []
    for weight, noun in preferences(scenario.objects, favourite, 0.8):
        for plural in (False, True):
            subject = symbol(noun_phrase, noun, plural, scenario, gender, 0.6)
            for share, copula in ((0.65, was(plural)), (0.35, word("are" if plural else "is", "AUX"))):
                predicate = symbol(predicate_of, noun, scenario)
                rules.append(rule(weight * share, ("nsubj", subject), ("cop", copula), predicate))
    return rules


def predicate_of(noun: Noun, scenario: Scenario) -> list[Rule]:
    """A predicative adjective that the subject chooses, with an adverb before it now and then."""
    quality = symbol(one_of, scenario.qualities, scenario.objects.index(noun) % 4, 0.5, "ADJ")
    return [rule(0.5, quality), rule(0.5, ("advmod", symbol(one_of, DEGREES, 0, 0.95, "ADV")), quality)]


def reported(thing: Noun, scenario: Scenario, gender: Gender) -> list[Rule]:
    """A description as a clausal complement."""
    return [rule(1.0, ("mark", THAT_MARK), symbol(description, thing, scenario, gender))]


def generality(thing: Noun, scenario: Scenario, gender: Gender) -> list[Rule]:
    """What people of the scenario do, in the present tense."""
    rules = []
    for weight, role in preferences(scenario.roles, scenario.things.index(thing) % 2, 0.8):
        for plural in (False, True):
            subject = symbol(noun_phrase, role, plural, scenario, gender, 0.6)
            for fit, choice in preferences(scenario.verbs, scenario.roles.index(role), 0.6):
                habitual = verb_form(choice, present(plural))
                target = symbol(plain_object, scenario.verbs.index(choice), scenario)
                rules.append(rule(weight * fit, ("nsubj", subject), habitual, ("obj", target)))
    return rules


def extraposed_detail(gender: Gender, scenario: Scenario, thing: Noun, companion: str) -> list[Rule]:
    """Things come to light that the companion had an opinion of."""
    clause = symbol(opinion, companion, gender)
    return [
        rule(weight, ("nsubj", symbol(core, noun, plural, scenario, gender)), verb("appeared"),
             ("advmod", final_adverb()), ("acl:relcl", clause, 0))
        for weight, noun in preferences(scenario.objects, scenario.things.index(thing), 0.8)
        for plural in (False, True)
    ]  # fmt: skip


def opinion(companion: str, gender: Gender) -> list[Rule]:
    """An object relative clause: "that her sister liked"."""
    return [rule(1.0, ("obj", THAT), ("nsubj", symbol(companion_phrase, companion, gender)), verb_among(ATTITUDES))]


# The turn: luck


def turn(gender: Gender, scenario: Scenario, thing: Noun, companion: str, lucky: bool) -> list[Rule]:
    """Something happens to the story's thing; the companion matters in an adverbial clause only."""
    return [rule(1.0, symbol(event, gender, scenario, thing, lucky))]


def event(gender: Gender, scenario: Scenario, thing: Noun, lucky: bool) -> list[Rule]:
    """The thing thrives or fails, or the protagonist makes it so."""
    favourite = scenario.things.index(thing)
    subject = symbol(noun_phrase, thing, False, scenario, gender, 0.5)
    fate = verb_among(scenario.thriving if lucky else scenario.failing, favourite, 0.9)
    actor, target = symbol(hero, gender), symbol(core, thing, False, scenario, gender)
    act = verb_among((GOOD if lucky else BAD).act, favourite, 0.9)
    return [
        rule(0.15, ("nsubj", subject), fate),
        rule(0.3, ("nsubj", subject), fate, ("advmod", final_adverb())),
        rule(0.1, ("nsubj", actor), act, ("obj", target)),
        rule(0.3, ("nsubj", actor), act, ("obj", target), ("advmod", final_adverb())),
        rule(0.15, ("nsubj", actor), act, ("obj", target), ("obl", symbol(place_phrase, scenario))),
    ]


def extraposed_turn(gender: Gender, scenario: Scenario, thing: Noun, companion: str, lucky: bool) -> list[Rule]:
    """Something happens to the story's thing, of which the companion had an opinion."""
    subject, clause = symbol(core, thing, False, scenario, gender), symbol(opinion, companion, gender)
    fate = verb_among(scenario.thriving if lucky else scenario.failing)
    return [rule(1.0, ("nsubj", subject), fate, ("advmod", final_adverb()), ("acl:relcl", clause, 0))]


# The ending


def ending(gender: Gender, scenario: Scenario, thing: Noun, companion: str, lucky: bool) -> list[Rule]:
    """How people feel and what they do in the end; everything depends on what came before."""
    luck, favourite = GOOD if lucky else BAD, scenario.things.index(thing)
    subject, other = pronoun(gender.subject), symbol(companion_phrase, companion, gender)
    both, place = symbol(hero_and_companion, companion, gender), symbol(place_phrase, scenario)
    cause = symbol(about, "for", symbol(noun_phrase, thing, False, scenario, gender, 0.3))
    said, opinion_of = verb_among(SPEECH, favourite), symbol(verdict, gender, lucky)
    feeling = symbol(feeling_about, lucky, favourite, other)
    return [
        rule(0.35, symbol(ending_alone, gender, scenario, thing, lucky)),
        rule(0.15, ("nsubj", subject), ("cop", was(gender.plural)), feeling),
        rule(0.2, ("nsubj", subject), verb_among(luck.toward_companion, favourite), ("obj", other), ("obl", cause)),
        rule(0.15, ("nsubj", both), verb_among(luck.together, favourite), ("obl", place)),
        rule(0.15, ("nsubj", other), said, ("ccomp", opinion_of)),
    ]


def ending_alone(gender: Gender, scenario: Scenario, thing: Noun, lucky: bool) -> list[Rule]:
    """Endings without the companion."""
    luck, favourite = GOOD if lucky else BAD, scenario.things.index(thing)
    subject, reflexive = pronoun(gender.subject), pronoun(gender.reflexive)
    target = symbol(core, thing, False, scenario, gender)
    second = symbol(parted, luck.parting, favourite, target)
    toward = verb_among(luck.toward_self, favourite)
    rules = [rule(0.5, ("nsubj", subject), toward, ("obj", reflexive), ("cc", AND, 4), ("conj", second))]
    for share, reason in ((0.3, reflexive), (0.2, target)):
        feeling = symbol(feeling_about, lucky, favourite, reason)
        rules.append(rule(share, ("nsubj", subject), ("cop", was(gender.plural)), feeling))
    return rules


def feeling_about(lucky: bool, favourite: int, reason: Word | Symbol) -> list[Rule]:
    """An adjective, which chooses its preposition, and what it is about."""
    return [
        rule(weight, word(feeling, "ADJ"), ("obl", symbol(about, preposition, reason)))
        for weight, (feeling, preposition) in preferences((GOOD if lucky else BAD).feeling, favourite, 0.9)
    ]


def about(preposition: str, reason: Word | Symbol) -> list[Rule]:
    """A prepositional phrase."""
    return [rule(1.0, ("case", word(preposition, "ADP")), reason)]


def parted(forms: tuple[str, ...], favourite: int, target: Symbol) -> list[Rule]:
    """A verb and its object."""
    return [rule(1.0, verb_among(forms, favourite), ("obj", target))]


def verdict(gender: Gender, lucky: bool) -> list[Rule]:
    """A clausal complement: what the protagonist is like after all."""
    quality = symbol(one_of, (GOOD if lucky else BAD).judgement, 0, 0.95, "ADJ")
    return [rule(1.0, ("mark", THAT_MARK), ("nsubj", pronoun(gender.subject)), ("cop", was(gender.plural)), quality)]


def extraposed_ending(gender: Gender, scenario: Scenario, thing: Noun, companion: str, lucky: bool) -> list[Rule]:
    """Somebody comes who takes a stand on the protagonist."""
    guest, stand = symbol(person, scenario), symbol(stand_on, gender, lucky)
    return [rule(1.0, ("nsubj", guest), verb_among(ARRIVAL), ("advmod", final_adverb()), ("acl:relcl", stand, 0))]


def stand_on(gender: Gender, lucky: bool) -> list[Rule]:
    """A relative clause: how somebody treats the protagonist."""
    return [
        rule(1.0, ("nsubj", WHO), verb_among((GOOD if lucky else BAD).toward_self), ("obj", pronoun(gender.object)))
    ]
