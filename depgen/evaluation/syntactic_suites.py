"""Test suites of SyntaxGym: how often predictions about surprisals hold of a system.

A prediction compares surprisals of regions, joined by `&` and `|`, with `+`, `-` and brackets. `(5;%plaus%)` is the
surprisal of region 5 in the condition `plaus`, and `(*;%plaus%)` the sum over all its regions. As in syntaxgym-core
(`prediction.py`), `+` and `-` bind more than comparisons, and these more than `&` and `|`, which bind alike and are
read from the left: `A | B & C` is `(A | B) & C`. With regions as names and other signs, such a formula is an expression
of Python, whose parser is used.
"""

import ast
import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from depgen.data.tokenization import Span
from depgen.errors import UserError, no_file
from depgen.evaluation.measure import Measured
from depgen.evaluation.minimal_pairs import SyntaxOptions, combined, measured, of_groups, score_sentences
from depgen.locations import find_data

if TYPE_CHECKING:
    from depgen.evaluation.system import System


# -- formulas ---------------------------------------------------------------------------------------------------------

RELATIVE, ABSOLUTE = 1e-5, 1e-3
"""How far two surprisals may differ that `=` takes for equal, as in SyntaxGym."""
DRAWS = 100_000
"""Random surprisals that a chance is estimated from."""
_MOST_ENUMERATED = 7
_REGION = re.compile(r"\(\s*(\d+|\*)\s*;\s*%([^%]+)%\s*\)")
_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_PYTHON = {"<": "<<", ">": ">>", "=": "^", "&": "==", "|": "!=", "[": "(", "]": ")"}
"""The signs of Python that bind as those of SyntaxGym do: its comparisons make a chain of equals, from the left."""
_OPERATIONS: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.LShift: np.less,
    ast.RShift: np.greater,
    ast.BitXor: lambda left, right: np.isclose(left, right, rtol=RELATIVE, atol=ABSOLUTE),
    ast.Eq: np.logical_and,
    ast.NotEq: np.logical_or,
}


class Region(NamedTuple):
    """A region of a condition; number None is all regions."""

    number: int | None
    condition: str

    def __str__(self) -> str:
        return f"({'*' if self.number is None else self.number};%{self.condition}%)"


Values = Callable[[Region], Any]
"""From a region to its surprisal: a number, or an array of one number a draw."""


@dataclass(frozen=True)
class Formula:
    """A prediction.

    Attributes:
        regions: those that it names, each once, in their order.
        root: the formula in Python, in which region 0 is called `r0`.
    """

    regions: tuple[Region, ...]
    root: ast.expr

    @property
    def compares_order_alone(self) -> bool:
        """Whether it compares regions with regions by `<` and `>` and nothing else, so that their order decides."""
        others = (ast.Constant, ast.Add, ast.Sub, ast.UnaryOp, ast.BitXor)
        return not any(isinstance(node, others) for node in ast.walk(self.root)) and all(
            region.number is not None for region in self.regions
        )

    def holds(self, values: Values) -> Any:  # noqa: ANN401 - a boolean, or an array of them
        """Whether it is true of surprisals; where a difference of two infinite ones enters a comparison, it is not."""
        with np.errstate(invalid="ignore"):
            return _value(self.root, [values(region) for region in self.regions])


def _value(node: ast.expr, surprisals: list[Any]) -> Any:  # noqa: ANN401
    match node:
        case ast.Name(id=name):
            return surprisals[int(name[1:])]
        case ast.Constant(value=number):
            return number
        case ast.UnaryOp(operand=operand):
            return np.negative(_value(operand, surprisals))
        case ast.BinOp(left=left, op=operation, right=right):
            return _OPERATIONS[type(operation)](_value(left, surprisals), _value(right, surprisals))
        case ast.Compare(left=left, ops=operations, comparators=others):
            value = _value(left, surprisals)
            for sign, other in zip(operations, others, strict=True):
                value = _OPERATIONS[type(sign)](value, _value(other, surprisals))
            return value
    raise AssertionError("what a formula may hold is checked when it is read")


