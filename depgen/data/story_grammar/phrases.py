"""Phrases of the generated stories: nouns and what modifies them, verbs and what they govern, adverbials.

Each function lists the rules of one symbol; its parameters are the symbol's features. Heads choose their dependents: a
verb its object and its adverb, a noun its adjectives and the verb of its relative clause. So that a string has one
derivation, modifiers of nouns use other prepositions than modifiers of verbs, and nothing is coordinated inside a
relative clause.
"""

from depgen.data.grammar import Rule, Symbol, Word, rule, symbol, word
from depgen.data.story_grammar.lexicon import Gender, Noun, Scenario, VerbForms, preferences

THE, COMMA, STOP = word("the", "DET"), word(",", "PUNCT"), word(".", "PUNCT")
AND, TO, WOULD = word("and", "CCONJ"), word("to", "PART"), word("would", "AUX")
THAT_MARK, THAT, WHO, WHEN = word("that", "SCONJ"), word("that", "PRON"), word("who", "PRON"), word("when", "ADV")

PERSON_QUALITIES = ("young", "kind", "careful", "famous", "strict", "cheerful")
COMMON_QUALITIES = ("old", "new", "small", "favorite", "expensive", "large", "pretty", "strange")
NOUN_PREPOSITIONS = ("near", "beside", "behind", "under")
ATTITUDES = ("liked", "noticed", "loved", "hated", "ignored", "missed", "described")
ACQUAINTANCE = ("met", "trusted", "admired", "helped", "followed")
MANNER = ("carefully", "quickly", "quietly", "slowly", "proudly", "secretly", "gladly", "clumsily")
DEGREES = ("always", "still", "very", "rather", "hardly", "equally")
ADVERBIALS = {
    "company": ("soon", "afterwards", "then", "later", "first", "immediately"),
    "detail": ("meanwhile", "sometimes", "surprisingly", "indeed", "naturally", "now"),
    "turn": ("suddenly", "eventually", "then", "overnight", "somehow", "once"),
    "ending": ("finally", "afterwards", "today", "later", "now"),
}
TIMES = ((word("one", "NUM"), "nummod", "morning"), (word("last", "ADJ"), "amod", "summer"),
         (word("last", "ADJ"), "amod", "week"), (word("this", "DET"), "det", "year"))  # fmt: skip
FINAL_ADVERBS = ("yesterday", "early", "again", "there", "twice", "outside", "nearby", "alone")


def article(following: str) -> Word:
    """The indefinite article before a word."""
    return word("an" if following[0] in "aeiou" else "a", "DET")


def noun_form(noun: Noun, plural: bool) -> Word:
    """The noun in a number."""
    return word(noun.plural if plural else noun.singular, "NOUN")


def verb_form(verb: VerbForms, form: str) -> Word:
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


# Nouns


def hero(gender: Gender) -> list[Rule]:
    """The protagonist as a subject: mostly the pronoun, now and then the placeholder."""
    return [rule(0.65, pronoun(gender.subject)), rule(0.35, word(gender.placeholder, "PROPN"))]


def companion_phrase(companion: str, gender: Gender) -> list[Rule]:
    """The protagonist's companion."""
    return [rule(1.0, ("nmod:poss", pronoun(gender.possessive)), word(companion, "NOUN"))]


def hero_and_companion(companion: str, gender: Gender) -> list[Rule]:
    """The two as a coordinated subject."""
    other = symbol(companion_phrase, companion, gender)
    return [rule(1.0, pronoun(gender.subject), ("cc", AND, 2), ("conj", other))]


def one_of(forms: tuple[str, ...], favourite: int, decay: float, tag: str) -> list[Rule]:
    """A word of a list."""
    return [rule(weight, word(form, tag)) for weight, form in preferences(forms, favourite, decay)]


def verb_among(forms: tuple[str, ...], favourite: int = 0, decay: float = 0.95) -> Symbol:
    """A verb of a list of forms."""
    return symbol(one_of, forms, favourite % len(forms), decay, "VERB")


def core(noun: Noun, plural: bool, scenario: Scenario, gender: Gender | None) -> list[Rule]:
    """Determiner, perhaps an adjective, noun; possessives are the protagonist's (None: there are none)."""
    bare = symbol(nominal, noun, plural, scenario)
    rules = [rule(0.45, ("det", THE), bare), rule(0.3, symbol(indefinite, noun, plural, scenario))]
    if gender is not None and noun not in scenario.roles:
        rules.append(rule(0.25, ("nmod:poss", pronoun(gender.possessive)), bare))
    return rules


