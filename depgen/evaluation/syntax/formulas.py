"""Predictions of SyntaxGym: comparisons of surprisals of regions, joined by `&` and `|`, with `+`, `-` and brackets.

`(5;%plaus%)` is the surprisal of region 5 in the condition `plaus`, and `(*;%plaus%)` the sum over all its regions.
As in syntaxgym-core (`prediction.py`), `+` and `-` bind more than comparisons, and these more than `&` and `|`, which
bind alike and are read from the left: `A | B & C` is `(A | B) & C`. With regions as names and other signs, such a
formula is an expression of Python, whose parser is used.
"""

import ast
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from depgen.errors import UserError

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


def chance_of(formula: Formula, *, empty: Collection[Region] = (), parts: int = 1, seed: int = 0) -> float:
    """The probability that a prediction holds where each region has an independent random surprisal.

    It is exact where only the order of surprisals decides. Otherwise it is estimated from `DRAWS` draws from the
    exponential distribution.

    Args:
        formula: the prediction.
        empty: regions without words, whose surprisal is 0.
        parts: regions that `(*;%condition%)` sums over.
        seed: of the draws.

    >>> chance_of(parse_formula("[(1;%a%) < (1;%b%)] & [(1;%a%) < (1;%c%)]", place="demo.json"))
    0.3333333333333333
    """
    regions = formula.regions
    if formula.compares_order_alone and len(regions) <= _MOST_ENUMERATED and not {*regions} & {*empty}:
        orders = np.array(list(permutations(range(len(regions)))), dtype=np.float64).T
        return float(np.mean(formula.holds(dict(zip(regions, orders, strict=True)).__getitem__)))
    generator, drawn = np.random.default_rng(seed), {}
    for region in regions:
        draws = generator.gamma(parts if region.number is None else 1, size=DRAWS)
        drawn[region] = draws * (region not in empty)
    return float(np.mean(formula.holds(drawn.__getitem__)))