def parse_formula(text: str, *, place: str) -> Formula:
    """The formula of a text.

    >>> formula = parse_formula("[(5;%a%) > (5;%b%)] & [(5;%a%) - (5;%b%) > 0.5]", place="demo.json")
    >>> bool(formula.holds({Region(5, "a"): 3.0, Region(5, "b"): 2.0}.get))
    True
    """
    named = [Region(None if number == "*" else int(number), name.strip()) for number, name in _REGION.findall(text)]
    regions = tuple(dict.fromkeys(named))
    places = iter(named)
    code = _REGION.sub(lambda _: f" r{regions.index(next(places))} ", text)
    try:
        if unknown := re.search(r"[^\s+\-<>=&|()\[\]]", _NUMBER.sub("", _REGION.sub("", text))):
            raise SyntaxError(f"{unknown[0]!r} means nothing")
        root = ast.parse("".join(_PYTHON.get(letter, letter) for letter in code).strip(), mode="eval").body
        if not _is_comparison(root):
            raise SyntaxError("it is a number: compare it, as in (1;%a%) < (1;%b%)")
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise UserError(
            f"{place}: expected a formula of regions such as (1;%a%), numbers, + - < > = & | and brackets, found "
            f"{text[:200]!r}: {error}."
        ) from None
    return Formula(regions, root)


def _is_comparison(node: ast.expr) -> bool:
    """Whether a part of a formula is true or false, rather than a number.

    Raises:
        SyntaxError: something else, or a number where a comparison is wanted, or the other way round.
    """
    match node:
        case ast.Name() | ast.Constant():
            return False
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            parts, of_comparisons, is_comparison = [operand], False, False
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            parts, of_comparisons, is_comparison = [left, right], False, False
        case ast.BinOp(left=left, op=ast.LShift() | ast.RShift() | ast.BitXor(), right=right):
            parts, of_comparisons, is_comparison = [left, right], False, True
        case ast.Compare(left=left, comparators=others):
            parts, of_comparisons, is_comparison = [left, *others], True, True
        case _:
            raise SyntaxError("two sides of one sign were expected")
    if any(_is_comparison(part) != of_comparisons for part in parts):
        raise SyntaxError(f"{'comparisons' if of_comparisons else 'numbers'} were expected on both sides of a sign")
    return is_comparison


def chance_of(formula: Formula, *, empty: Collection[Region] = (), parts: int = 1) -> float:
    """The probability that a prediction holds where each region has an independent random surprisal.

    It is exact where only the order of surprisals decides. Otherwise it is estimated from `DRAWS` draws from the
    exponential distribution.

    Args:
        formula: the prediction.
        empty: regions without words, whose surprisal is 0.
        parts: regions that `(*;%condition%)` sums over.

    >>> chance_of(parse_formula("[(1;%a%) < (1;%b%)] & [(1;%a%) < (1;%c%)]", place="demo.json"))
    0.3333333333333333
    """
    regions = formula.regions
    if formula.compares_order_alone and len(regions) <= _MOST_ENUMERATED and not {*regions} & {*empty}:
        orders = np.array(list(permutations(range(len(regions)))), dtype=np.float64).T
        return float(np.mean(formula.holds(dict(zip(regions, orders, strict=True)).__getitem__)))
    generator, drawn = np.random.default_rng(0), {}
    for region in regions:
        draws = generator.gamma(parts if region.number is None else 1, size=DRAWS)
        drawn[region] = draws * (region not in empty)
    return float(np.mean(formula.holds(drawn.__getitem__)))


logger = logging.getLogger(__name__)

CIRCUITS: Mapping[str, tuple[str, ...]] = {
    "agreement": ("number_",),
    "licensing": ("npi_", "reflexive_"),
    "garden_path": ("mvrr", "npz_"),
    "gross_syntactic_state": ("subordination",),
    "center_embedding": ("center_embed",),
    "long_distance": ("fgd", "cleft"),
}
"""The circuits of Hu et al. (2020), with how the names of their suites begin."""
OTHER = "other"
"""Of suites that are in no circuit."""


# -- files ------------------------------------------------------------------------------------------------------------


class _Json(BaseModel):
    model_config = ConfigDict(strict=True)


class _Meta(_Json):
    metric: Literal["sum"]
    name: str | None = None


class _Prediction(_Json):
    type: Literal["formula"]
    formula: str


class _Region(_Json):
    region_number: int
    content: str


class _Condition(_Json):
    condition_name: str
    regions: list[_Region] = Field(min_length=1)


class _Item(_Json):
    item_number: int | None = None
    conditions: list[_Condition] = Field(min_length=1)


class _Suite(_Json):
    meta: _Meta
    predictions: list[_Prediction] = Field(min_length=1)
    items: list[_Item] = Field(min_length=1)


@dataclass(frozen=True)
class Condition:
    """A sentence in regions.

    Attributes:
        place: file, item and condition, for messages.
        text: the regions that are not blank, with a blank between two.
        spans: by the number of a region, its first character in the text and the one after its last; both are the same
            for a blank region.
    """

    place: str
    text: str
    spans: Mapping[int, Span]