def nominal(noun: Noun, plural: bool, scenario: Scenario) -> list[Rule]:
    """A noun, mostly with an adjective, which the noun chooses."""
    form = noun_form(noun, plural)
    rules = [rule(0.25, form)]
    for weight, quality in _qualities(noun, scenario):
        rules.append(rule(0.75 * weight, ("amod", word(quality, "ADJ")), form))
    return rules


def indefinite(noun: Noun, plural: bool, scenario: Scenario) -> list[Rule]:
    """A noun phrase with the indefinite article, which depends on the word after it, or with "some"."""
    form = noun_form(noun, plural)
    rules = [rule(0.25, ("det", word("some", "DET") if plural else article(form.form)), form)]
    for weight, quality in _qualities(noun, scenario):
        determiner = word("some", "DET") if plural else article(quality)
        rules.append(rule(0.75 * weight, ("det", determiner), ("amod", word(quality, "ADJ")), form))
    return rules


def _qualities(noun: Noun, scenario: Scenario) -> list[tuple[float, str]]:
    """The adjectives that go with a noun, with probabilities."""
    if noun in scenario.roles:
        choices = preferences(PERSON_QUALITIES, scenario.roles.index(noun), 0.9)
    else:
        favourite = scenario.objects.index(noun)
        choices = preferences(scenario.qualities, favourite, 0.8)
        choices += [(0.8 * w, quality) for w, quality in preferences(COMMON_QUALITIES, favourite, 0.9)]
    total = sum(weight for weight, _ in choices)
    return [(weight / total, quality) for weight, quality in choices]


def noun_phrase(noun: Noun, plural: bool, scenario: Scenario, gender: Gender, modified: float) -> list[Rule]:
    """A noun; with probability `modified` a prepositional phrase or a relative clause follows it."""
    head = symbol(core, noun, plural, scenario, gender)
    relative = relative_on_person if noun in scenario.roles else relative_on_thing
    return [
        rule(1.0 - modified, head),
        rule(modified * 0.5, head, ("nmod", symbol(noun_modifier, noun, scenario))),
        rule(modified * 0.5, head, ("acl:relcl", symbol(relative, noun, plural, scenario, gender))),
    ]


def noun_modifier(noun: Noun, scenario: Scenario) -> list[Rule]:
    """A prepositional phrase that modifies a noun; its own noun's number is free, so that it may distract."""
    pool = (*scenario.objects, *scenario.roles)
    favourite = pool.index(noun)
    return [
        rule(share * weight, ("case", word(preposition, "ADP")), ("det", THE), noun_form(other, plural))
        for share, preposition in preferences(NOUN_PREPOSITIONS, favourite, 0.9)
        for weight, other in preferences(pool, favourite + 1, 0.9)
        if other is not noun
        for plural in (False, True)
    ]


def relative_on_thing(noun: Noun, plural: bool, scenario: Scenario, gender: Gender) -> list[Rule]:
    """An object or subject relative clause on a thing, which chooses its verb."""
    favourite = scenario.objects.index(noun)
    past = verb_among(tuple(v.past for v in scenario.verbs), favourite, 0.75)
    subject = pronoun(gender.subject)
    quality = symbol(one_of, scenario.qualities, (favourite + 1) % len(scenario.qualities), 0.5, "ADJ")
    return [
        rule(0.25, ("obj", THAT), ("nsubj", subject), past),
        rule(0.25, ("obj", THAT), ("nsubj", symbol(somebody, scenario)), past),
        rule(0.25, ("obj", THAT), ("nsubj", subject), verb_among(ATTITUDES, favourite, 0.85)),
        rule(0.25, ("nsubj", THAT), ("cop", was(plural)), quality),
    ]


def somebody(scenario: Scenario) -> list[Rule]:
    """People of the scenario, with the definite article."""
    return [
        rule(weight, ("det", THE), noun_form(role, plural))
        for weight, role in preferences(scenario.roles, 0, 0.8)
        for plural in (False, True)
    ]


def relative_on_person(noun: Noun, plural: bool, scenario: Scenario, gender: Gender) -> list[Rule]:
    """A subject or object relative clause on a person, who chooses its verb; the present tense agrees."""
    favourite = scenario.roles.index(noun)
    rules = [rule(0.3, ("obj", WHO), ("nsubj", pronoun(gender.subject)), verb_among(ACQUAINTANCE, favourite))]
    choices = preferences(scenario.verbs, favourite, 0.75)
    total = sum(weight for weight, _ in choices)
    for weight, choice in choices:
        target = symbol(plain_object, scenario.verbs.index(choice), scenario)
        for form in ("past", present(plural)):
            rules.append(rule(0.35 * weight / total, ("nsubj", WHO), verb_form(choice, form), ("obj", target)))
    return rules


