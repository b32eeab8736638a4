"""What the answers to a questionnaire say: preferences, shares of a Turing test, mean ratings, and a description."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from depgen.errors import UserError
from depgen.evaluation.human.answers import RaterAnswers, Ratings
from depgen.evaluation.human.folder import ANSWERS, left_out, read_folder
from depgen.evaluation.human.questionnaire import Questionnaire
from depgen.evaluation.human.statistics import (
    Level,
    Preference,
    Rated,
    item_shares,
    krippendorff_alpha,
    preference,
    rated,
)
from depgen.metrics.significance import Interval


@dataclass(frozen=True)
class Outcome:
    """A questionnaire that was answered, and what the answers say.

    Attributes:
        folder: where it lies.
        asked: the questionnaire.
        answers: to it.
        preferences: by aspect, of a comparison's first system.
        humanness: by system, the share of judgements that it is human; of a Turing test.
        rated: by system; of ratings.
        reversed: whether a comparison's systems have the other order than they were given in.
    """

    folder: Path
    asked: Questionnaire
    answers: RaterAnswers
    preferences: Mapping[str, Preference]
    humanness: Mapping[str, Interval]
    rated: Mapping[str, Rated] = field(default_factory=dict)
    reversed: bool = False

    @property
    def systems(self) -> tuple[str, ...]:
        """In their order."""
        return self.asked.systems[::-1] if self.reversed else self.asked.systems

    @property
    def level(self) -> Level:
        """Of Krippendorff's alpha: that of numbers for ratings, of kinds for all other answers."""
        return "interval" if self.asked.kind == "rating" else "nominal"

    @property
    def alphas(self) -> dict[str, float | None]:
        """Krippendorff's alpha of the raters, by question."""
        return {name: krippendorff_alpha(each, self.level) for name, each in self.answers.given.items()}

    @property
    def pair(self) -> str:
        """What the paper calls a comparison."""
        return " vs. ".join(self.systems)

    def as_one_of(self, pairs: Collection[str]) -> "Outcome":
        """A comparison in the direction that one of these pairs has."""
        turned = replace(self, reversed=True)
        if self.asked.kind != "pairwise" or turned.pair not in pairs:
            return self
        return replace(turned, preferences={name: preference(-each) for name, each in self.answers.given.items()})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        asked, answers = self.asked, self.answers
        return {
            "folder": str(self.folder),
            "questionnaire": asked.name,
            "kind": asked.kind,
            "systems": list(self.systems),
            "profile": asked.profile,
            "top_p": asked.top_p,
            "items": len(asked.items),
            "raters": list(answers.raters),
            "missing": answers.missing,
            "first_shown_wins": answers.first_shown,
            "left_out": dict(asked.left_out),
            "sources": {name: asdict(source) for name, source in asked.sources.items()},
            "preferences": {name: asdict(each) for name, each in self.preferences.items()},
            "human": {name: asdict(each) for name, each in self.humanness.items()},
            "rated": {name: asdict(each) for name, each in self.rated.items()},
            "alpha": self.alphas,
            "alpha_level": self.level,
        }

    def described(self) -> Iterator[str]:
        """What was asked, of whom, what is missing; and each figure with its interval."""
        yield self._about()
        for aspect, outcome in self.preferences.items():
            shares = {"win": outcome.win, "lose": outcome.lose, "tie": outcome.tie}
            tested = outcome.over_items
            yield (
                f"{self.pair}, {aspect}: "
                + ", ".join(f"{name} {_interval(share, 1)}" for name, share in shares.items())
                + f"; p = {tested.p_value:.2g} over {tested.units} pairs ({tested.zeros} without a preference), "
                f"{outcome.over_judgements.p_value:.2g} over {outcome.over_judgements.units} single judgements."
            )
        if self.humanness:
            shown = ", ".join(f"{name} {_interval(share, 3)}" for name, share in self.humanness.items())
            yield f"Human score: {shown}. {self._agreement()}"
        if self.rated:
            shown = ", ".join(f"{name} {_interval(each.mean, 2)}" for name, each in self.rated.items())
            yield f"Mean rating: {shown}. {self._agreement()}"

    def _agreement(self) -> str:
        (alpha,) = self.alphas.values()
        said = "not defined, all answers are the same" if alpha is None else f"{alpha:.3f}"
        return f"Krippendorff's alpha ({self.level}) of the raters: {said}."

    def _about(self) -> str:
        asked, answers = self.asked, self.answers
        name = {"pairwise": self.pair, "turing": "Turing test", "rating": "Ratings from 1 to 5"}[asked.kind]
        items = sum(len(sheet.items) for sheet in asked.sheets if sheet.rater in answers.raters)
        wanted = items * len(asked.questions)
        absent = [sheet.rater for sheet in asked.sheets if sheet.rater not in answers.raters]
        parts = [f"{name}: {len(asked.items)} items, {len(answers.raters)} of {len(asked.sheets)} raters"]
        parts[0] += f" (none from {', '.join(absent)})" if absent else ""
        parts.append(f"{answers.missing:,} of {wanted:,} answers missing")
        parts.append(f"left out before the draw: {left_out(asked)}")
        if answers.first_shown is not None:
            parts.append(f"the text shown first won {100 * answers.first_shown:.1f} % of the judgements without ties")
        files = ", ".join(f"{system} from {source.file}" for system, source in asked.sources.items())
        return "; ".join(parts) + (f"; texts of {files}." if files else ".")


def read_outcome(folder: Path) -> Outcome:
    """What the answers in a questionnaire's folder say.

    Raises:
        UserError: answers are missing or do not fit the key.
    """
    asked, answers = read_folder(folder)
    if asked.kind == "pairwise":
        for name, each in answers.given.items():
            _check_judged(each, f"{folder}: {name}")
        return Outcome(folder, asked, answers, {name: preference(each) for name, each in answers.given.items()}, {})
    (given,) = answers.given.values()
    of_system = {each: given[:, [item.systems == (each,) for item in asked.items]] for each in asked.systems}
    for system, ratings in of_system.items():
        _check_judged(ratings, f"{folder}: {system}")
    if asked.kind == "rating":
        return Outcome(folder, asked, answers, {}, {}, {name: rated(each) for name, each in of_system.items()})
    shares = {name: item_shares(each, 1.0) for name, each in of_system.items()}
    humanness = {
        name: Interval(*(value / 100 for value in (each.value, each.low, each.high))) for name, each in shares.items()
    }
    return Outcome(folder, asked, answers, {}, humanness)


def _check_judged(ratings: Ratings, what: str) -> None:
    if np.isnan(ratings).all():
        raise UserError(f"{what}: expected at least one answer in `{ANSWERS}/`, found all of them empty.")


def _interval(share: Interval, decimals: int) -> str:
    return f"{share.value:.{decimals}f} [{share.low:.{decimals}f}, {share.high:.{decimals}f}]"
