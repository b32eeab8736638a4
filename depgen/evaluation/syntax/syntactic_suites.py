"""`depgen syntactic-suites`: how often predictions about a system's surprisals hold."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from depgen.evaluation.frames import Row, json_ready
from depgen.evaluation.syntax.answers import MOST_UNKNOWN, Answers, BenchmarkOptions
from depgen.evaluation.syntax.chance import chance_of
from depgen.evaluation.syntax.formulas import Formula, Region
from depgen.evaluation.syntax.sentences import (
    Protocol,
    ScoredSentence,
    TestSentence,
    score_sentences,
)
from depgen.evaluation.syntax.suites import CIRCUITS, OTHER, Condition, Item, Metric, Suite, read_suites
from depgen.evaluation.system import System
from depgen.evaluation.text_documents import Tokens
from depgen.evaluation.unit_scores import as_words, beam_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScoredCondition:
    """A condition with the scores of its tokens.

    Attributes:
        condition: the sentence.
        sentence: its scores; tokens after the last region, such as a final stop that is added, count in none.
        metric: how the surprisals of a region's tokens become one number.
    """

    condition: Condition
    sentence: ScoredSentence
    metric: Metric

    @cached_property
    def surprisals(self) -> Mapping[int, float]:
        """Nats of each region; 0 for a region without tokens.

        A token belongs to the region that holds the first character of its word.
        """
        return {number: self._surprisal(number) for number in self.condition.spans}

    def _surprisal(self, number: int) -> float:
        found = -self.sentence.log_probs[self._tokens(number)]
        if not len(found):
            return 0.0
        return float(found.sum() if self.metric == "sum" else found.mean())

    def _tokens(self, number: int) -> slice:
        first, last = np.searchsorted(self.sentence.starts, self.condition.spans[number])
        return slice(int(first), int(last))

    def of(self, region: Region) -> float:
        """The surprisal of a region, or the sum over all."""
        return sum(self.surprisals.values()) if region.number is None else self.surprisals[region.number]

    def has_unknown(self, region: Region) -> bool:
        """Whether there is an `<unk>` in the region."""
        numbers = self.condition.spans if region.number is None else [region.number]
        return any(bool(self.sentence.unknown[self._tokens(number)].any()) for number in numbers)

    def is_unread(self, region: Region) -> bool:
        """Whether the system reads no word of a region that has some."""
        if region.number is None:
            return False
        tokens = self._tokens(region.number)
        return tokens.start == tokens.stop and not self.condition.is_empty(region)


@dataclass(frozen=True)
class ScoredItem:
    """An item with the scores of its conditions.

    Attributes:
        suite: that it is in.
        item: its sentences.
        predictions: those that are tested.
        conditions: by name, with the system's scores.
    """

    suite: Suite
    item: Item
    predictions: tuple[Formula, ...]
    conditions: Mapping[str, ScoredCondition]

    @property
    def holds(self) -> tuple[bool, ...]:
        """Whether each prediction holds of the system's surprisals."""
        return _holds(self.predictions, self.conditions)

    @property
    def regions(self) -> list[Region]:
        """The critical regions: those that the predictions name."""
        return list(dict.fromkeys(region for formula in self.predictions for region in formula.regions))

    @property
    def has_unknown(self) -> bool:
        """Whether there is an `<unk>` in a critical region."""
        return any(self.conditions[region.condition].has_unknown(region) for region in self.regions)

    @property
    def is_unread(self) -> bool:
        """Whether the system reads nothing of a critical region."""
        return any(self.conditions[region.condition].is_unread(region) for region in self.regions)

    @property
    def empty(self) -> frozenset[Region]:
        """The critical regions without words."""
        return frozenset(each for each in self.regions if self.item.conditions[each.condition].is_empty(each))

    def row(self) -> Row:
        """The item as JSON holds it."""
        return {
            "circuit": self.suite.circuit,
            "suite": self.suite.name,
            "item": self.item.number,
            "holds": list(self.holds),
            "unknown": self.has_unknown,
            "unread": self.is_unread,
            "surprisals": {
                name: json_ready({str(number): value for number, value in each.surprisals.items()})
                for name, each in self.conditions.items()
            },
        }


