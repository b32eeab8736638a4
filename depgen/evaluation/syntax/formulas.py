"""Predictions of SyntaxGym as trees: comparisons of surprisals of regions, joined by `&` and `|`.

    claim      := conjunction ("|" conjunction)*
    conjunction := comparison ("&" comparison)*
    comparison := sum (("<" | ">" | "=") sum)?
    sum        := value (("+" | "-") value)*
    value      := number | "-" value | "(" (digits | "*") ";%" condition "%)" | "(" claim ")" | "[" claim "]"

`(5;%plaus%)` is the surprisal of region 5 in the condition `plaus`, and `(*;%plaus%)` the sum over all its regions.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from depgen.errors import UserError

_TOKEN = re.compile(
    r"\s*(?:\(\s*(?P<region>\d+|\*)\s*;\s*%(?P<condition>[^%]+)%\s*\)"
    r"|(?P<number>\d+(?:\.\d+)?|\.\d+)|(?P<symbol>[-+<>=&|()\[\]]))"
)
_CLOSING = {"(": ")", "[": "]"}
_CLAIMS = ("&", "|", "<", ">", "=")
_DEEPEST, _LONGEST = 100, 400
"""Brackets in each other, and regions, numbers and symbols, that a formula has at most."""
RELATIVE, ABSOLUTE = 1e-5, 1e-3
"""How far two surprisals may differ that `=` takes for equal, as in SyntaxGym."""


@dataclass(frozen=True)
class Region:
    """A region of a condition.

    Attributes:
        number: as the suite numbers it; None for all regions.
        condition: its name.
    """

    number: int | None
    condition: str

    def __str__(self) -> str:
        return f"({'*' if self.number is None else self.number};%{self.condition}%)"


@dataclass(frozen=True)
class Operation:
    """Two parts of a formula joined by a symbol."""

    symbol: str
    left: "Part"
    right: "Part"

    @property
    def is_claim(self) -> bool:
        """Whether it is true or false, and no number."""
        return self.symbol in _CLAIMS


Part = Region | Operation | float
Values = Callable[[Region], Any]
"""From a region to its surprisal: a number, or an array of one number a draw."""


@dataclass(frozen=True)
class Formula:
    """A prediction.

    Attributes:
        text: as in the suite.
        root: its parts.
    """

    text: str
    root: Operation

    @property
    def regions(self) -> list[Region]:
        """Those that it names, each once, in their order."""
        return list(dict.fromkeys(part for part in _parts(self.root) if isinstance(part, Region)))

    @property
    def compares_order_alone(self) -> bool:
        """Whether it compares regions with regions by `<` and `>` and nothing else, so that their order decides."""
        return all(
            isinstance(part, Region) or (isinstance(part, Operation) and part.symbol in "&|<>")
            for part in _parts(self.root)
        ) and all(region.number is not None for region in self.regions)

    def holds(self, values: Values) -> Any:  # noqa: ANN401 - a boolean, or an array of them
        """Whether it is true of surprisals; where a difference of two infinite ones enters a comparison, it is not."""
        with np.errstate(invalid="ignore"):
            return _value(self.root, values)


def _parts(part: Part) -> Iterator[Part]:
    yield part
    if isinstance(part, Operation):
        yield from _parts(part.left)
        yield from _parts(part.right)


_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "<": np.less,
    ">": np.greater,
    "=": lambda left, right: np.isclose(left, right, rtol=RELATIVE, atol=ABSOLUTE),
    "&": np.logical_and,
    "|": np.logical_or,
}


def _value(part: Part, values: Values) -> Any:  # noqa: ANN401
    if isinstance(part, Region):
        return values(part)
    if isinstance(part, Operation):
        return _OPERATIONS[part.symbol](_value(part.left, values), _value(part.right, values))
    return part


def parse_formula(text: str, *, place: str) -> Formula:
    """The formula of a text.

    >>> formula = parse_formula("[(5;%a%) > (5;%b%)] & [(5;%a%) - (5;%b%) > 0.5]", place="demo.json")
    >>> bool(formula.holds({Region(5, "a"): 3.0, Region(5, "b"): 2.0}.get))
    True

    Raises:
        UserError: it does not read as the grammar says, or is a number and no claim.
    """
    reader = _Reader(text, place)
    root = reader.claim()
    if reader.symbol is not None or reader.rest():
        raise reader.error("the end")
    if not _is_claim(root):
        raise UserError(f"{place}: expected a comparison such as (1;%a%) < (1;%b%), found {text!r}: compare it.")
    assert isinstance(root, Operation)
    return Formula(text, root)


class _Reader:
    """Reads a formula from left to right, one token ahead."""

    def __init__(self, text: str, place: str) -> None:
        self.text, self.place, self.depth, self.end, self.tokens = text, place, 0, 0, 0
        self.token: re.Match[str] | None = None
        self._next()

    def _next(self) -> None:
        self.start = len(self.text) - len(self.text[self.end :].lstrip())
        self.tokens += 1
        if self.tokens > _LONGEST:
            raise self.error(f"at most {_LONGEST} regions, numbers and symbols")
        self.token = _TOKEN.match(self.text, self.end)
        self.end = self.token.end() if self.token else self.end

    @property
    def symbol(self) -> str | None:
        """The symbol of the token ahead; "" for a region or a number, None at the end or before something unknown."""
        return None if self.token is None else (self.token["symbol"] or "")

    def rest(self) -> str:
        """What has not been read."""
        return self.text[self.start :].rstrip()

    def error(self, expected: str) -> UserError:
        found = repr(self.rest()[:20]) if self.rest() else "the end"
        return UserError(
            f"{self.place}: expected {expected} at character {self.start + 1} of the formula {self.text[:200]!r}, "
            f"found {found}. Formulas know + - < > = & | and brackets."
        )

    def claim(self) -> Part:
        return self._chain("|", lambda: self._chain("&", self._comparison, claims=True), claims=True)

    def _chain(self, symbols: str, operand: Callable[[], Part], *, claims: bool) -> Part:
        """Operands with symbols between them, joined from the left."""
        found = operand()
        while self.symbol and self.symbol in symbols:
            symbol = self.symbol
            self._check(found, symbol, claim=claims)
            self._next()
            right = operand()
            self._check(right, symbol, claim=claims)
            found = Operation(symbol, found, right)
        return found

    def _comparison(self) -> Part:
        left = self._sum()
        if not self.symbol or self.symbol not in "<>=":
            return left
        symbol = self.symbol
        self._check(left, symbol, claim=False)
        self._next()
        right = self._sum()
        self._check(right, symbol, claim=False)
        return Operation(symbol, left, right)

    def _sum(self) -> Part:
        return self._chain("+-", self._operand, claims=False)

    def _check(self, part: Part, symbol: str, *, claim: bool) -> None:
        if _is_claim(part) != claim:
            kind = "comparisons" if claim else "numbers"
            raise UserError(f"{self.place}: expected {kind} on both sides of {symbol} in the formula {self.text!r}.")

    def _operand(self) -> Part:
        token, symbol = self.token, self.symbol
        if token is None or symbol not in ("", "-", *_CLOSING):
            raise self.error("a region, a number or a bracket")
        self._next()
        if token["condition"] is not None:
            return Region(None if token["region"] == "*" else int(token["region"]), token["condition"].strip())
        if token["number"] is not None:
            return float(token["number"])
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.error(f"at most {_DEEPEST} brackets in each other")
        if symbol == "-":
            found: Part = Operation("-", 0.0, self._operand())
        else:
            assert symbol is not None
            found = self.claim()
            if self.symbol != _CLOSING[symbol]:
                raise self.error(f"{_CLOSING[symbol]!r}")
            self._next()
        self.depth -= 1
        return found


def _is_claim(part: Part) -> bool:
    return isinstance(part, Operation) and part.is_claim
