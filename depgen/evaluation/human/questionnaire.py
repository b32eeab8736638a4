"""A blinded questionnaire: which texts are judged, what each rater is shown in which order, and the key to it.

Yang & Wan (ACL 2022), sections 3.1 and 3.2 and appendix D. *Pairwise* (their Table 3): two systems' endings of one
beginning, judged by grammaticality and by logicality, with ties. *Turing* (their Table 6): sentences of several systems
and real ones, each judged as human or not. Both with 100 items a system and five raters. *Rating* (Casas et al., 2020,
section 5.1): sentences of several systems, each rated from 1 to 5 by three of 18 raters, who have ten of each system.

Deviations, all where the paper is silent:
    D1. Every rater has an order of items, and sides, of their own, drawn from one seed. Each system is shown first in
        half of a rater's pairs (an odd number's half is rounded by chance), so that a liking for the first text
        favours none.
    D2. Items are drawn from those that can be judged: a pair with an empty text, or of two identical ones, and an empty
        sentence are left out before and counted. A system that often writes nothing is judged by its other texts.
    D3. The instructions are the paper's (Tables 14 and 15) word for word, but for layout, the number of sentences, and
        a last line that allows ties: the paper counts them, and its questionnaire does not speak of them. Those of
        ratings are ours: Casas et al. print none, but that ratings are of fluency and correctness. Sentences on
        ROCStories and its preprocessing are shown with rows of the paper's tables only. For other texts, the words are
        neutral.
"""

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from depgen.errors import UserError

Kind = Literal["pairwise", "turing", "rating"]
REAL = "Real data"
"""What the paper calls the human texts of its Turing test."""


@dataclass(frozen=True)
class Question:
    """A question about an item.

    Attributes:
        name: its column in the raters' files.
        text: as the form asks it.
        choices: the answers as they are written into a file, each with its words in the form.
    """

    name: str
    text: str
    choices: Mapping[str, str]


_BETTER = {"1": "ending 1", "2": "ending 2", "tie": "tie"}
QUESTIONS: Mapping[Kind, tuple[Question, ...]] = {
    "pairwise": (
        Question("grammaticality", "Which is better at grammaticality?", _BETTER),
        Question("logicality", "Which is better at logicality?", _BETTER),
    ),
    "turing": (Question("human", "Is the sentence written by human?", {"yes": "human", "no": "machine"}),),
    "rating": (
        Question(
            "rating",
            "How fluent and correct is the sentence?",
            {"1": "very bad", "2": "bad", "3": "fair", "4": "good", "5": "very good"},
        ),
    ),
}


_SEPARATED = (
    "preprocessed by lowercasing, separating punctuation, and splitting conjunctions. They are not grammar errors."
)
_PAPER: Mapping[str, str] = {
    "stories": "Each story contains about five sentences. For each story, we will put the first four sentences into "
    "two different systems, and then systems generate the last sentence.",
    "beginning": "the first four sentences",
    "ending": "generated sentence",
    "pairwise": 'NOTE that the names in all stories are replaced with "[MALE]" or "[FEMALE]" or "[NEUTRAL]", and all '
    f"the sentences are {_SEPARATED}",
    "turing": f"Note: All the sentences are {_SEPARATED}",
}
_NEUTRAL: Mapping[str, str] = {
    "stories": "For each story, we will put its beginning into two different systems, and then "
    "systems generate the rest.",
    "beginning": "the beginning",
    "ending": "generated text",
    **dict.fromkeys(
        ("pairwise", "turing"),
        "Note: the texts may be lower-cased, or cut into words and punctuation with spaces between. That is no error.",
    ),
}
"""What the instructions say of the paper's rows and of other texts; of their form, by the kind of questionnaire."""


@dataclass(frozen=True)
class Item:
    """What is judged at once.

    Attributes:
        name: says nothing of where it is from.
        systems: who wrote each text.
        texts: two for a comparison, else one.
        line: of the texts in their systems' files, from 1.
        context: what the texts continue; empty where there is nothing.
    """

    name: str
    systems: tuple[str, ...]
    texts: tuple[str, ...]
    line: int
    context: str = ""


@dataclass(frozen=True)
class Sheet:
    """What one rater is given.

    Attributes:
        rater: their name in the files.
        items: names of the items in this rater's order.
        swapped: those of them that show the second system's text first.
    """

    rater: str
    items: tuple[str, ...]
    swapped: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Source:
    """Where a system's texts are from.

    Attributes:
        file: as it was given.
        sha256: of the file.
        texts: how many it holds.
        empty: how many of them are empty.
    """

    file: str
    sha256: str
    texts: int
    empty: int