def _holds(predictions: Sequence[Formula], conditions: Mapping[str, ScoredCondition]) -> tuple[bool, ...]:
    return tuple(bool(each.holds(lambda region: conditions[region.condition].of(region))) for each in predictions)


@dataclass(frozen=True)
class SuiteScores(Answers[ScoredItem]):
    """A system's answers to test suites."""

    def rows(self) -> list[Row]:
        """A row for each suite, each circuit and all: numbers of items, the rest per cent.

        The accuracy of a suite is the share of its items' predictions that hold; a suite with several predictions has a
        row for each too. A circuit's is the mean of its suites', and the overall one the mean of the circuits, without
        suites of `other` names; of several suites that are all of such names, it is their mean. `chance` is that of
        random surprisals.
        """
        suites: dict[str, list[ScoredItem]] = {}
        for item in self.items:
            suites.setdefault(item.suite.name, []).append(item)
        circuits: dict[str, list[Row]] = {}
        rows: list[Row] = []
        for circuit in (*CIRCUITS, OTHER):
            for name, own in suites.items():
                if own[0].suite.circuit == circuit:
                    found = self._suite_rows(name, own)
                    rows += found
                    circuits.setdefault(circuit, []).append(found[0])
            if circuit in circuits and circuit != OTHER:
                rows.append(self._mean("circuit", circuit, circuits[circuit]))
        means, others = [row for row in rows if row["level"] == "circuit"], circuits.get(OTHER, [])
        if means:
            rows.append(self._mean("overall", f"{len(means)} circuits", means))
        elif len(others) > 1:
            rows.append(self._mean("overall", f"{len(others)} suites", others))
        return rows

    def _suite_rows(self, name: str, items: Sequence[ScoredItem]) -> list[Row]:
        """The row of a suite, and of each of its predictions where there are several."""
        predictions = len(items[0].predictions)
        parts = [("suite", name, list(range(predictions)))]
        if predictions > 1:
            parts += [("prediction", f"{name}:{place}", [place]) for place in range(predictions)]
        return [self._row(level, label, items, places) for level, label, places in parts]

    def _row(self, level: str, name: str, items: Sequence[ScoredItem], places: Sequence[int]) -> Row:
        known = [item for item in items if not item.has_unknown]
        chances: dict[tuple[int, frozenset[Region], int], float] = {}
        for item in items:
            for place in places:
                key = _chance_key(item, place)
                if key not in chances:
                    chances[key] = chance_of(item.predictions[place], empty=item.empty, parts=key[2])
        chance = np.mean([chances[_chance_key(item, place)] for item in items for place in places])
        row = {
            "level": level,
            "name": name,
            "items": len(items),
            "accuracy": _share([item.holds for item in items], places),
            "chance": 100 * float(chance),
            "unread": sum(item.is_unread for item in items),
            "known_items": len(known),
            "known_accuracy": _share([item.holds for item in known], places),
        }
        return self.finished(row, "items")

    def _mean(self, level: str, name: str, rows: Sequence[Row]) -> Row:
        """The means of the accuracies of suites or circuits, and the sums of their counts."""
        found: Row = {"level": level, "name": name}
        for measure in list(rows[0])[2 : -4 - (self.beam_size is not None)]:
            values = [row[measure] for row in rows if row[measure] is not None]
            if measure in ("items", "unread", "known_items"):
                found[measure] = sum(values)
            else:
                found[measure] = float(np.mean(values)) if values else None
        return self.finished(found, "items")


def _chance_key(item: ScoredItem, place: int) -> tuple[int, frozenset[Region], int]:
    """All that the chance of an item's prediction depends on."""
    condition = next(iter(item.item.conditions.values()))
    return place, item.empty, sum(first < last for first, last in condition.spans.values())


def _share(holds: Sequence[tuple[bool, ...]], places: Sequence[int]) -> float | None:
    """Per cent of the predictions at some places that hold; None without items."""
    found = [each[place] for each in holds for place in places]
    return 100 * float(np.mean(found)) if found else None