@dataclass(frozen=True)
class Suite:
    """Items of one phenomenon and what is predicted of each.

    Attributes:
        name: of the suite.
        predictions: what holds of each item if the system has learnt the phenomenon.
        items: by their numbers, the sentences that the predictions compare, by the names of their conditions.
    """

    name: str
    predictions: tuple[Formula, ...]
    items: Mapping[int, Mapping[str, Condition]]

    @property
    def circuit(self) -> str:
        """That of Hu et al. (2020), by the suite's name."""
        return next((name for name, begins in CIRCUITS.items() if self.name.startswith(begins)), OTHER)


def read_suites(path: Path | None = None) -> list[Suite]:
    """The suite of a JSON file, or all in a folder; by default those under `$DEPGEN_DATA/syntaxgym`."""
    if path is None:
        how = "The 34 JSON files of Hu et al. (2020) belong there; or name a file or folder of suites."
        path = find_data("syntaxgym", how_to_get=how)
    suites = dict[str, Suite]()
    for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        suite = read_suite(file)
        if suites.setdefault(suite.name, suite) is not suite:
            raise UserError(f"{file}: expected a suite of a new name, found {suite.name} again: rename it (meta.name).")
    if not suites:
        raise UserError(f"{path}: expected suites as .json files, found none.")
    return [*suites.values()]


