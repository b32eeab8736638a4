"""Test suites of SyntaxGym: items of several conditions, each a sentence in regions, and predictions about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from depgen.errors import UserError
from depgen.evaluation.syntax.formulas import Formula, Region, parse_formula
from depgen.evaluation.syntax.pairs import one_line
from depgen.evaluation.text_documents import Span
from depgen.locations import find_data, json_value

Metric = Literal["sum", "mean"]
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

    def is_empty(self, region: Region) -> bool:
        """Whether a region has no words."""
        if region.number is None:
            return False
        first, last = self.spans[region.number]
        return first == last


@dataclass(frozen=True)
class Item:
    """The sentences that the predictions compare, by the names of their conditions."""

    number: int
    conditions: Mapping[str, Condition]


@dataclass(frozen=True)
class Suite:
    """Items of one phenomenon and what is predicted of each.

    Attributes:
        name: of the suite.
        metric: how the surprisals of a region's tokens become one number.
        predictions: what holds of each item if the system has learnt the phenomenon.
        items: the sentences.
    """

    name: str
    metric: Metric
    predictions: tuple[Formula, ...]
    items: tuple[Item, ...]

    @property
    def circuit(self) -> str:
        """That of Hu et al. (2020), by the suite's name."""
        return next((name for name, begins in CIRCUITS.items() if self.name.startswith(begins)), OTHER)


def read_suites(path: Path | None = None) -> list[Suite]:
    """The suite of a JSON file, or all in a folder; by default those under `$DEPGEN_DATA/syntaxgym`.

    Raises:
        UserError: there is no such file, or none in the folder; or a suite is not as it should be.
    """
    if path is None:
        how = "The 34 JSON files of Hu et al. (2020) belong there; or name a file or folder of suites."
        path = find_data("syntaxgym", how_to_get=how)
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise UserError(f"{path}: expected suites as .json files, found none.")
    suites = [read_suite(each) for each in files]
    names = [suite.name for suite in suites]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise UserError(
                f"{files[place]}: expected a suite of a new name, found {name}, which {files[names.index(name)]} has: "
                "rename one (meta.name)."
            )
    return suites


def read_suite(path: Path) -> Suite:
    """The suite of a JSON file, in which all that its predictions name is there.

    Raises:
        UserError: it can't be read or lacks something; file, item and condition are named.
    """
    content = _content(path)
    meta = _field(content, "meta", dict, str(path))
    metric = _field(meta, "metric", str, f"{path}: meta")
    if metric not in get_args(Metric):
        raise UserError(f"{path}: expected the metric sum or mean, found {metric!r}: change meta.metric.")
    predictions = tuple(
        _prediction(each, f"{path}: prediction {number}")
        for number, each in enumerate(_filled(content, "predictions", path), start=1)
    )
    items = tuple(
        _item(each, place, f"{path}: item {place}")
        for place, each in enumerate(_filled(content, "items", path), start=1)
    )
    numbers = [item.number for item in items]
    _check_new(numbers, "item_number", str(path))
    suite = Suite(str(meta.get("name") or path.stem), metric, predictions, items)
    for formula in predictions:
        for item in items:
            _check_named(formula, item, str(path))
    return suite


def _content(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: expected a suite as JSON in UTF-8, found: {error}. Copy the file again.") from error
    content = json_value(text, str(path))
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected a JSON object, found a {type(content).__name__}.")
    return content


def _field(content: Mapping[str, Any], name: str, kind: type, place: str) -> Any:  # noqa: ANN401
    """What a JSON object holds under a name.

    Raises:
        UserError: nothing, or a value of another kind.
    """
    if not isinstance(content, dict) or name not in content:
        raise UserError(f"{place}: expected the field {name}, found none: add it.")
    found = content[name]
    if not isinstance(found, kind) or isinstance(found, bool):
        raise UserError(f"{place}: expected {name} to be a {kind.__name__}, found {found!r:.40}.")
    return found


def _filled(content: Mapping[str, Any], name: str, place: Path | str) -> list[Any]:
    found: list[Any] = _field(content, name, list, str(place))
    if not found:
        raise UserError(f"{place}: expected {name}, found an empty list: fill it.")
    return found


def _prediction(content: Mapping[str, Any], place: str) -> Formula:
    kind = _field(content, "type", str, place)
    if kind != "formula":
        raise UserError(f"{place}: expected the type formula, found {kind!r}: write it as a formula.")
    return parse_formula(_field(content, "formula", str, place), place=place)


def _item(content: Mapping[str, Any], position: int, place: str) -> Item:
    number = content.get("item_number", position) if isinstance(content, dict) else position
    conditions: dict[str, Condition] = {}
    for each in _filled(content, "conditions", place):
        name = _field(each, "condition_name", str, place)
        if name in conditions:
            raise UserError(f"{place}: expected conditions of different names, found {name} twice: rename one.")
        where = f"{place}, condition {name}"
        regions = [
            (_field(region, "region_number", int, where), _field(region, "content", str, where))
            for region in _filled(each, "regions", where)
        ]
        _check_new([number for number, _ in regions], "region_number", where)
        conditions[name] = condition_of(regions, place=where)
    return Item(number, conditions)


def _check_new(numbers: Sequence[int], name: str, place: str) -> None:
    twice = [number for position, number in enumerate(numbers) if number in numbers[:position]]
    if twice:
        raise UserError(f"{place}: expected each {name} once, found {twice[0]} twice: renumber one.")


def condition_of(regions: Sequence[tuple[int, str]], *, place: str) -> Condition:
    """The sentence of regions, joined by single blanks; blank regions add nothing.

    >>> condition_of([(1, "The  cat"), (2, ""), (3, " sat")], place="demo")
    Condition(place='demo', text='The cat sat', spans={1: (0, 7), 2: (7, 7), 3: (8, 11)})

    Raises:
        UserError: all regions are blank.
    """
    text, spans = "", {}
    for number, content in regions:
        words = one_line(content)
        if words and text:
            text += " "
        spans[number] = (len(text), len(text) + len(words))
        text += words
    if not text:
        raise UserError(f"{place}: expected a sentence, found blank regions alone: fill one in.")
    return Condition(place, text, spans)


def _check_named(formula: Formula, item: Item, path: str) -> None:
    """Raises UserError unless an item has the regions that a formula names."""
    for region in formula.regions:
        condition = item.conditions.get(region.condition)
        if condition is None:
            raise UserError(
                f"{path}: item {item.number}: the formula names {region}, but there is no condition "
                f"{region.condition!r} among {', '.join(item.conditions)}: correct the formula or the item."
            )
        if region.number is not None and region.number not in condition.spans:
            raise UserError(
                f"{path}: item {item.number}, condition {region.condition}: the formula names {region}, but there is "
                f"no region {region.number} among {', '.join(map(str, condition.spans))}: correct the formula or the "
                "item."
            )
