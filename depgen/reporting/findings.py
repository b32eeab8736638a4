"""What a table's comparisons found, in sentences with their numbers and how sure they are."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from depgen.reporting.compare import SystemComparison, Verdict
from depgen.reporting.definition import Column
from depgen.reporting.extras import p_value_in_words
from depgen.reporting.store import Ours

_SAID: dict[Verdict, str] = {
    "wins": "better than",
    "loses": "worse than",
    "ahead over items only": "ahead of",
    "behind over items only": "behind",
    "undecided": "not surely different from",
    "not compared": "not comparable with",
}
_COUNTED: dict[Verdict, str] = {"wins": "better", "loses": "worse"}
DECIDED: tuple[Verdict, ...] = ("wins", "loses")
ITEMS_ONLY: tuple[Verdict, ...] = ("ahead over items only", "behind over items only")


@dataclass(frozen=True)
class Finding:
    """One comparison in words.

    Attributes:
        claim: which system is better than which, in what.
        numbers: of both, in this order.
        sure: the p-values, or why there are none.
        verdict: of the comparison.
    """

    claim: str
    numbers: str
    sure: str
    verdict: Verdict


def findings(ours: Ours, comparisons: Sequence[SystemComparison]) -> list[Finding]:
    """The comparisons that the table's rows name, in the table's order."""
    return [_finding(ours, each) for each in comparisons if each.other in ours.definition.row(each.row).against]


def _finding(ours: Ours, item: SystemComparison) -> Finding:
    column = ours.definition.column(item.column)
    sure = [] if item.p_seeds is None else [f"seeds {p_value_in_words(item.p_seeds)}"]
    sure += [] if item.p_items is None else [f"items {p_value_in_words(item.p_items)}"]
    reason = item.incomparable or item.untested
    return Finding(
        f"{column.header}: {item.row} {_SAID[item.verdict]} {item.other}",
        " against ".join(_number(ours, name, column) for name in (item.row, item.other)),
        ", ".join(sure) or (reason or "not tested"),
        item.verdict,
    )


def _number(ours: Ours, row: str, column: Column) -> str:
    figure = ours.figures[row, column.key]
    deviation = "" if figure.deviation is None else f" ± {figure.deviation:.{column.decimals}f}"
    return f"{figure.mean:.{column.decimals}f}{deviation}"


def counted(found: Sequence[Finding]) -> str:
    """How many comparisons have each verdict; empty where there is none.

    >>> counted([Finding("", "", "", "wins"), Finding("", "", "", "undecided"), Finding("", "", "", "undecided")])
    '1 better, 2 undecided'
    """
    numbers = Counter(each.verdict for each in found)
    return ", ".join(
        f"{numbers[verdict]} {_COUNTED.get(verdict, verdict)}" for verdict in get_args(Verdict) if numbers[verdict]
    )
