"""What a measure finds about a system: items, with which significance is tested, and rows, their sums by level."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from depgen.evaluation.frames import check_table_output, written
from depgen.evaluation.system import System, load
from depgen.evaluation.text_documents import Tokens
from depgen.trees.text_form import FormName


@dataclass(frozen=True)
class Measured:
    """The outcome of a measure.

    Attributes:
        items: a row each.
        rows: their sums and means by level (`level`, `name`), the last one overall.
    """

    items: pd.DataFrame
    rows: pd.DataFrame


@dataclass(frozen=True)
class MeasureOptions:
    """The options that verbs which measure a system share.

    Attributes:
        run: what `depgen.load` takes; by default the newest run.
        tokens: words are separated by `whitespace`, or by `rules` for English; by default rules for runs and the plain
            protocol.
        form: what words are brought into, as in `depgen score`.
        first_word_space: whether the first word is encoded with a space before it, as in `depgen score`.
        output: a file for the rows, with commas if its name ends in `.csv`; without it they are printed.
        item_output: a file for the items, as JSON lines.
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
    item_output: Path | None = None
    json: bool = False
    beam_size: int | None = None
    tokens_per_batch: int | None = None
    device: str | None = None

    def check(self) -> None:
        """Raises UserError if the rows or the items can't be written to their files."""
        check_table_output(self.item_output, json=True)
        check_table_output(self.output, json=self.json)

    def system(self) -> System:
        """The system that is measured."""
        return load(self.run, device=self.device, form=self.form, first_word_space=self.first_word_space)

    def written(self, found: Measured) -> Iterator[str] | None:
        """The rows as text, unless they go to a file; writes the items to theirs."""
        if self.item_output is not None:
            written([found.items], output=self.item_output, json=True)
        return written([found.rows], output=self.output, json=self.json, digits=2)
