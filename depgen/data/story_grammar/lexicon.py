"""The words of the generated stories, by scenario and by use.

Every surface form has one part of speech, except where the grammar tells its uses apart by position ("her", "that").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, eq=False, slots=True)
class Noun:
    """A count noun."""

    singular: str
    plural: str


@dataclass(frozen=True, eq=False, slots=True)
class VerbForms:
    """A verb's plain form, third person singular and past."""

    base: str
    third: str
    past: str


@dataclass(frozen=True, eq=False, slots=True)
class Gender:
    """A protagonist: the placeholder and the pronouns that agree with it; `plural` is the number of `subject`."""

    placeholder: str
    subject: str
    object: str
    possessive: str
    reflexive: str
    plural: bool


@dataclass(frozen=True, eq=False, slots=True)
class Scenario:
    """The words that go together in one kind of story; all fields but `name` are ordered by preference."""

    name: str
    things: tuple[Noun, ...]
    parts: tuple[Noun, ...]
    roles: tuple[Noun, ...]
    places: tuple[tuple[str, str], ...]
    verbs: tuple[VerbForms, ...]
    qualities: tuple[str, ...]
    thriving: tuple[str, ...]
    failing: tuple[str, ...]

    @property
    def objects(self) -> tuple[Noun, ...]:
        """Things and their parts: what the scenario's verbs govern."""
        return self.things + self.parts


@dataclass(frozen=True, eq=False, slots=True)
class Lexicon:
    """All that the grammar says: scenarios, protagonists, and the companions who go with them."""

    scenarios: tuple[Scenario, ...]
    genders: tuple[Gender, ...]
    companions: tuple[str, ...]


def preferences(items: Sequence[Item], favourite: int, decay: float = 0.45) -> list[tuple[float, Item]]:
    """Each item with a weight that falls by `decay` with its distance from the favourite's place, going round."""
    count = len(items)
    return [(decay ** ((k - favourite) % count), item) for k, item in enumerate(items)]


def _nouns(text: str) -> tuple[Noun, ...]:
    """Nouns from "cake pie leaf/leaves": regular plurals in -s are left out."""
    pairs = (entry.split("/") for entry in text.split())
    return tuple(Noun(pair[0], pair[1] if len(pair) > 1 else pair[0] + "s") for pair in pairs)


def _verbs(text: str) -> tuple[VerbForms, ...]:
    return tuple(VerbForms(*entry.split("/")) for entry in text.split())


def _scenario(name: str, things: str, parts: str, roles: str, places: str, verbs: str, rest: str) -> Scenario:
    """A scenario from strings; `rest` holds qualities, verbs of thriving and verbs of failing, split by bars."""
    qualities, thriving, failing = (tuple(field.split()) for field in rest.split("|"))
    where = tuple((place.split(":")[0], place.split(":")[1]) for place in places.split())
    nouns = _nouns(things), _nouns(parts), _nouns(roles)
    return Scenario(name, *nouns, where, _verbs(verbs), qualities, thriving, failing)


MALE = Gender("[MALE]", "he", "him", "his", "himself", plural=False)
FEMALE = Gender("[FEMALE]", "she", "her", "her", "herself", plural=False)
NEUTRAL = Gender("[NEUTRAL]", "they", "them", "their", "themselves", plural=True)

SCENARIOS = (
    _scenario(
        "baking", "cake pie cookie muffin", "candle plate recipe", "baker waiter", "in:kitchen at:bakery",
        "bake/bakes/baked taste/tastes/tasted slice/slices/sliced frost/frosts/frosted",
        "sweet warm fresh golden | cooled rose | burned crumbled",
    ),
    _scenario(
        "sailing", "boat raft canoe ship", "sail rope oar", "sailor captain", "at:harbor on:lake",
        "steer/steers/steered paint/paints/painted anchor/anchors/anchored board/boards/boarded",
        "wooden sturdy narrow white | floated glided | sank drifted",
    ),
    _scenario(
        "gardening", "tulip tomato/tomatoes pumpkin fern", "leaf/leaves seed petal", "gardener farmer",
        "in:garden in:greenhouse", "plant/plants/planted water/waters/watered pick/picks/picked trim/trims/trimmed",
        "ripe green tall healthy | bloomed sprouted | wilted rotted",
    ),
    _scenario(
        "music", "guitar violin drum flute", "string key note", "singer drummer", "at:theater in:studio",
        "play/plays/played tune/tunes/tuned polish/polishes/polished record/records/recorded",
        "loud shiny antique delicate | echoed resounded | cracked squeaked",
    ),
    _scenario(
        "pets", "puppy/puppies kitten parrot rabbit", "collar bowl cage", "trainer vet", "in:park at:shelter",
        "feed/feeds/fed wash/washes/washed train/trains/trained brush/brushes/brushed",
        "playful tiny fluffy hungry | recovered obeyed | escaped vanished",
    ),
    _scenario(
        "riding", "bicycle scooter skateboard sled", "wheel pedal brake", "cyclist coach/coaches", "on:track on:hill",
        "ride/rides/rode repair/repairs/repaired push/pushes/pushed race/races/raced",
        "rusty quick light muddy | rolled sped | crashed wobbled",
    ),
    _scenario(
        "robotics", "robot drone computer printer", "wire screen battery/batteries", "engineer inventor",
        "in:laboratory in:workshop",
        "build/builds/built program/programs/programmed test/tests/tested charge/charges/charged",
        "clever electric noisy modern | worked hummed | exploded stalled",
    ),
    _scenario(
        "sewing", "dress/dresses coat scarf/scarves sweater", "sleeve zipper pocket", "tailor designer",
        "at:boutique at:market", "sew/sews/sewed wear/wears/wore knit/knits/knitted fold/folds/folded",
        "woolen striped soft elegant | matched shimmered | shrank ripped",
    ),
)  # fmt: skip

COMPANIONS = ("sister", "brother", "friend", "mother", "uncle", "neighbor", "cousin", "teacher")

LEXICON = Lexicon(SCENARIOS, (MALE, FEMALE, NEUTRAL), COMPANIONS)
