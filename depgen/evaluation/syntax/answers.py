"""A system's answers to a benchmark of syntax, the options of both verbs, and the files that answers go to."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from pandas import DataFrame

from depgen.evaluation.frames import Row, check_table_output, written
from depgen.evaluation.syntax.sentences import Protocol as ProtocolName
from depgen.evaluation.syntax.sentences import usual_tokens
from depgen.evaluation.system import System, load
from depgen.evaluation.text_documents import Tokens
from depgen.language_models.base import Likelihood
from depgen.trees.text_form import FormName

MOST_UNKNOWN = 0.2
"""The largest share of pairs or items with `<unk>` at which a score still decides between systems."""


class _Item(Protocol):
    def row(self) -> Row:
        """The item as JSON holds it."""


Item = TypeVar("Item", bound=_Item, covariant=True)


@dataclass(frozen=True)
class Answers(Generic[Item]):
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


@dataclass(frozen=True)
class BenchmarkOptions:
    """The options that `depgen minimal-pairs` and `depgen syntactic-suites` share.

    Attributes:
        run: what `depgen.load` takes; by default the newest run.
        tokens: words are separated by `whitespace`, or by `rules` for English; by default rules for runs and the plain
            protocol.
        form: what words are brought into, as in `depgen score`.
        first_word_space: whether the first word is encoded with a space before it, as in `depgen score`.
        output: a file for the rows, with commas if its name ends in `.csv`; without it they are printed.
        json: JSON lines instead of tab-separated columns.
        beam_size: (systems whose scores are bounds) structures of a sentence that are summed over; see `depgen score`.
        tokens_per_batch: scored at once, padding included; no score depends on it.
        device: cpu, cuda, …; by default a GPU where there is one.
    """

    run: str | None = None
    tokens: Tokens | None = None
    form: FormName | None = None
    first_word_space: bool | None = None
    output: Path | None = None
    json: bool = False
    beam_size: int | None = None
    tokens_per_batch: int | None = None
    device: str | None = None

    def system(self) -> System:
        """The system that answers.

        Raises:
            UserError: there is none, or several are named.
        """
        return load(self.run, device=self.device, form=self.form, first_word_space=self.first_word_space)

    def scoring(self, protocol: ProtocolName, system: System) -> dict[str, Any]:
        """How sentences are scored, as `score_pairs` and `score_suites` take it."""
        return {
            "protocol": protocol,
            "tokens": self.tokens or usual_tokens(protocol, system),
            "beam_size": self.beam_size,
            "tokens_per_batch": self.tokens_per_batch,
            "progress": sys.stderr.isatty(),
        }

    def check_outputs(self, item_output: Path | None) -> None:
        """Raises UserError if the rows or the items can't be written to their files."""
        check_table_output(item_output, json=True)
        check_table_output(self.output, json=self.json)

    def written(self, found: Answers[_Item], rows: Sequence[Row], item_output: Path | None) -> Iterator[str] | None:
        """The rows as text, unless they go to a file; writes the items to theirs."""
        if item_output is not None:
            written([DataFrame([each.row() for each in found.items])], output=item_output, json=True)
        return written([DataFrame(rows)], output=self.output, json=self.json, digits=2)
