"""Phrases of the generated stories: nouns and what modifies them, verbs and what they govern, adverbials.

Each function lists the rules of one symbol; its parameters are the symbol's features. Heads choose their
dependents: a verb its object, a noun its adjectives and the verb of its relative clause. So that a string has one
derivation, modifiers of nouns use other prepositions than modifiers of verbs, and nothing is coordinated inside a
relative clause.
"""

from depgen.data.grammar import Rule, Word, rule, symbol, word
from depgen.data.story_grammar.lexicon import Gender, Noun, Scenario, Verb, preferences

THE, OF, COMMA, STOP = word("the", "DET"), word("of", "ADP"), word(",", "PUNCT"), word(".", "PUNCT")
AND, TO, WOULD = word("and", "CCONJ"), word("to", "PART"), word("would", "AUX")
THAT_MARK, THAT, WHO, WHEN = word("that", "SCONJ"), word("that", "PRON"), word("who", "PRON"), word("when", "SCONJ")

PERSON_QUALITIES = ("young", "kind", "careful")
NOUN_PREPOSITIONS = ((0.5, "near"), (0.3, "beside"), (0.2, "behind"))
PAST_ATTITUDES = ("liked", "noticed", "wanted", "hated")
ACQUAINTANCE = ("knew", "met", "trusted")

ADVERBIALS = {
    "opening": (("one", "NUM", "morning"), ("last", "ADJ", "summer"), ("last", "ADJ", "week"), ("this", "DET", "year")),
    "company": ("soon", "afterwards", "then"),
    "detail": ("meanwhile", "usually", "then"),
    "turn": ("suddenly", "eventually", "unfortunately", "luckily"),
    "ending": ("finally", "afterwards", "today"),
}
FINAL_ADVERBS = ("yesterday", "early", "again")


def article(following: str) -> Word:
    """The indefinite article before a word."""
    return word("an" if following[0] in "aeiou" else "a", "DET")


def noun_form(noun: Noun, plural: bool) -> Word:
    """The noun in the number asked for."""
    return word(noun.plural if plural else noun.singular, "NOUN")


def verb_form(verb: Verb, form: str) -> Word:
    """The verb as "base", "third" or "past"."""
    return word(getattr(verb, form), "VERB")


def present(plural: bool) -> str:
    """The present-tense form that agrees with a third person subject."""
    return "base" if plural else "third"


def verb(form: str) -> Word:
    """A verb given by its surface form."""
    return word(form, "VERB")


def pronoun(form: str) -> Word:
    """A pronoun given by its surface form."""
    return word(form, "PRON")


def was(plural: bool) -> Word:
    """The past copula that agrees with its subject."""
    return word("were" if plural else "was", "AUX")


def hero(gender: Gender) -> list[Rule]:
    """The protagonist as a subject: mostly the pronoun, now and then the placeholder."""
    return [rule(0.8, pronoun(gender.subject)), rule(0.2, word(gender.placeholder, "PROPN"))]


def core(noun: Noun, plural: bool, scenario: Scenario, gender: Gender | None, plain: bool) -> list[Rule]:
    """Determiner, adjectives, noun; adjectives follow the noun, possessives the protagonist (None: there is none)."""
    person = noun in scenario.roles
    qualities = PERSON_QUALITIES if person else scenario.qualities
    pool = scenario.roles if person else scenario.things + scenario.parts
    adjectives: list[tuple[float, str | None]] = [(1.0 if plain else 0.65, None)]
    if not plain:
        adjectives += [(0.22 * w, quality) for w, quality in preferences(qualities, pool.index(noun), 0.3)]
    rules = []
    for weight, adjective in adjectives:
        form = noun_form(noun, plural)
        indefinite = word("some", "DET") if plural else article(adjective or form.form)
        determiners = [(0.65, "det", THE), (0.2, "det", indefinite)]
        if gender is not None and not person:
            determiners.append((0.15, "nmod:poss", pronoun(gender.possessive)))
        for share, relation, determiner in determiners:
            if adjective is None:
                rules.append(rule(weight * share, (relation, determiner), form))
            else:
                rules.append(rule(weight * share, (relation, determiner), ("amod", word(adjective, "ADJ")), form))
    return rules


def noun_phrase(
    noun: Noun, plural: bool, scenario: Scenario, gender: Gender | None, modified: float
) -> list[Rule]:
    """A noun with at most one modifier after it, with probability `modified`: prepositional phrase or relative clause."""
    head = symbol(core, noun, plural, scenario, gender, False)
    return [
        rule(1 - modified, head),
        rule(modified * 0.45, head, ("nmod", symbol(noun_modifier, noun, scenario))),
        rule(modified * 0.55, head, ("acl:relcl", symbol(relative_clause, noun, plural, scenario, gender))),
    ]


def noun_modifier(noun: Noun, scenario: Scenario) -> list[Rule]:
    """A prepositional phrase that modifies a noun; its own noun's number is free, so that it may distract."""
    pool = [other for other in (*scenario.things, *scenario.parts, *scenario.roles) if other != noun]
    favourite = (scenario.things + scenario.parts + scenario.roles).index(noun)
    rules = []
    for share, preposition in NOUN_PREPOSITIONS:
        for weight, other in preferences(pool, favourite % len(pool), 0.4):
            for part, plural in ((0.55, False), (0.45, True)):
                phrase = rule(share * weight * part, ("case", word(preposition, "ADP")), ("det", THE), noun_form(other, plural))
                rules.append(phrase)
    return rules


