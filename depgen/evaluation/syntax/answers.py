"""A system's answers to a benchmark of syntax, and the files that they are written to."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from depgen.evaluation.syntax.sentences import Protocol as ProtocolName
from depgen.evaluation.tabular import Row, Tabular, as_json_lines, written_table
from depgen.language_models.base import Likelihood
from depgen.locations import write_atomically

MOST_UNKNOWN = 0.2
"""The largest share of pairs or items with `<unk>` at which a score still decides between systems."""


class _Item(Protocol):
    def row(self) -> Row:
        """The item as JSON holds it."""


Item = TypeVar("Item", bound=_Item, covariant=True)


@dataclass(frozen=True)
class Answers(Tabular, Generic[Item]):
    """A system's answers to all pairs or items of a benchmark.

    Attributes:
        items: the pairs or items with their scores.
        protocol: how they were scored.
        likelihood: what the scores are; accuracies of different kinds do not compare.
        beam_size: of a bound; None for other scores.
    """

    items: tuple[Item, ...]
    protocol: ProtocolName
    likelihood: Likelihood
    beam_size: int | None = None

    def finished(self, row: Row, counted: str) -> Row:
        """A row with the share of items with `<unk>`, whether it decides, the protocol and the kind of likelihood.

        Args:
            row: has the number of items and of those without `<unk>`.
            counted: the name of the former; the latter has `known_` before it.
        """
        unknown = 100 * (row[counted] - row[f"known_{counted}"]) / row[counted]
        decided = unknown <= 100 * MOST_UNKNOWN
        kind = {"protocol": self.protocol, "likelihood": self.likelihood, "beam_size": self.beam_size}
        return row | {"unknown": unknown, "decided": decided, **kind}


def written(
    found: Answers[_Item], rows: Sequence[Row], *, item_output: Path | None, output: Path | None, json: bool
) -> str | None:
    """The rows as text, unless they go to a file; writes the items to theirs."""
    if item_output is not None:
        write_atomically(item_output, as_json_lines(each.row() for each in found.items))
    return written_table(rows, output=output, json=json, digits=2)