# Verbs


def plain_object(verb_index: int, scenario: Scenario) -> list[Rule]:
    """What a verb of the scenario governs in general: bare plurals and definite singulars."""
    rules = []
    for weight, noun in preferences(scenario.objects, 2 * verb_index, 0.7):
        rules.append(rule(0.6 * weight, noun_form(noun, True)))
        rules.append(rule(0.4 * weight, ("det", THE), noun_form(noun, False)))
    return rules


def verb_object(verb_index: int, thing: Noun, scenario: Scenario, gender: Gender, modified: float) -> list[Rule]:
    """The object of a verb of the scenario: the story's thing, or what the verb prefers."""
    return [
        rule(weight * share, symbol(noun_phrase, noun, plural, scenario, gender, modified))
        for weight, noun in [(0.5, thing), *preferences(scenario.objects, 2 * verb_index + 1, 0.75)]
        for share, plural in ((0.6, False), (0.4, True))
    ]


def introduction(thing: Noun, scenario: Scenario) -> list[Rule]:
    """The story's thing when it is first spoken of."""
    return [rule(share, symbol(core, thing, plural, scenario, None)) for share, plural in ((0.75, False), (0.25, True))]


def verb_phrase(form: str, thing: Noun, scenario: Scenario, gender: Gender, kind: str) -> list[Rule]:
    """A transitive verb of the scenario with its dependents; `kind` is as in `deed`."""
    return [
        rule(weight, symbol(deed, scenario.verbs.index(choice), form, thing, scenario, gender, kind))
        for weight, choice in preferences(scenario.verbs, scenario.things.index(thing), 0.9)
    ]


def deed(verb_index: int, form: str, thing: Noun, scenario: Scenario, gender: Gender, kind: str) -> list[Rule]:
    """A given verb with its object, and perhaps how or where.

    Args:
        verb_index: which of the scenario's verbs.
        form: "base", "third" or "past".
        thing: the story's thing.
        scenario: the story's scenario.
        gender: the protagonist.
        kind: "about" (the object is the story's thing), "short" (an object without modifiers after it) or "full".
    """
    head = verb_form(scenario.verbs[verb_index], form)
    if kind == "about":
        target: Symbol = symbol(introduction, thing, scenario)
    else:
        target = symbol(verb_object, verb_index, thing, scenario, gender, 0.25 if kind == "full" else 0.0)
    rules = [rule(0.15, head, ("obj", target))]
    manner = symbol(one_of, MANNER, verb_index, 0.85, "ADV")
    rules.append(rule(0.45, ("advmod", manner), head, ("obj", target)))
    if kind == "full":
        near = symbol(verb_object, verb_index, thing, scenario, gender, 0.0)
        rules.append(rule(0.15, head, ("obj", near), ("obl", symbol(place_phrase, scenario))))
        rules.append(rule(0.15, head, ("obj", near), ("advmod", final_adverb())))
    return rules


def infinitive(thing: Noun, scenario: Scenario, gender: Gender, kind: str) -> list[Rule]:
    """What somebody wants, or has to do."""
    return [rule(1.0, ("mark", TO), symbol(verb_phrase, "base", thing, scenario, gender, kind))]


def deed_of(thing: Noun, scenario: Scenario, gender: Gender, kind: str) -> list[Rule]:
    """A relative clause on a person: what that person did."""
    return [rule(1.0, ("nsubj", WHO), symbol(verb_phrase, "past", thing, scenario, gender, kind))]


# Adverbials


def place_phrase(scenario: Scenario) -> list[Rule]:
    """Where the scenario plays."""
    return [
        rule(weight, ("case", word(preposition, "ADP")), ("det", THE), word(place, "NOUN"))
        for weight, (preposition, place) in preferences(scenario.places, 0, 0.9)
    ]


def time_before() -> list[Rule]:
    """When a story begins."""
    return [
        rule(weight, (relation, first), word(noun, "NOUN"))
        for weight, (first, relation, noun) in preferences(TIMES, 0, 0.95)
    ]


def fronted(stage: str) -> Symbol:
    """An adverbial that begins a sentence of the stage."""
    return symbol(time_before) if stage == "opening" else symbol(one_of, ADVERBIALS[stage], 0, 0.95, "ADV")


def final_adverb() -> Symbol:
    """An adverb after the verb."""
    return symbol(one_of, FINAL_ADVERBS, 0, 0.95, "ADV")