def relative_clause(
    noun: Noun, plural: bool, scenario: Scenario, gender: Gender | None
) -> list[Rule]:
    """A subject or object relative clause on a noun, whose verb the noun chooses."""
    if noun in scenario.roles:
        return _relative_on_person(noun, plural, scenario, gender)
    things = scenario.things + scenario.parts
    rules = []
    verbs = [(w, v.past) for w, v in preferences(scenario.verbs, things.index(noun), 0.25)]
    by_role = [
        (w * v, role, form) for w, role in preferences(scenario.roles, things.index(noun), 0.3) for v, form in verbs
    ]
    for weight, role, form in by_role:
        for share, several in ((0.6, False), (0.4, True)):
            subject = symbol(plain_noun, role, several)
            rules.append(rule(0.45 * weight * share, ("obj", THAT), ("nsubj", subject), verb(form)))
    if gender is not None:
        for weight, form in preferences(PAST_ATTITUDES, things.index(noun), 0.35):
            rules.append(rule(0.35 * weight, ("obj", THAT), ("nsubj", pronoun(gender.subject)), verb(form)))
    for weight, quality in preferences(scenario.qualities, things.index(noun) + 1, 0.25):
        rules.append(rule(0.3 * weight, ("nsubj", THAT), ("cop", was(plural)), word(quality, "ADJ")))
    return rules


def _relative_on_person(noun: Noun, plural: bool, scenario: Scenario, gender: Gender | None) -> list[Rule]:
    rules = []
    favourite = scenario.roles.index(noun)
    for weight, choice in preferences(scenario.verbs, favourite, 0.25):
        for share, form in ((0.5, "past"), (0.5, present(plural))):
            target = symbol(plain_object, scenario.verbs.index(choice), scenario)
            rules.append(rule(0.7 * weight * share, ("nsubj", WHO), verb_form(choice, form), ("obj", target)))
    if gender is not None:
        for weight, past in preferences(ACQUAINTANCE, favourite, 0.35):
            rules.append(rule(0.3 * weight, ("obj", WHO), ("nsubj", pronoun(gender.subject)), verb(past)))
    return rules


def plain_noun(noun: Noun, plural: bool) -> list[Rule]:
    """The noun with its article."""
    return [rule(1, ("det", THE), noun_form(noun, plural))]


def plain_object(verb_index: int, scenario: Scenario) -> list[Rule]:
    """What a verb of the scenario governs, in general: bare plurals and definite singulars."""
    rules = []
    for weight, noun in preferences(scenario.things + scenario.parts, verb_index, 0.35):
        rules.append(rule(0.6 * weight, noun_form(noun, True)))
        rules.append(rule(0.4 * weight, ("det", THE), noun_form(noun, False)))
    return rules


def verb_object(verb_index: int, thing: Noun, scenario: Scenario, gender: Gender) -> list[Rule]:
    """The object of a verb of the scenario: the story's thing, or what the verb prefers."""
    rules = []
    for weight, noun in [(1.0, thing), *preferences(scenario.things + scenario.parts, verb_index + 1, 0.35)]:
        for share, plural in ((0.75, False), (0.25, True)):
            rules.append(rule(weight * share, symbol(noun_phrase, noun, plural, scenario, gender, 0.12)))
    return rules


def verb_phrase(form: str, thing: Noun, scenario: Scenario, gender: Gender, about: bool, place: float) -> list[Rule]:
    """A transitive verb of the scenario, its object and, with probability `place`, where it happens.

    With `about` the object is the story's thing for certain.
    """
    rules = []
    for weight, choice in preferences(scenario.verbs, scenario.things.index(thing), 0.35):
        target = symbol(verb_object, scenario.verbs.index(choice), thing, scenario, gender)
        if about:
            target = symbol(introduction, thing, scenario)
        head = verb_form(choice, form)
        rules.append(rule(weight * (1 - place), head, ("obj", target)))
        rules.append(rule(weight * place, head, ("obj", target), ("obl", symbol(place_phrase, scenario))))
    return rules


def introduction(thing: Noun, scenario: Scenario) -> list[Rule]:
    """The story's thing when it is first spoken of."""
    return [
        rule(share, symbol(noun_phrase, thing, plural, scenario, None, 0.12)) for share, plural in ((0.8, False), (0.2, True))
    ]


def place_phrase(scenario: Scenario) -> list[Rule]:
    """Where the scenario plays."""
    return [
        rule(weight, ("case", word(preposition, "ADP")), ("det", THE), word(place, "NOUN"))
        for weight, (preposition, place) in preferences(scenario.places, 0)
    ]


def companion_phrase(companion: str, gender: Gender) -> list[Rule]:
    """The protagonist's companion."""
    return [rule(1, ("nmod:poss", pronoun(gender.possessive)), word(companion, "NOUN"))]


def hero_and_companion(companion: str, gender: Gender) -> list[Rule]:
    """The two as a coordinated subject."""
    other = symbol(companion_phrase, companion, gender)
    return [rule(1, pronoun(gender.subject), ("cc", AND, 2), ("conj", other))]


def fronted(stage: str) -> list[Rule]:
    """A fronted adverbial of the stage, without its comma."""
    if stage == "opening":
        return [
            rule(weight, ("det" if tag == "DET" else "amod" if tag == "ADJ" else "nummod", word(first, tag)), word(noun, "NOUN"))
            for weight, (first, tag, noun) in preferences(ADVERBIALS["opening"], 0, 0.6)
        ]
    return [rule(weight, word(adverb, "ADV")) for weight, adverb in preferences(ADVERBIALS[stage], 0, 0.5)]


def final_adverb() -> list[Rule]:
    """An adverb after the verb."""
    return [rule(weight, word(adverb, "ADV")) for weight, adverb in preferences(FINAL_ADVERBS, 0, 0.4)]