@dataclass(frozen=True)
class Questionnaire:
    """All items, with who wrote what: the key.

    Attributes:
        kind: comparison, Turing test or rating.
        systems: in the order given.
        items: all of them.
        sheets: one a rater.
        seed: of the draw, the orders and the sides.
        left_out: how many candidates could not be judged, by reason.
        sources: of the texts, by system.
        profile: at which the systems were trained; None where all texts are from files.
        top_p: the nucleus that their texts were drawn with; None where that is not known.
        of_paper: whether every system is a row of a table of the paper: its words and numbers are right for no others.
    """

    kind: Kind
    systems: tuple[str, ...]
    items: tuple[Item, ...]
    sheets: tuple[Sheet, ...]
    seed: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)
    profile: str | None = None
    top_p: float | None = None
    of_paper: bool = False

    @cached_property
    def name(self) -> str:
        """A digest of all that raters are shown, in letters that no spreadsheet takes for a number."""
        shown = [[item.name, item.context, item.texts] for item in self.items]
        sheets = [[sheet.rater, sheet.items, sorted(sheet.swapped)] for sheet in self.sheets]
        digest = hashlib.sha256(json.dumps([self.kind, shown, sheets]).encode()).hexdigest()
        return f"q-{digest[:12]}"

    @cached_property
    def by_name(self) -> dict[str, Item]:
        """The items by their names."""
        return {item.name: item for item in self.items}

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions about every item."""
        return QUESTIONS[self.kind]

    @property
    def instructions(self) -> str:
        """What raters read first: paragraphs separated by empty lines."""
        text = (files("depgen.evaluation.human") / f"{self.kind}.txt").read_text(encoding="utf-8")
        said = _PAPER if self.of_paper else _NEUTRAL
        return text.format(**said, form=said.get(self.kind), items=len(self.sheets[0].items))

    def shown(self, sheet: Sheet, item: Item) -> tuple[str, ...]:
        """An item's texts in the order in which a rater sees them."""
        return item.texts[::-1] if item.name in sheet.swapped else item.texts

    def to_json(self) -> str:
        """The key file's content."""
        content: dict[str, Any] = {"questionnaire": self.name, **asdict(self)}
        for sheet in content["sheets"]:
            sheet["swapped"] = [name for name in sheet["items"] if name in sheet["swapped"]]
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def pairwise(
    first: tuple[str, Sequence[str]],
    second: tuple[str, Sequence[str]],
    contexts: Sequence[str],
    *,
    number: int = 100,
    raters: int = 5,
    seed: int = 0,
) -> Questionnaire:
    """Two systems' texts side by side, each pair under its context.

    Args:
        first: a system's name and its texts, one a context.
        second: the other's.
        contexts: what the texts continue.
        number: of pairs to draw.
        raters: how many will answer.
        seed: of the draw, the orders and the sides.

    Raises:
        UserError: the numbers of lines differ, the names do not, or there are too few pairs that can be judged.
    """
    systems = _distinct((first[0], second[0]))
    for name, texts in (first, second):
        if len(texts) != len(contexts):
            raise UserError(f"Expected a text of {name} for each of the {len(contexts)} contexts, found {len(texts)}.")
    candidates = []
    left_out = {"with an empty text": 0, "of identical texts": 0}
    for line, pair in enumerate(zip(first[1], second[1], strict=True), start=1):
        if not all(text.strip() for text in pair):
            left_out["with an empty text"] += 1
        elif pair[0].split() == pair[1].split():
            left_out["of identical texts"] += 1
        else:
            candidates.append((line, pair))
    draw = random.Random(f"{seed} items")
    drawn = _draw(draw, candidates, number, f"pairs of {systems[0]} and {systems[1]}", left_out)
    asked = tuple(
        Item(f"item-{place}", systems, pair, line, contexts[line - 1])
        for place, (line, pair) in enumerate(drawn, start=1)
    )
    return Questionnaire("pairwise", systems, asked, _sheets(asked, raters, seed, sides=True), seed, left_out)


def turing(
    systems: Mapping[str, Sequence[str]], real: Sequence[str], *, number: int = 100, raters: int = 5, seed: int = 0
) -> Questionnaire:
    """Single sentences of several systems mixed with real ones.

    Args:
        systems: each one's sentences.
        real: human sentences.
        number: of sentences to draw of each system and of the real ones.
        raters: how many will answer.
        seed: of the draw and the orders.

    Raises:
        UserError: somebody has too few sentences, or a system is called like the real ones.
    """
    _distinct((*systems, REAL))
    asked, left_out = _mixed({**systems, REAL: real}, number, seed)
    return Questionnaire("turing", (*systems, REAL), asked, _sheets(asked, raters, seed, sides=False), seed, left_out)