def read_suite(path: Path) -> Suite:
    """The suite of a JSON file, in which all that its predictions name is there."""
    if not path.is_file():
        raise no_file(path)
    try:
        content = _Suite.model_validate_json(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: {where}: {first['msg']}, found {first['input']!r:.40}.") from None
    predictions = tuple(
        parse_formula(each.formula, place=f"{path}: prediction {number}")
        for number, each in enumerate(content.predictions, start=1)
    )
    items = dict[int, dict[str, Condition]]()
    for number, item in enumerate(content.items, start=1):
        place = f"{path}: item {number}"
        conditions = {
            each.condition_name: condition_of(each.regions, place=f"{place}, condition {each.condition_name}")
            for each in item.conditions
        }
        named = number if item.item_number is None else item.item_number
        if named in items or len(conditions) < len(item.conditions):
            raise UserError(f"{place}: expected each item_number and condition_name once, found one twice: rename it.")
        items[named] = conditions
        for region in {region for formula in predictions for region in formula.regions}:
            condition = conditions.get(region.condition)
            if condition is None or region.number not in (None, *condition.spans):
                raise UserError(f"{place}: a formula names {region}, which is not there: correct it or the item.")
    return Suite(content.meta.name or path.stem, predictions, items)


def condition_of(regions: Sequence[_Region], *, place: str) -> Condition:
    """The sentence of regions, joined by single blanks; blank regions add nothing."""
    text, spans = "", dict[int, Span]()
    for region in regions:
        words = " ".join(region.content.split())
        if words and text:
            text += " "
        spans[region.region_number] = (len(text), len(text) + len(words))
        text += words
    if len(spans) < len(regions):
        raise UserError(f"{place}: expected each region_number once, found one twice: renumber it.")
    return Condition(place, text, spans)


# -- the measure ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SuiteOptions(SyntaxOptions):
    """The options of `syntactic-suites`, beside those of `SyntaxOptions`.

    Attributes:
        suites: a suite as JSON, or a folder of suites; by default those of Hu et al. (2020) in
            `$DEPGEN_DATA/syntaxgym`.
    """

    suites: Path | None = None


def syntactic_suites(system: "System", options: SuiteOptions = SuiteOptions()) -> Measured:
    """How often predictions of SyntaxGym's suites hold of a system's surprisals, per cent.

    An item is one of a suite: whether each prediction `holds`, whether an `<unk>` is in a critical region (one that a
    prediction names), whether one is `unread`, and the `surprisals` of all regions by condition, nats. That of a region
    is the sum over its tokens, as in all suites of Hu et al. (2020).

    The accuracy of a suite is the share of its items' predictions that hold; a suite with several predictions has a row
    for each too. A circuit's is the mean of its suites', and the overall one the mean of the circuits, without suites
    of `other` names; of several suites that are all of such names, it is their mean. `chance` is that of random
    surprisals.
    """
    protocol, suites = options.protocol, read_suites(options.suites)
    if protocol == "paper":
        suites = [suite for suite in suites if suite.circuit != OTHER] or suites
    stop = " ." if protocol == "paper" else ""
    sentences = [each for suite in suites for item in suite.items.values() for each in item.values()]
    texts, places = [each.text + stop for each in sentences], [each.place for each in sentences]
    words, _, beam = score_sentences(system, texts, places, options)
    regions = _by_region(words, [each.spans for each in sentences])
    items, outcomes = list[dict[str, Any]](), list[dict[str, Any]]()
    for suite in suites:
        predictions = suite.predictions[:1] if protocol == "paper" else suite.predictions
        for number, item in suite.items.items():
            of_item = {"circuit": suite.circuit, "suite": suite.name, "item": number}
            answers, by_prediction = _answers(predictions, {name: next(regions) for name in item})
            items.append(of_item | answers)
            outcomes += [of_item | each for each in by_prediction]
    if unread := sum(item["unread"] for item in items):
        logger.warning(
            "%d items have a critical region of which the system reads no word in the form `%s`: its surprisal is 0. "
            "Name another form by --form.", unread, system.reading.known_form,
        )  # fmt: skip
    return measured(
        pd.DataFrame(items), _rows(pd.DataFrame(outcomes)), "items", options=options, system=system, beam_size=beam
    )


def _by_region(words: pd.DataFrame, spans: Sequence[Mapping[int, Span]]) -> Iterator[pd.DataFrame]:
    """For each sentence the tokens, surprisal, whether there is an `<unk>` and whether it is blank, of each region.

    A word belongs to the region that holds its first character; one after the last region, such as a stop that is
    added, and the end, to none. The surprisal of a region of which no word is read is 0.
    """
    sentences = dict(iter(words[~words["is_end"]].groupby("document")))
    for number, regions in enumerate(spans, start=1):
        sentence, rows = sentences[number], {}
        for region, (first, last) in regions.items():
            own = sentence[sentence["start"].between(first, last, inclusive="left")]
            surprisal = float((-own.loc[own["tokens"] > 0, "log_prob"]).sum())
            rows[region] = (own["tokens"].sum(), surprisal, own["unknown"].any(), first == last)
        yield pd.DataFrame.from_dict(rows, "index", columns=["tokens", "surprisal", "unknown", "blank"])


def _answers(
    predictions: Sequence[Formula], conditions: Mapping[str, pd.DataFrame]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What an item's row says, and a row for each of its predictions, from the regions of its conditions."""
    critical = {
        region: conditions[region.condition].loc[slice(None) if region.number is None else [region.number]]
        for formula in predictions
        for region in formula.regions
    }
    empty = {region for region, rows in critical.items() if region.number is not None and rows["blank"].all()}
    unknown = any(rows["unknown"].any() for rows in critical.values())
    unread = any(
        region.number is not None and region not in empty and rows["tokens"].sum() == 0
        for region, rows in critical.items()
    )
    holds = [
        bool(each.holds(lambda region: float(critical[region]["surprisal"].sum(skipna=False)))) for each in predictions
    ]
    parts = int((~next(iter(conditions.values()))["blank"]).sum())
    surprisals = {
        name: {str(number): value if np.isfinite(value) else None for number, value in each["surprisal"].items()}
        for name, each in conditions.items()
    }
    outcomes = [
        {
            "prediction": place, "items": 1, "accuracy": 100.0 * held,
            "chance": 100 * chance_of(formula, empty=empty, parts=parts), "unread": unread, "known_items": not unknown,
            "known_accuracy": np.nan if unknown else 100.0 * held,
        }
        for place, (formula, held) in enumerate(zip(predictions, holds, strict=True))
    ]  # fmt: skip
    return {"holds": holds, "unknown": unknown, "unread": unread, "surprisals": surprisals}, outcomes


def _rows(outcomes: pd.DataFrame) -> list[dict[str, Any]]:
    """A row for each suite, prediction and circuit, and overall, from a row for each item's prediction."""
    measures = ["items", "accuracy", "chance", "unread", "known_items", "known_accuracy"]
    by_prediction = of_groups(outcomes, ["circuit", "suite", "prediction"], measures)
    means = by_prediction.groupby(["circuit", "suite"], sort=False).mean()
    rows = list[dict[str, Any]]()
    for circuit in (*CIRCUITS, OTHER):
        if circuit not in means.index.get_level_values("circuit"):
            continue
        for suite, mean in means.loc[circuit].iterrows():
            rows.append({"level": "suite", "name": suite, **mean})
            parts = by_prediction.loc[circuit, suite]
            if len(parts) > 1:
                rows += [
                    {"level": "prediction", "name": f"{suite}:{place}", **part} for place, part in parts.iterrows()
                ]
        if circuit != OTHER:
            rows.append({"level": "circuit", "name": circuit, **combined(means.loc[circuit])})
    whole = [row for row in rows if row["level"] == "circuit"]
    name = f"{len(whole)} circuits"
    if not whole and len(means) > 1:
        whole, name = [row for row in rows if row["level"] == "suite"], f"{len(means)} suites"
    if whole:
        rows.append({"level": "overall", "name": name, **combined(pd.DataFrame(whole)[measures])})
    return rows
