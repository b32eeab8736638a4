"""How a generated story continues, sentence by sentence.

What a stage settles is said in its sentence, so that a reader knows the state after each full stop: the opening names
the protagonist and the story's thing (and thereby the scenario), the company names the companion, and the turn says by
its verb whether things go well. The ending depends on all of these.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple

from depgen.data.grammar import Rule, Step, rule, symbol
from depgen.data.story_grammar.clauses import (
    ARRIVAL,
    company,
    detail,
    ending,
    extraposed_company,
    extraposed_detail,
    extraposed_ending,
    extraposed_opening,
    extraposed_turn,
    opening,
    turn,
)
from depgen.data.story_grammar.lexicon import Gender, Lexicon, Noun, Scenario, preferences
from depgen.data.story_grammar.phrases import COMMA, STOP, WHEN, companion_phrase, fronted, verb_among

FRONTED_SHARE = {"opening": 0.4, "company": 0.2, "detail": 0.2, "turn": 0.4, "ending": 0.25}

CLAUSES: dict[str, tuple[Callable[..., list[Rule]], Callable[..., list[Rule]]]] = {
    "opening": (opening, extraposed_opening),
    "company": (company, extraposed_company),
    "detail": (detail, extraposed_detail),
    "turn": (turn, extraposed_turn),
    "ending": (ending, extraposed_ending),
}


class State(NamedTuple):
    """What is settled so far; `None` = not yet."""

    gender: Gender
    scenario: Scenario
    thing: Noun | None
    companion: str | None = None
    lucky: bool | None = None


@dataclass(frozen=True)
class StoryLanguage:
    """The language of stories; each sentence has an extraposed relative clause with probability `non_projective`."""

    lexicon: Lexicon
    non_projective: float = 0.0

    def steps(self, stage: str, state: State | None) -> list[Step]:
        """How a story continues at a stage."""
        if stage == "opening":
            chosen = self._openings(state)
        elif state is not None and stage == "company" and state.companion is None:
            favourite = self.lexicon.scenarios.index(state.scenario) % len(self.lexicon.companions)
            companions = preferences(self.lexicon.companions, favourite, 0.9)
            chosen = [(weight, state._replace(companion=companion)) for weight, companion in companions]
        elif state is not None and stage == "turn":
            chosen = [(0.6, state._replace(lucky=True)), (0.4, state._replace(lucky=False))]
        else:
            assert state is not None, "a story starts with an opening"
            chosen = [(1.0, state)]
        known = {"opening": 3, "company": 4, "detail": 4, "turn": 5, "ending": 5}[stage]
        return [
            Step(weight, symbol(sentence, stage, self.non_projective, *said[:known]), _remembered(stage, said))
            for weight, said in chosen
        ]

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
            for part, thing in preferences(scenario.things, 0, 0.9)
        ]


def _remembered(stage: str, state: State) -> State:
    """The state after a sentence: an ending closes its episode, of which people and scenario remain."""
    return state._replace(thing=None, lucky=None) if stage == "ending" else state


def sentence(stage: str, non_projective: float, *features: Hashable) -> list[Rule]:
    """A clause of the stage with its full stop; now and then an adverbial and a comma come before it."""
    plain, extraposed = CLAUSES[stage]
    front = FRONTED_SHARE[stage]
    adverbials = [(1.0, "obl:tmod" if stage == "opening" else "advmod", fronted(stage))]
    if stage == "turn":
        gender, companion = features[0], features[3]
        adverbials = [(0.7, "advmod", fronted(stage)), (0.3, "advcl", symbol(when_clause, companion, gender))]
    rules = []
    for share, expand in ((1 - non_projective, plain), (non_projective, extraposed)):
        clause = symbol(expand, *features)
        rules.append(rule(share * (1 - front), clause, ("punct", STOP)))
        for weight, relation, adverbial in adverbials:
            rules.append(rule(share * front * weight, (relation, adverbial), ("punct", COMMA), clause, ("punct", STOP)))
    return rules


def when_clause(companion: str, gender: Gender) -> list[Rule]:
    """A temporal clause about the companion."""
    subject = symbol(companion_phrase, companion, gender)
    return [rule(1.0, ("advmod", WHEN), ("nsubj", subject), verb_among(ARRIVAL))]