def rating(
    systems: Mapping[str, Sequence[str]],
    *,
    number: int = 60,
    raters: int = 18,
    per_sentence: int | None = None,
    seed: int = 0,
) -> Questionnaire:
    """Single sentences of several systems, rated from 1 to 5; each rater gets as many of one system as of another.

    Args:
        systems: each one's sentences; real ones may be among them.
        number: of sentences to draw of each system.
        raters: how many will answer.
        per_sentence: how many of them rate a sentence; None: all.
        seed: of the draw and the orders.

    Raises:
        UserError: somebody has too few sentences, or the ratings do not divide by the raters.
    """
    each = raters if per_sentence is None else per_sentence
    if not 1 <= each <= raters or number * each % raters:
        raise UserError(
            f"Expected {number} sentences of each system, each rated by {each}, to be shared evenly among {raters} "
            "raters: choose --number, --raters and --per_sentence such that number x per_sentence / raters is whole."
        )
    asked, left_out = _mixed(systems, number, seed)
    owners: dict[str, list[int]] = {}
    for shift, system in enumerate(systems):
        own = [item for item in asked if item.systems == (system,)]
        owners |= {
            item.name: [(shift + place * each + k) % raters for k in range(each)] for place, item in enumerate(own)
        }
    packs = [[item for item in asked if rater in owners[item.name]] for rater in range(raters)]
    sheets = tuple(_sheets(pack, raters, seed, sides=False)[rater] for rater, pack in enumerate(packs))
    return Questionnaire("rating", tuple(systems), asked, sheets, seed, left_out)


def _mixed(systems: Mapping[str, Sequence[str]], number: int, seed: int) -> tuple[tuple[Item, ...], dict[str, int]]:
    """Sentences of each system in random order, and how many were left out before the draw."""
    drawn: list[tuple[str, int, str]] = []
    left_out: dict[str, int] = {}
    for name, texts in systems.items():
        candidates = [(name, line, text) for line, text in enumerate(texts, start=1) if text.strip()]
        empty = {f"empty, of {name}": len(texts) - len(candidates)}
        drawn += _draw(random.Random(f"{seed} items {name}"), candidates, number, f"sentences of {name}", empty)
        left_out |= empty
    random.Random(f"{seed} names").shuffle(drawn)  # so that an item's name says nothing of its system
    asked = tuple(
        Item(f"item-{place}", (name,), (text,), line) for place, (name, line, text) in enumerate(drawn, start=1)
    )
    return asked, left_out


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise UserError(f"Systems must have different names, found {', '.join(names)}.")
    return names


def _draw(
    draw: random.Random, candidates: Sequence[Any], number: int, what: str, left_out: Mapping[str, int]
) -> list[Any]:
    if len(candidates) < number:
        reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise UserError(
            f"Expected at least {number} {what} to draw from, found {len(candidates)} (left out: {reasons}). "
            "Give more texts, or a smaller --number."
        )
    return draw.sample(candidates, number)


def _sheets(items: Sequence[Item], raters: int, seed: int, *, sides: bool) -> tuple[Sheet, ...]:
    sheets = []
    for number in range(1, raters + 1):
        draw = random.Random(f"{seed} rater {number}")
        order = draw.sample([item.name for item in items], len(items))
        half = (len(items) + draw.randrange(2)) // 2
        swapped = frozenset(draw.sample(order, half)) if sides else frozenset[str]()
        sheets.append(Sheet(f"rater-{number}", tuple(order), swapped))
    return tuple(sheets)


def read_key(path: Path) -> Questionnaire:
    """The questionnaire that a key file holds.

    Raises:
        UserError: there is no such file, or it is no key, or it was changed.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        name = content.pop("questionnaire")
        older = {"of_paper": content.get("profile") is not None}  # keys of earlier versions do not say
        found = Questionnaire(**older | content | _parts(content))
        known = found.kind in QUESTIONS and found.name == name
    except OSError as error:
        raise UserError(
            f"No key at {path} ({error.strerror}): give the folder that `depgen human-eval export` wrote."
        ) from error
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: expected the key of a questionnaire, found something else ({error!r}).") from error
    if not known:
        raise UserError(f"{path}: the key was changed since it was written (its name is {name!r}). Put it back.")
    return found


def _parts(content: Mapping[str, Any]) -> dict[str, Any]:
    """The nested dataclasses of a key file's content."""
    return {
        "systems": tuple(content["systems"]),
        "items": tuple(
            Item(each["name"], tuple(each["systems"]), tuple(each["texts"]), each["line"], each["context"])
            for each in content["items"]
        ),
        "sheets": tuple(
            Sheet(each["rater"], tuple(each["items"]), frozenset(each["swapped"])) for each in content["sheets"]
        ),
        "sources": {name: Source(**each) for name, each in content["sources"].items()},
    }