def score_suites(
    system: System,
    suites: Sequence[Suite],
    *,
    protocol: Protocol = "plain",
    tokens: Tokens = "rules",
    beam_size: int | None = None,
    tokens_per_batch: int | None = None,
    progress: bool = False,
) -> SuiteScores:
    """A system's answers to test suites.

    Args:
        system: gives texts a likelihood.
        suites: by `read_suites`.
        protocol: see `syntactic_suites`.
        tokens: words are separated by white space, or by rules for English.
        beam_size: see `depgen.evaluation.system.System.score`.
        tokens_per_batch: scored at once, padding included; no score depends on it.
        progress: show a progress bar.

    Raises:
        UserError: the system gives texts no likelihood, or can't read a sentence.
    """
    if protocol == "paper":
        suites = [suite for suite in suites if suite.circuit != OTHER] or suites
    stop = " ." if protocol == "paper" else ""
    conditions = [each for suite in suites for item in suite.items for each in item.conditions.values()]
    sentences = [TestSentence(each.place, each.text + stop) for each in conditions]
    with beam_of(system.model, beam_size) as size:
        scores = iter(
            score_sentences(system, sentences, tokens=tokens, tokens_per_batch=tokens_per_batch, progress=progress)
        )
    items = []
    for suite in suites:
        predictions = suite.predictions[:1] if protocol == "paper" else suite.predictions
        for item in suite.items:
            conditions_of = {
                name: ScoredCondition(each, next(scores), suite.metric) for name, each in item.conditions.items()
            }
            items.append(ScoredItem(suite, item, predictions, conditions_of))
    return SuiteScores(tuple(items), protocol, system.model.likelihood, size)


def syntactic_suites(
    file: Path | None = None,
    *,
    protocol: Protocol = "plain",
    item_output: Path | None = None,
    options: BenchmarkOptions = BenchmarkOptions(),  # noqa: B008 - frozen
) -> Iterator[str] | None:
    """How often predictions of SyntaxGym's suites hold of a system's surprisals, per cent; tab-separated.

    A row for each suite, each circuit (the mean of its suites) and all (the mean of the six circuits; of suites in none
    of them, the mean of these). The surprisal of a region is the sum over its tokens, or the mean if the suite says so.

    Args:
        file: a suite as JSON, or a folder of suites; by default those of Hu et al. (2020) in `$DEPGEN_DATA/syntaxgym`.
        protocol: `plain`, all predictions of all suites; or `paper`, that of GiLT: the first prediction alone, a final
            stop after every sentence, and no suite outside the six circuits.
        item_output: a file for the surprisals and outcomes of each item, as JSON lines.
        options: those of both benchmarks.

    Raises:
        UserError: no such file or run, a suite that is not as it should be, or a system without likelihood.
    """
    options.check_outputs(item_output)
    suites = read_suites(file)
    system = options.system()
    found = score_suites(system, suites, **options.scoring(protocol, system))
    rows = found.rows()
    _report(next(row for row in reversed(rows) if row["level"] != "prediction"), found, system)
    return options.written(found, rows, item_output)


def _report(overall: Row, found: SuiteScores, system: System) -> None:
    logger.info(
        "%d items, %s log-likelihood%s, protocol %s: %.1f %% (%s). Scored by %s.",
        len(found.items), found.likelihood, as_words(found.beam_size), found.protocol,
        overall["accuracy"], overall["name"], system.checkpoint,
    )  # fmt: skip
    if not overall["decided"]:
        logger.warning(
            "%.1f %% of the items hold <unk> in a critical region, more than %.0f %%: the accuracy decides nothing "
            "between systems. Take a run with a subword vocabulary.", overall["unknown"], 100 * MOST_UNKNOWN,
        )  # fmt: skip
    unread = sum(item.is_unread for item in found.items)
    if unread:
        logger.warning(
            "%d items have a critical region of which the system reads no word in the form `%s`: its surprisal is 0. "
            "Name another form by --form.", unread, system.reading.known_form,
        )  # fmt: skip
